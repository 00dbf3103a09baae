"""Random CUDA C++ programs without undefined behaviour or races: a pure function of seed and number.

A text says in its first lines how it is to be launched (`Launch.of`), so that it is a case by itself.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from dataclasses import dataclass

from .expressions import asm_function
from .statements import Callee, Function, Statements, function
from .tables import ATOMICS, HALVES, KINDS

WORDS = 16
"""of output for each thread"""
SUMS = 64
"""words that atomics change"""
BLOCKS = (
    (32, 1, 1), (64, 1, 1), (33, 1, 1), (50, 1, 1), (96, 1, 1), (16, 8, 1), (8, 12, 1), (7, 5, 1), (4, 3, 5), (8, 4, 4),
    (128, 1, 1), (1, 1, 1), (5, 31, 1), (1, 64, 1), (2, 2, 40),
)  # fmt: skip
GRIDS = ((1, 1, 1), (2, 1, 1), (3, 1, 1), (2, 2, 1), (1, 2, 2), (1, 3, 1))
HEAD = """#define INT_MAX 2147483647
#define INT_MIN (-INT_MAX - 1)
#define LLONG_MAX 9223372036854775807ll
#define LLONG_MIN (-LLONG_MAX - 1ll)
#undef INFINITY
#define INFINITY __int_as_float(0x7f800000)
struct Parameters { unsigned words[5]; float scale; unsigned long long wide; short shorts[4]; int offset; };
struct Globals { unsigned t; const unsigned* x; const float* fy; const double* dy; const Parameters* p; };
struct Mixed {
    int i; short s; unsigned short w; float f; unsigned long long q; unsigned char y;
    unsigned low : 5, high : 11;
    short words[3];
};
__device__ unsigned bits_of(float v) { return isnan(v) ? 7u : __float_as_uint(v); }
__device__ unsigned long long bits_of(double v)
{
    return isnan(v) ? 7ull : (unsigned long long)__double_as_longlong(v);
}
template <typename T> __device__ T divided(T a, T b) { return b == T(0) || b == T(-1) ? T(3) : T(a / b); }
template <typename T> __device__ T remainder_of(T a, T b) { return b == T(0) || b == T(-1) ? a : T(a % b); }
template <typename T> __device__ __noinline__ unsigned sum_of(const T* a, int n)
{
    unsigned sum = 0;
    for (int k = 0; k < n; ++k) sum = sum * 3u + (unsigned)a[k];
    return sum;
}
__device__ Mixed mixed_of(int i, short s, unsigned short w, float f, unsigned long long q, unsigned char y, unsigned u)
{
    return {i, s, w, f, q, y, u & 31u, (u >> 5) & 2047u, {s, (short)(s ^ 1), (short)w}};
}
__device__ __noinline__ void change(Mixed& m, unsigned u)
{
    m.q += u;
    m.words[u % 3u] = (short)(m.words[0] ^ u);
    m.low = (m.low + u) & 31u;
    if (u & 1u) m.f = -m.f; else m.y ^= (unsigned char)u;
}
__device__ __noinline__ Mixed changed(Mixed m, unsigned u) { change(m, u + 3u); m.i = (int)(m.i ^ u); return m; }
__device__ unsigned digest_of(const Mixed& m)
{
    const unsigned wide = bits_of(m.f) * 7u + (unsigned)m.q + (unsigned)(m.q >> 32);
    const unsigned some = wide + (unsigned)m.i + m.s * 3u + m.w * 5u + m.y + m.low * 11u + m.high * 13u;
    return some + m.words[0] + m.words[1] * 17u + m.words[2];
}
"""
HALF_HEAD = """#include <cuda_fp16.h>
#include <cuda_bf16.h>
"""
HALF_BITS = """__device__ unsigned bits_of(__half v) { return __hisnan(v) ? 7u : __half_as_ushort(v); }
__device__ unsigned bits_of(__nv_bfloat16 v) { return __hisnan(v) ? 7u : __bfloat16_as_ushort(v); }
"""
SIGNATURE = (
    'extern "C" __global__ void k(const unsigned* __restrict__ x, const float* fy, const double* dy,\n'
    "                             unsigned* scratch, unsigned* out, unsigned* sums, const Parameters p)"
)


_LAUNCH = re.compile(
    r"^// launch: grid (\d+) (\d+) (\d+) block (\d+) (\d+) (\d+) "
    r"shared (\d+) arch (\w+) data (\d+) options ?(.*)$", re.M,
)  # fmt: skip


@dataclass(frozen=True)
class Launch:
    """How a text is compiled and launched."""

    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    shared_bytes: int
    arch: str
    options: tuple[str, ...]
    data: int
    """seed of the inputs"""

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return self.block[0] * self.block[1] * self.block[2]

    @property
    def blocks(self) -> int:
        return self.grid[0] * self.grid[1] * self.grid[2]

    def __str__(self) -> str:
        shapes = f"grid {' '.join(map(str, self.grid))} block {' '.join(map(str, self.block))}"
        options = " ".join(self.options)
        made = f"shared {self.shared_bytes} arch {self.arch} data {self.data} options {options}"
        return f"// launch: {shapes} {made}".rstrip()

    @classmethod
    def of(cls, text: str) -> Launch:
        """The launch that a text's line says. Raises ValueError where there is none."""
        found = _LAUNCH.search(text)
        if not found:
            raise ValueError("the text has no line that begins with '// launch: grid'")
        gx, gy, gz, bx, by, bz, shared = map(int, found.groups()[:7])
        return cls((gx, gy, gz), (bx, by, bz), shared, found[8], tuple(found[10].split()), int(found[9]))


_FOLDED = "(unsigned)({0} ^ {0} >> 32)"
_WORD_OF = {
    "q": _FOLDED, "l": _FOLDED, "d": "(unsigned)(bits_of({0}) ^ bits_of({0}) >> 32)",
    **dict.fromkeys("fhb", "bits_of({0})"),
}  # fmt: skip
"""A value as a word of output."""


class Program(Statements):
    """A kernel: statements of threads, and between them what warps and blocks do together."""

    def __init__(self, rng: random.Random, letters: str, launch: Launch, callees: list[Callee], *, exact: bool) -> None:
        super().__init__(rng, letters, callees, exact=exact, room=rng.choice((4, 6, 8, 8, 12, 18)))
        self.launch, self.threads = launch, launch.threads
        self.whole_warps = self.threads % 32 == 0
        self.shared: list[str] = []
        self.ended = False

    def body_text(self) -> str:
        r = self.random
        for letter in self.letters * 2:
            self.declare(letter, self.value(letter, 1))
        for _ in range(r.choice((2, 3, 3, 4, 5))):
            r.choice(self.all_ways)(self)
        if r.random() < 0.15:
            self.last_block()
        self.results()
        return "\n".join(self.lines)

    def results(self) -> None:
        """Every variable into the thread's words of output; some threads leave early."""
        r, written = self.random, []
        for n in range(WORDS):
            letter = self.letters[n % len(self.letters)]
            name = self.names[letter][n // len(self.letters) % len(self.names[letter])]
            written.append(_WORD_OF.get(letter, "(unsigned){0}").format(name))
        if r.random() < 0.3:
            for n in range(0, WORDS, 4):
                four = f"make_uint4({', '.join(written[n : n + 4])})"
                self.emit(f"reinterpret_cast<uint4*>(out)[(i * {WORDS}u + {n}u) / 4u] = {four};")
            return
        early = r.randrange(4, WORDS) if r.random() < 0.4 else WORDS
        for n, text in enumerate(written):
            if n == early:
                self.emit(f"if ({self.condition()}) return;")
            self.emit(f"out[i * {WORDS}u + {n}u] = {text};")

    # ------------------------------------------------------------ blocks

    def array_of_block(self, letter: str = "u") -> str:
        """A new shared array with an element for each thread."""
        name = self.fresh("shared")
        self.shared.append(f"__shared__ {KINDS[letter].name} {name}[{self.threads}];")
        return name

    def barrier(self) -> None:
        r = self.random
        if self.whole_warps and r.random() < 0.1:
            self.emit(f'asm volatile("bar.sync {r.randint(1, 7)}, {self.threads};" ::: "memory");')
        elif r.random() < 0.15:
            self.emit(f"{self.name('i')} += __syncthreads_{r.choice(('count', 'or', 'and'))}({self.condition()});")
        else:
            self.emit("__syncthreads();")

    def other_thread(self) -> str:
        """Another thread of the block, by number."""
        n, r = self.threads, self.random
        near = f"(t + {r.randint(0, n)}u) % {n}u", f"{n - 1}u - t", "t / 4u"
        return r.choice((*near, f"{r.randrange(n)}u", f"{self.value('u', 1)} % {n}u"))

    def exchange(self) -> None:
        """Each thread reads what another has written."""
        letter = self.letter()
        s = self.array_of_block(letter)
        self.emit(f"{s}[t] = {self.value(letter)};")
        self.barrier()
        self.emit(f"{self.name(letter)} = {s}[{self.other_thread()}];")
        if self.random.random() < 0.5:
            self.emit(f"if ({self.condition()}) {self.name(letter)} = {s}[{self.other_thread()}];")
        self.barrier()

    def rounds(self) -> None:
        """A loop around barriers, as long for all threads of a block."""
        s, k = self.array_of_block(), self.fresh("k")
        bound = self.random.choice(("3u", "gridDim.x + 1u", "blockIdx.x % 3u + 1u", "p.words[4] % 5u"))
        self.in_loop.append("barriers")  # nobody leaves this loop alone
        with self.scope(f"for (unsigned {k} = 0; {k} < {bound}; ++{k}) {{"):
            self.body(1)
            self.emit(f"{s}[t] = {self.value('u')};")
            self.emit("__syncthreads();")
            self.emit(f"{self.name('u')} += {s}[(t + {k}) % {self.threads}u];")
            self.barrier()
        self.in_loop.pop()

    def tree(self) -> None:
        """A sum in shared memory, halved in each round."""
        s, k, n = self.array_of_block(), self.fresh("k"), self.threads
        first = 1 << (n - 1).bit_length() >> 1
        self.emit(f"{s}[t] = {self.value('u')};")
        self.emit("__syncthreads();")
        with self.scope(f"for (unsigned {k} = {first}u; {k} > 0u; {k} >>= 1) {{"):
            self.emit(f"if (t < {k} && t + {k} < {n}u) {s}[t] += {s}[t + {k}];")
            self.emit("__syncthreads();")
        self.emit(f"{self.name('u')} ^= {s}[0];")
        self.emit("__syncthreads();")

    def bins(self) -> None:
        """A histogram of the block, by atomics on shared memory."""
        s, r = self.fresh("bins"), self.random
        what = r.choice(("Add", "Max", "Or", "Xor", "Min"))
        self.shared.append(f"__shared__ unsigned {s}[16];")
        self.emit(f"for (unsigned z = t; z < 16u; z += {self.threads}u) {s}[z] = {'~0u' if what == 'Min' else 'z'};")
        self.emit("__syncthreads();")
        with self.scope(f"if ({self.condition()}) {{" if r.random() < 0.5 else "{"):
            self.emit(f"atomic{what}(&{s}[{self.value('u', 1)} & 15u], {self.value('u', 1)});")
            self.statement()
        self.barrier()
        self.emit(f"{self.name('u')} += {s}[{self.value('u', 1)} & 15u];")
        self.barrier()

    def dynamic(self) -> None:
        """Dynamic shared memory, as bytes and as words."""
        if self.launch.shared_bytes < 4 * self.threads:
            self.exchange()
            return
        self.emit(f"reinterpret_cast<unsigned*>(dynamic_bytes)[t] = {self.value('u')};")
        self.emit("__syncthreads();")
        self.emit(f"{self.name('u')} ^= dynamic_bytes[{self.value('u', 1)} % {4 * self.threads}u];")
        self.emit("__syncthreads();")

    def through_global(self) -> None:
        """Words of global memory that threads of a block hand to each other."""
        self.emit(f"scratch[i] = {self.value('u')};")
        self.emit("__syncthreads();")
        self.emit(f"{self.name('u')} = scratch[i - t + {self.other_thread()}];")
        self.emit("__syncthreads();")

    def block_if(self) -> None:
        """Barriers below a condition that is the same for all threads of a block."""
        what = self.random.choice(("blockIdx.x", "blockIdx.y + blockIdx.z", "gridDim.x", "p.words[1]"))
        with self.scope(f"if (({what} & 1u) == 0u) {{"):
            self.exchange()
            self.body(1)

    def last_block(self) -> None:
        """The block that comes last adds up what all have left."""
        n = self.launch.blocks
        self.shared.append("__shared__ unsigned last;")
        own = self.name("u")
        self.emit("if (t == 0u) {")
        self.emit(f"    scratch[{n * self.threads}u + b] = {own};")
        self.emit("    __threadfence();")
        self.emit(f"    last = atomicAdd(scratch + {n * self.threads + n}u, 1u) == {n - 1}u;")
        self.emit("}")
        self.emit("__syncthreads();")
        with self.scope("if (last) {"):
            self.emit("__threadfence();")
            total = self.fresh("total")
            self.emit(f"unsigned {total} = 0u;")
            self.emit(f"for (unsigned z = 0; z < {n}u; ++z) {total} += scratch[{n * self.threads}u + z];")
            self.emit(f"if (t == 0u) sums[63] = {total};")

    # ------------------------------------------------------------ warps

    def shuffle(self) -> None:
        r, letter = self.random, self.random.choice([k for k in self.letters if k in "uiqlfd"])
        value, form = self.value(letter), "__shfl_sync(members, {0}, {1} % count)"
        if self.whole_warps:
            way, width = r.choice(("xor_", "down_", "up_", "")), r.choice(("", "", ", 16", ", 8", ", 2"))
            lane = str(r.randrange(32)) if way else "{1}"
            form = f"__shfl_{way}sync(~0u, {{0}}, {lane}{width})"
        self.emit(f"{self.name(letter)} = {form.format(value, self.value('u', 1))};")

    def vote(self) -> None:
        r, c = self.random, self.condition()
        self.emit(f"{self.name('u')} += __{r.choice(('ballot', 'any', 'all', 'ballot'))}_sync(members, {c});")

    def match(self) -> None:
        """Groups of lanes with equal values, each of which does something together."""
        m, r = self.fresh("group"), self.random
        letter = r.choice("uiq")
        self.emit(f"const unsigned {m} = __match_any_sync(members, {self.value(letter)} % {r.randint(2, 9)});")
        self.emit(f"{self.name('u')} += {m};")
        self.together(m)
        if r.random() < 0.3:
            same = self.fresh("same")
            self.emit(f"int {same};")
            self.emit(f"{self.name('u')} ^= __match_all_sync(members, {self.value('u', 1)} & 1u, &{same}) + {same};")

    def together(self, mask: str) -> None:
        """Something among the lanes of a mask, all of which are here."""
        r = self.random
        letter = r.choice([k for k in self.letters if k in "uiqlfd"])
        reduce = r.choice(("add", "min", "max", "and", "or", "xor"))
        forms = [
            f"{self.name(letter)} = __shfl_sync({mask}, {self.value(letter, 1)}, __ffs({mask}) - 1);",
            f"{self.name('u')} = __reduce_{reduce}_sync({mask}, {self.value('u', 1)});",
            f"{self.name('i')} = __reduce_{r.choice(('add', 'min', 'max'))}_sync({mask}, {self.value('i', 1)});",
            f"{self.name('u')} ^= __ballot_sync({mask}, {self.condition()});",
            f"__syncwarp({mask});",
        ]
        for _ in range(r.randint(1, 2)):
            self.emit(r.choice(forms))

    def parted(self) -> None:
        """Lanes that have parted do something together, on both sides."""
        c, m = self.fresh("c"), self.fresh("group")
        self.emit(f"const bool {c} = {self.condition()};")
        self.emit(f"const unsigned {m} = __ballot_sync(members, {c});")
        with self.scope(f"if ({c}) {{"):
            self.body(1)
            self.together(m)
        if self.random.random() < 0.6:
            with self.scope("else {"):
                self.together(f"(members & ~{m})")
                self.body(1)

    def warp_if(self) -> None:
        """Some warps do something together."""
        with self.scope(f"if (((t >> 5) + {self.random.randint(0, 1)}u & 1u) == 0u) {{"):
            self.random.choice((Program.shuffle, Program.vote, Program.parted))(self)
            self.body(1)

    def within_warp(self) -> None:
        """Shared memory between the lanes of a warp alone."""
        s = self.array_of_block()
        self.emit(f"{s}[t] = {self.value('u')};")
        self.emit("__syncwarp(members);")
        self.emit(f"{self.name('u')} = {s}[(t & ~31u) + {self.value('u', 1)} % count];")
        self.emit("__syncwarp(members);")

    # ------------------------------------------------------------ atomics

    def atomic(self) -> None:
        """Atomics on global memory whose sum does not depend on their order: each word has one operation."""
        r = self.random
        form = self.filled(r.choice(ATOMICS), "u", 1)
        self.emit(f"if ({self.condition()}) {form}" if r.random() < 0.5 else form)

    def atomics_in_loop(self) -> None:
        with self.loop(f"for (unsigned z = 0; z < {self.trips()}; ++z) {{"):
            self.atomic()
            self.body(1)

    all_ways: tuple[Callable[[Program], None], ...] = (
        *(Statements.statement,) * 4, exchange, rounds, tree, bins, dynamic, through_global, block_if, shuffle, vote,
        match, parted, parted, warp_if, within_warp, atomic, atomics_in_loop,
    )  # fmt: skip


CAS = """__device__ void add_by_cas(unsigned* at, unsigned v)
{
    unsigned seen = atomicOr(at, 0u), before;
    do {
        before = seen;
        seen = atomicCAS(at, before, before + v);
    } while (seen != before);
}
"""


SHARED_LINE = "    extern __shared__ __align__(16) unsigned char dynamic_bytes[];"


def program(mode: str, seed: int, number: int) -> str:
    """The text of a case. Mode "silicon": only what a GPU must compute to the same bits."""
    rng = random.Random(f"{mode} {seed} {number}")
    silicon = mode == "silicon"
    exact = silicon or rng.random() < 0.7
    narrow = "".join(sorted(rng.sample("wsyg", rng.randint(0, 4))))
    letters = "uiqlfd" + narrow + (HALVES if rng.random() < 0.3 else "")
    launch = _launch(rng, silicon=silicon)
    functions: list[Function] = []
    for k in range(rng.choice((0, 0, 1, 2))):
        functions.append(function(rng, k, letters, [f.callee for f in functions], exact=exact))
    kernel = Program(rng, letters, launch, [f.callee for f in functions], exact=exact)
    return _text(rng, kernel, functions, kernel.body_text())


def _launch(rng: random.Random, *, silicon: bool) -> Launch:
    block, grid = rng.choice(BLOCKS), rng.choice(GRIDS)
    threads = block[0] * block[1] * block[2]
    arch = "compute_90" if silicon else rng.choice(("compute_80", "compute_80", "compute_90", "compute_100"))
    options = ["--fmad=false"] if silicon or rng.random() < 0.5 else []
    if rng.random() < 0.04:
        options.append("--device-debug")
    elif not silicon and rng.random() < 0.2:
        options.append(rng.choice(("--ftz=true", "--use_fast_math", "--prec-sqrt=false", "--prec-div=false")))
    elif silicon and rng.random() < 0.1:
        options.append("--ftz=true")
    shared_bytes = rng.choice((0, 0, 4 * threads, 4 * threads + 100))
    return Launch(grid, block, shared_bytes, arch, tuple(options), rng.randrange(1000))


def _text(rng: random.Random, kernel: Program, functions: list[Function], body: str) -> str:
    launch, threads = kernel.launch, kernel.threads
    bx, by, _ = launch.block
    halves = HALVES[0] in kernel.letters
    asm = sorted(kernel.used_asm.union(*(f.used_asm for f in functions)))
    numbers = [", ".join(f"{rng.getrandbits(32)}u" for _ in range(count)) for count in (16, 9)]
    weights = ", ".join(f"{rng.uniform(-2, 2):.4f}f" for _ in range(8))
    first = [
        f"const unsigned t = (threadIdx.z * {by}u + threadIdx.y) * {bx}u + threadIdx.x, lane = t & 31u;",
        "const unsigned b = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;",
        f"const unsigned i = b * {threads}u + t, count = min(32u, {threads}u - (t & ~31u));",
        "const unsigned members = ~0u >> (32u - count);",
        "const Globals g = {t, x, fy, dy, &p};",
        *kernel.shared,
    ]
    return "\n".join((
        str(launch), HALF_HEAD * halves + HEAD + HALF_BITS * halves,
        f"__constant__ unsigned constants[16] = {{{numbers[0]}}};",
        f"__constant__ float weights[8] = {{{weights}}};",
        f"__device__ unsigned table[9] = {{{numbers[1]}}};",
        CAS, *(asm_function(name) for name in asm), *(f.text for f in functions),
        SIGNATURE, "{", *([SHARED_LINE] if launch.shared_bytes else []), *(f"    {line}" for line in first),
        body, "}", "",
    ))  # fmt: skip
