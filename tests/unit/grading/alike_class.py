"""A class made by a script: right tiled matrix products in styles of their own, and copies that are disguised.

A style is a choice at seven places of the kernel: how a thread finds its element, how tiles are declared and filled,
how the loops go, how products are added, how the result is stored. Students who work alone differ at three places or
more. A disguise keeps what the kernel does and changes what it looks like.
"""

from __future__ import annotations

import itertools
import random
import re

HEADER = """\
// Entry:   matmul(const float A[M,K] in, const float B[K,N] in, float C[M,N] out, int M, int N, int K)
// Launch:  matmul block=(TILE, TILE) grid=(cdiv(N, TILE), cdiv(M, TILE))
"""
PLACES = (
    (  # which element
        "const int ty = threadIdx.y, tx = threadIdx.x;\n"
        "const int row = blockIdx.y * TILE + ty;\nconst int col = blockIdx.x * TILE + tx;",
        "const int flat = threadIdx.y * blockDim.x + threadIdx.x;\nconst int ty = flat / TILE;\n"
        "const int tx = flat % TILE;\nconst int top = blockIdx.y * TILE, left = blockIdx.x * TILE;\n"
        "const int row = top + ty, col = left + tx;",
        "const int tx = threadIdx.x;\nconst int col = tx + blockDim.x * blockIdx.x;\nconst int ty = threadIdx.y;\n"
        "const int row = ty + blockDim.y * blockIdx.y;\nconst bool inside = row < M && col < N;",
    ),
    (  # tiles: declaration, A's element, B's element
        ("__shared__ float tileA[TILE][TILE];\n__shared__ float tileB[TILE][TILE];", "tileA[{0}][{1}]",
         "tileB[{0}][{1}]"),
        ("__shared__ float both[2 * TILE * TILE];\nfloat* const first = both;\n"
         "float* const second = both + TILE * TILE;",
         "first[({0}) * TILE + {1}]", "second[({0}) * TILE + {1}]"),
        ("__shared__ struct { float a[TILE][TILE + 1]; float b[TILE][TILE]; } cache;", "cache.a[{0}][{1}]",
         "cache.b[{0}][{1}]"),
        ("__shared__ float turned[TILE][TILE + 1], plain[TILE][TILE];", "turned[{1}][{0}]", "plain[{0}][{1}]"),
    ),
    (  # the loop over tiles; each gives `k0`
        ("for (int k0 = 0; k0 < K; k0 += TILE) {", "}"),
        ("const int rounds = (K + TILE - 1) / TILE;\nfor (int t = 0; t < rounds; ++t) {\nconst int k0 = t * TILE;",
         "}"),
        ("int k0 = 0;\nwhile (k0 < K) {", "k0 += TILE;\n}"),
        ("int left_over = K;\ndo {\nconst int k0 = K - left_over;", "left_over -= TILE;\n} while (left_over > 0);"),
    ),
    (  # filling
        "{a} = row < M && k0 + tx < K ? A[row * K + k0 + tx] : 0.0f;\n"
        "{b} = k0 + ty < K && col < N ? B[(k0 + ty) * N + col] : 0.0f;",
        "float va = 0.0f, vb = 0.0f;\nif (row < M && k0 + tx < K) {{\nva = A[row * K + (k0 + tx)];\n}}\n"
        "if (col < N && k0 + ty < K) {{\nvb = B[(k0 + ty) * N + col];\n}}\n{a} = va;\n{b} = vb;",
        "if (row < M && k0 + tx < K) {{\n{a} = A[row * K + k0 + tx];\n}} else {{\n{a} = 0.0f;\n}}\n"
        "if (k0 + ty < K && col < N) {{\n{b} = B[(k0 + ty) * N + col];\n}} else {{\n{b} = 0.0f;\n}}",
        "const int ra = min(row, M - 1), ca = min(k0 + tx, K - 1);\n"
        "const int rb = min(k0 + ty, K - 1), cb = min(col, N - 1);\n"
        "const float seenA = A[ra * K + ca], seenB = B[rb * N + cb];\n"
        "{a} = ra == row && ca == k0 + tx ? seenA : 0.0f;\n{b} = rb == k0 + ty && cb == col ? seenB : 0.0f;",
    ),
    (  # products; `{a}` and `{b}` take k
        ("float sum = 0.0f;", "for (int k = 0; k < TILE; ++k) {{\nsum += {a} * {b};\n}}", "sum"),
        ("float even = 0.0f, odd = 0.0f;",
         "for (int k = 0; k < TILE; ++k) {{\nif (k % 2 == 0) {{\neven += {a} * {b};\n}} else {{\n"
         "odd += {a} * {b};\n}}\n}}",
         "(even + odd)"),
        ("float total = 0.0f;",
         "float part = 0.0f;\nfor (int k = TILE - 1; k >= 0; --k) {{\npart = fmaf({a}, {b}, part);\n}}\ntotal += part;",
         "total"),
        ("float acc[1] = {0.0f};",
         "int k = 0;\nwhile (k < TILE) {{\nconst float left_one = {a};\nconst float right_one = {b};\n"
         "acc[0] = acc[0] + left_one * right_one;\nk++;\n}}", "acc[0]"),
    ),
    (  # storing
        "if (row < M && col < N) {{\nC[row * N + col] = {sum};\n}}",
        "if (row >= M || col >= N) {{\nreturn;\n}}\nfloat* const target = C + row * N;\ntarget[col] = {sum};",
        "const int at = row * N + col;\nconst bool mine = row < M && col < N;\nif (mine) {{\nC[at] = {sum};\n}}",
    ),
    ("16", "32"),
)  # fmt: skip
Style = tuple[int, ...]


def kernel(style: Style, *, split: bool = False) -> str:
    """The kernel of a style; `split`: what fills and what multiplies stand in functions of their own."""
    place, tiles, loop, fill, products, store, tile = (PLACES[at][choice] for at, choice in enumerate(style))
    declared, a, b = tiles
    before, within, total = products
    helper = ""
    filling = fill.format(a=a.format("ty", "tx"), b=b.format("ty", "tx"))
    adding = within.format(a=a.format("ty", "k"), b=b.format("k", "tx"))
    if split:
        helper = (
            "__device__ __forceinline__ float product_of(float one, float other)\n{\nreturn one * other;\n}\n\n"
            "__device__ __forceinline__ int place_of(int line, int width, int along)\n{\n"
            "return line * width + along;\n}\n\n"
        )
        filling = re.sub(r"B\[\(k0 \+ ty\) \* N \+ col\]", "B[place_of(k0 + ty, N, col)]", filling)
        filling = re.sub(r"A\[row \* K \+ k0 \+ tx\]", "A[place_of(row, K, k0 + tx)]", filling)
        store = store.replace("C[row * N + col]", "C[place_of(row, N, col)]")
        adding = re.sub(r"= (\S+\[.*?\]) \* (\S+\[.*?\]);", r"= product_of(\1, \2);", adding)
    body = "\n".join([
        declared, place, before, loop[0], filling, "__syncthreads();", adding, "__syncthreads();", loop[1],
        store.format(sum=total),
    ])  # fmt: skip
    return (
        f"{HEADER}\nconstexpr int TILE = {tile};\n\n{helper}"
        'extern "C" __global__ void matmul(const float* __restrict__ A, const float* __restrict__ B,\n'
        f"float* __restrict__ C, int M, int N, int K)\n{{\n{body}\n}}\n"
    )


def styles(count: int, *, seed: int, least: int = 3) -> list[Style]:
    """Styles of students who work alone: any two differ at `least` places or more, the tile's size not counted."""
    chance = random.Random(seed)
    every = list(itertools.product(*(range(len(choices)) for choices in PLACES)))
    chance.shuffle(every)
    found: list[Style] = []
    for style in every:
        if len(found) == count:
            break
        if all(sum(map(int.__ne__, style[:-1], other[:-1])) >= least for other in found):
            found.append(style)
    return found


# ---------------------------------------------------------------- disguises

_OWN_NAMES = re.compile(
    r"\b(?:tileA|tileB|both|first|second|cache|turned|plain|row|col|tx|ty|flat|top|left|inside|k0|rounds|t|left_over|va|vb"
    r"|ra|ca|rb|cb|seenA|seenB|sum|even|odd|total|part|acc|k|left_one|right_one|target|at|mine|product_of|place_of)\b"
)  # fmt: skip


def renamed(source: str) -> str:
    """Other names, in camel case."""
    names = {name: f"my{chr(65 + n % 26)}{n}" for n, name in enumerate(sorted(set(_OWN_NAMES.findall(_body(source)))))}
    return _changed(source, lambda body: _OWN_NAMES.sub(lambda found: names[found[0]], body))


def laid_out(source: str) -> str:
    """Comments everywhere, tabs, braces on lines of their own."""
    body = re.sub(r" \{$", "\n{ // now", _body(source), flags=re.MULTILINE)
    lines = [f"\t{line}  /* step {n} */" if n % 3 == 0 else f"\t{line}" for n, line in enumerate(body.split("\n"))]
    return _changed(source, lambda _: "\n// all of this is my own work\n" + "\n\n".join(lines))


def respelt(source: str) -> str:
    """Literals, casts, steps and comparisons in another spelling."""
    body = _body(source).replace("0.0f", "0.f").replace("++k", "k += 1").replace("++t", "t++")
    body = body.replace("const int", "int")
    body = re.sub(r"\brow < M\b", "M > row", body)
    body = re.sub(r"\bcol < N\b", "(N > col)", body)
    body = re.sub(r"\bk0 \+= TILE", "k0 = k0 + TILE", body)
    return _changed(source, lambda _: re.sub(r"= 0;", "= 0x0;", body))


_DECLARATION = re.compile(r"(?:const )?(?:int|float) \w+ = [^;]*;$|__shared__ float \w+\[")


def reordered(source: str) -> str:
    """Neighbouring declarations that do not need each other change places."""
    lines = _body(source).split("\n")
    for at in range(len(lines) - 1):
        one, other = lines[at : at + 2]
        if all(_DECLARATION.match(line) for line in (one, other)):
            name = re.search(r"(\w+)(?= =|\[)", one)
            if name is not None and not re.search(rf"\b{name[1]}\b", other):
                lines[at : at + 2] = [other, one]
    return _changed(source, lambda _: "\n".join(lines))


def _body(source: str) -> str:
    return source.removeprefix(HEADER)


def _changed(source: str, change) -> str:
    return HEADER + change(_body(source))


DISGUISES = (renamed, laid_out, respelt, reordered)


def disguised(style: Style, *, seed: int) -> str:
    """A copy of a style's kernel: renamed, other disguises by chance, half of them split into helpers."""
    chance = random.Random(seed)
    source = kernel(style, split=chance.random() < 0.5)
    for change in chance.sample(DISGUISES, chance.randint(2, len(DISGUISES))):
        source = change(source)
    return renamed(source)
