"""The three transforms of any F(m x m, r x r) as CUDA source, written from the exact matrices.

    exact = matrices(4, 5)
    filters, images, results = (parse_contract(text, name=name) for name, text in sources(exact).items())

What a student writes by hand for F(4,3): each row of a matrix becomes a chain of multiply-adds, and pairs of rows that
differ in signs only, as those of a point and its negative do, share what they have in common.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction

from warpschool.errors import ArgumentError
from warpschool.nn.winograd import Matrices, Row, Rows

Line = str
_POOL = 2


def sources(exact: Matrices) -> dict[str, str]:
    """Return {file name: kernel file} of the three transforms: filters, images, results, in this order."""
    return {
        "filter_transform.cu": _filled(_FILTERS, exact, exact.G, exact.r),
        "input_transform.cu": _filled(_IMAGES, exact, exact.Bt, exact.side),
        "output_transform.cu": _filled(_RESULTS, exact, exact.At, exact.side),
    }


def pooled_results(exact: Matrices) -> str:
    """Return the kernel file of the results' transform with bias, ReLU and the mean of each 2 x 2.

    Raises ArgumentError where a tile does not hold whole windows.
    """
    if exact.m % _POOL:
        raise ArgumentError(f"{exact}: a tile of {exact.m} x {exact.m} does not hold whole windows of 2 x 2")
    return _filled(_POOLED, exact, exact.At, exact.side)


def transform_lines(rows: Rows, *, to: str = "to", of: str = "of") -> list[Line]:
    """Return statements that set to[i] to row i times the vector `of`."""
    lines: list[Line] = []
    done: set[int] = set()
    for i, row in enumerate(rows):
        if i in done:
            continue
        twin = next((k for k in range(i + 1, len(rows)) if k not in done and _is_twin(row, rows[k])), None)
        if twin is None:
            lines.append(f"{to}[{i}] = {_chain(row, of)};")
            continue
        same, other = _split(row, rows[twin])
        lines += [
            f"const float same{i} = {_chain(same, of)};",
            f"const float other{i} = {_chain(other, of)};",
            f"{to}[{i}] = same{i} + other{i};",
            f"{to}[{twin}] = same{i} - other{i};",
        ]
        done.add(twin)
    return lines


def paired_lines(rows: Rows, *, to: str = "to", of: str = "of") -> list[Line]:
    """The same for a matrix whose columns come in pairs: sums and differences of two numbers serve all rows."""
    columns = list(zip(*rows, strict=True))
    terms: list[tuple[str, Row]] = []
    lines: list[Line] = []
    done: set[int] = set()
    for j, column in enumerate(columns):
        if j in done:
            continue
        twin = next((k for k in range(j + 1, len(columns)) if k not in done and _is_twin(column, columns[k])), None)
        if twin is None:
            terms.append((f"{of}[{j}]", column))
            continue
        same, other = _split(column, columns[twin])
        lines += [f"const float sum{j} = {of}[{j}] + {of}[{twin}];", f"const float less{j} = {of}[{j}] - {of}[{twin}];"]
        terms += [(f"sum{j}", same), (f"less{j}", other)]
        done.add(twin)
    for i in range(len(rows)):
        lines.append(f"{to}[{i}] = {_sum((column[i], name) for name, column in terms)};")
    return lines


def _is_twin(row: Sequence[Fraction], other: Sequence[Fraction]) -> bool:
    """Equal magnitudes, and both equal and opposite signs."""
    pairs = [(a, b) for a, b in zip(row, other, strict=True) if a or b]
    return all(abs(a) == abs(b) for a, b in pairs) and len({a == b for a, b in pairs}) == 2


def _split(row: Sequence[Fraction], other: Sequence[Fraction]) -> tuple[Row, Row]:
    """What two rows have in common, and what has opposite signs in them."""
    zero = Fraction(0)
    same = tuple(a if a == b else zero for a, b in zip(row, other, strict=True))
    return same, tuple(a if a != b else zero for a, b in zip(row, other, strict=True))


def _chain(row: Sequence[Fraction], of: str) -> str:
    return _sum((factor, f"{of}[{k}]") for k, factor in enumerate(row))


def _sum(terms: Iterable[tuple[Fraction, str]]) -> str:
    """A sum of products, the last term innermost; factors of 1 and -1 cost no multiplication."""
    text = ""
    for factor, name in sorted((t for t in terms if t[0]), key=lambda term: abs(term[0]) != 1):
        if not text:
            text = name if factor == 1 else f"-{name}" if factor == -1 else f"{_number(factor)} * {name}"
        elif factor == 1:
            text = f"{text} + {name}"
        elif factor == -1:
            text = f"{text} - {name}"
        else:
            text = f"fmaf({_number(factor)}, {name}, {text})"
    return text or "0.0f"


def _number(value: Fraction) -> str:
    """A float literal: exact, as a quotient where no decimal is."""
    if value.denominator & (value.denominator - 1):
        return f"({value.numerator}.0f / {value.denominator}.0f)"
    return f"{float(value)!r}f"


def _filled(template: str, exact: Matrices, rows: Rows, length: int) -> str:
    write = paired_lines if rows is exact.At else transform_lines
    return (
        template.replace("@NAME@", f"F({exact.m}x{exact.m},{exact.r}x{exact.r})")
        .replace("@TILE@", str(exact.m))
        .replace("@FILTER@", str(exact.r))
        .replace("@LENGTH@", str(length))
        .replace("@COUNT@", str(len(rows)))
        .replace("@BODY@", "\n    ".join(write(rows)))
    )


_COMMON = """
constexpr int TILE = @TILE@;    // results of a tile along each axis
constexpr int FILTER = @FILTER@;  // weights of a filter along each axis
constexpr int SIDE = TILE + FILTER - 1;
constexpr int THREADS = 128;

// One matrix times one column or row.
__device__ void transform(float (&to)[@COUNT@], const float (&of)[@LENGTH@])
{
    @BODY@
}
"""

_FILTERS = (
    """// filter_transform.cu: U = G g G^T for @NAME@, written from the exact matrices.
// Entry:   filter_transform(const float w[F,C,FILTER,FILTER] in, float U[SIDE*SIDE,C,F] out, int F, int C)
// Launch:  filter_transform block=(THREADS) grid=(cdiv(F, THREADS), C)
"""
    + _COMMON
    + """
extern "C" __global__ void __launch_bounds__(THREADS)
filter_transform(const float* __restrict__ w, float* __restrict__ U, int F, int C)
{
    const int f = blockIdx.x * THREADS + threadIdx.x;
    const int c = blockIdx.y;
    if (f >= F) return;
    const float* from = w + (static_cast<size_t>(f) * C + c) * FILTER * FILTER;
    float middle[SIDE][FILTER];
    #pragma unroll
    for (int s = 0; s < FILTER; ++s) {
        float column[FILTER];
        float numbers[SIDE];
        #pragma unroll
        for (int r = 0; r < FILTER; ++r) column[r] = from[r * FILTER + s];
        transform(numbers, column);
        #pragma unroll
        for (int i = 0; i < SIDE; ++i) middle[i][s] = numbers[i];
    }
    float* to = U + static_cast<size_t>(c) * F + f;
    const size_t position = static_cast<size_t>(C) * F;
    #pragma unroll
    for (int i = 0; i < SIDE; ++i) {
        float numbers[SIDE];
        transform(numbers, middle[i]);
        #pragma unroll
        for (int j = 0; j < SIDE; ++j) to[(i * SIDE + j) * position] = numbers[j];
    }
}
"""
)

_IMAGES = (
    """// input_transform.cu: V = B^T d B for @NAME@, written from the exact matrices.
// Entry:   input_transform(const float x[BATCH,C,H,W] in, float V[SIDE*SIDE,C,BATCH*TY*TX] out,
//                          int BATCH, int C, int H, int W, int PAD)
// Sizes:   TY = cdiv(H + 2*PAD - FILTER + 1, TILE), TX = cdiv(W + 2*PAD - FILTER + 1, TILE)
// Needs:   H + 2*PAD >= FILTER, W + 2*PAD >= FILTER, C <= 65535
// Launch:  input_transform block=(THREADS) grid=(cdiv(BATCH*TY*TX, THREADS), C)
"""
    + _COMMON
    + """
extern "C" __global__ void __launch_bounds__(THREADS)
input_transform(const float* __restrict__ x, float* __restrict__ V, int BATCH, int C, int H, int W, int PAD)
{
    const int TY = (H + 2 * PAD - FILTER + TILE) / TILE;
    const int TX = (W + 2 * PAD - FILTER + TILE) / TILE;
    const int P = BATCH * TY * TX;
    const int p = blockIdx.x * THREADS + threadIdx.x;
    const int c = blockIdx.y;
    if (p >= P) return;
    const int row0 = p / TX % TY * TILE - PAD;
    const int col0 = p % TX * TILE - PAD;
    const float* from = x + (static_cast<size_t>(p / (TY * TX)) * C + c) * H * W;
    // Where tiles and rows begin at multiples of four floats, four pixels lie inside the image together or none does.
    const int wide = TILE % 4 == 0 && (PAD | W) % 4 == 0 ? SIDE / 4 * 4 : 0;
    float d[SIDE][SIDE];
    #pragma unroll
    for (int i = 0; i < SIDE; ++i) {
        const int row = row0 + i;
        const bool valid = row >= 0 && row < H;
        #pragma unroll
        for (int j = 0; j < SIDE; j += 4) {
            if (j < wide) {
                float4 quad = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
                if (valid && col0 + j >= 0 && col0 + j < W) {
                    quad = *reinterpret_cast<const float4*>(from + row * W + col0 + j);
                }
                d[i][j] = quad.x;
                if (j + 1 < SIDE) d[i][j + 1] = quad.y;
                if (j + 2 < SIDE) d[i][j + 2] = quad.z;
                if (j + 3 < SIDE) d[i][j + 3] = quad.w;
            } else {
                #pragma unroll
                for (int k = j; k < j + 4 && k < SIDE; ++k) {
                    const int col = col0 + k;
                    d[i][k] = valid && col >= 0 && col < W ? from[row * W + col] : 0.0f;
                }
            }
        }
    }
    #pragma unroll
    for (int j = 0; j < SIDE; ++j) {
        float column[SIDE];
        float numbers[SIDE];
        #pragma unroll
        for (int i = 0; i < SIDE; ++i) column[i] = d[i][j];
        transform(numbers, column);
        #pragma unroll
        for (int i = 0; i < SIDE; ++i) d[i][j] = numbers[i];
    }
    float* to = V + static_cast<size_t>(c) * P + p;
    const size_t position = static_cast<size_t>(C) * P;
    #pragma unroll
    for (int i = 0; i < SIDE; ++i) {
        float numbers[SIDE];
        transform(numbers, d[i]);
        #pragma unroll
        for (int j = 0; j < SIDE; ++j) to[(i * SIDE + j) * position] = numbers[j];
    }
}
"""
)

_RESULTS = (
    """// output_transform.cu: Y = A^T M A for @NAME@, written from the exact matrices.
// Entry:   output_transform(const float M[SIDE*SIDE,F,BATCH*TY*TX] in, float y[BATCH,F,OH,OW] out,
//                           int BATCH, int F, int OH, int OW)
// Sizes:   TY = cdiv(OH, TILE), TX = cdiv(OW, TILE)
// Needs:   F <= 65535
// Launch:  output_transform block=(THREADS) grid=(cdiv(BATCH*TY*TX, THREADS), F)
"""
    + _COMMON
    + """
extern "C" __global__ void __launch_bounds__(THREADS)
output_transform(const float* __restrict__ M, float* __restrict__ y, int BATCH, int F, int OH, int OW)
{
    const int TY = (OH + TILE - 1) / TILE;
    const int TX = (OW + TILE - 1) / TILE;
    const int P = BATCH * TY * TX;
    const int p = blockIdx.x * THREADS + threadIdx.x;
    const int f = blockIdx.y;
    if (p >= P) return;
    const float* from = M + static_cast<size_t>(f) * P + p;
    const size_t position = static_cast<size_t>(F) * P;
    float middle[TILE][SIDE];
    #pragma unroll
    for (int j = 0; j < SIDE; ++j) {
        float column[SIDE];
        float numbers[TILE];
        #pragma unroll
        for (int i = 0; i < SIDE; ++i) column[i] = from[(i * SIDE + j) * position];
        transform(numbers, column);
        #pragma unroll
        for (int i = 0; i < TILE; ++i) middle[i][j] = numbers[i];
    }
    const int row0 = p / TX % TY * TILE;
    const int col0 = p % TX * TILE;
    float* to = y + ((static_cast<size_t>(p / (TY * TX)) * F + f) * OH + row0) * OW + col0;
    #pragma unroll
    for (int i = 0; i < TILE; ++i) {
        float numbers[TILE];
        transform(numbers, middle[i]);
        if (TILE % 4 == 0 && OW % 4 == 0) {  // rows begin at multiples of four floats, and so do the tiles' rows
            #pragma unroll
            for (int j = 0; j < TILE; j += 4) {
                const float4 quad = make_float4(numbers[j], numbers[(j + 1) % TILE], numbers[(j + 2) % TILE],
                                                numbers[(j + 3) % TILE]);
                if (row0 + i < OH && col0 + j < OW) *reinterpret_cast<float4*>(to + i * OW + j) = quad;
            }
        } else {
            #pragma unroll
            for (int j = 0; j < TILE; ++j) {
                if (row0 + i < OH && col0 + j < OW) to[i * OW + j] = numbers[j];
            }
        }
    }
}
"""
)

_POOLED = (
    """// pooled_results.cu: bias, ReLU and means of 2 x 2 in A^T M A for @NAME@, written from the exact matrices.
// Entry:   pooled_results(const float M[SIDE*SIDE,F,BATCH*TY*TX] in, const float bias[F] in,
//                         float y[BATCH,F,OH / 2,OW / 2] out, int BATCH, int F, int OH, int OW)
// Sizes:   TY = cdiv(OH, TILE), TX = cdiv(OW, TILE)
// Needs:   F <= 65535, OH >= 2, OW >= 2
// Launch:  pooled_results block=(THREADS) grid=(cdiv(BATCH*TY*TX, THREADS), F)
"""
    + _COMMON
    + """
extern "C" __global__ void __launch_bounds__(THREADS)
pooled_results(const float* __restrict__ M, const float* __restrict__ bias, float* __restrict__ y,
               int BATCH, int F, int OH, int OW)
{
    const int TY = (OH + TILE - 1) / TILE;
    const int TX = (OW + TILE - 1) / TILE;
    const int P = BATCH * TY * TX;
    const int p = blockIdx.x * THREADS + threadIdx.x;
    const int f = blockIdx.y;
    if (p >= P) return;
    const float* from = M + static_cast<size_t>(f) * P + p;
    const size_t position = static_cast<size_t>(F) * P;
    float middle[TILE][SIDE];
    #pragma unroll
    for (int j = 0; j < SIDE; ++j) {
        float column[SIDE];
        float numbers[TILE];
        #pragma unroll
        for (int i = 0; i < SIDE; ++i) column[i] = from[(i * SIDE + j) * position];
        transform(numbers, column);
        #pragma unroll
        for (int i = 0; i < TILE; ++i) middle[i][j] = numbers[i];
    }
    const int PH = OH / 2;  // what is left over at an edge belongs to no window
    const int PW = OW / 2;
    const int row0 = p / TX % TY * (TILE / 2);
    const int col0 = p % TX * (TILE / 2);
    const float more = bias[f];
    float* to = y + ((static_cast<size_t>(p / (TY * TX)) * F + f) * PH + row0) * PW + col0;
    #pragma unroll
    for (int i = 0; i < TILE / 2; ++i) {
        float upper[TILE];
        float lower[TILE];
        float means[TILE / 2];
        transform(upper, middle[2 * i]);
        transform(lower, middle[2 * i + 1]);
        #pragma unroll
        for (int j = 0; j < TILE / 2; ++j) {
            means[j] = 0.25f * (fmaxf(upper[2 * j] + more, 0.0f) + fmaxf(upper[2 * j + 1] + more, 0.0f)
                                + fmaxf(lower[2 * j] + more, 0.0f) + fmaxf(lower[2 * j + 1] + more, 0.0f));
        }
        if (TILE == 4 && PW % 2 == 0) {  // both means of a row exist or none does, and they are aligned
            if (row0 + i < PH && col0 < PW) {
                *reinterpret_cast<float2*>(to + i * PW) = make_float2(means[0], means[TILE / 2 - 1]);
            }
        } else {
            #pragma unroll
            for (int j = 0; j < TILE / 2; ++j) {
                if (row0 + i < PH && col0 + j < PW) to[i * PW + j] = means[j];
            }
        }
    }
}
"""
)
