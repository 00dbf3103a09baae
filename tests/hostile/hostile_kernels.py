"""Kernels that cheat, crash, stall, spy or are merely broken, each with the verdict that it must get.

`ATTACKS` is the table, into which `hostile_more` puts the rest. Sources are built when they are asked for: some are megabytes. `{SECRET}` stands for the path of
a file whose text must never show up in a result.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

SAXPY, BLOCK_SUM = "lab00_first_kernels/01_saxpy", "lab00_first_kernels/03_block_sum"


@dataclass(frozen=True)
class Attack:
    """One submission and the verdict that it must get."""

    name: str
    verdict: str
    build: Callable[[], bytes]
    step: str = SAXPY
    kind: str = ""

    @property
    def verdicts(self) -> list[str]:
        """The verdict, or those of which one must be got."""
        return self.verdict.split()


ATTACKS: list[Attack] = []
_kind = [""]


def kind(name: str) -> None:
    """What the next ones in the table are."""
    _kind[0] = name


HEADER = """\
// 01_saxpy.cu: a submission.
// Entry:   saxpy(const float x[n] in, const float y[n] in, float z[n] out, float a, int n)
// Launch:  saxpy block=(256) grid=(cdiv(n, 256))
"""
OPEN = 'extern "C" __global__ void saxpy(const float* x, const float* y, float* z, float a, int n) {\n'
INDEX = "    const int i = blockIdx.x * 256 + threadIdx.x;\n"
RIGHT_BODY = INDEX + "    if (i < n) z[i] = a * x[i] + y[i];\n"
RIGHT = HEADER + OPEN + RIGHT_BODY + "}\n"
SUM_HEADER = """\
// 03_block_sum.cu: a submission.
// Entry:   block_sum(const float x[n] in, float sums[cdiv(n, 256)] out, int n)
// Launch:  block_sum block=(256) grid=(cdiv(n, 256))
"""
SUM_OPEN = 'extern "C" __global__ void block_sum(const float* x, float* sums, int n) {\n'


def add(name: str, verdict: str, source: str | bytes | Callable[[], str | bytes], *, step: str = SAXPY) -> None:
    """Put a submission into the table."""

    def build() -> bytes:
        text = source() if callable(source) else source
        return text if isinstance(text, bytes) else text.encode()

    ATTACKS.append(Attack(name, verdict, build, step, _kind[0]))


def body(name: str, verdict: str, text: str, *, before: str = "", header: str = HEADER) -> None:
    """Put a saxpy with this body into the table."""
    add(name, verdict, f"{header}{before}{OPEN}{INDEX}{text}\n}}\n")


def launch(name: str, verdict: str, line: str) -> None:
    """Put a right saxpy with another Launch line into the table."""
    header = HEADER.replace("block=(256) grid=(cdiv(n, 256))", line)
    add(name, verdict, f"{header}{OPEN}{RIGHT_BODY}}}\n")


# ---------------------------------------------------------------- never at an end
kind("budgets")
body("endless loop", "TLE", "    while (true) { if (i < n) z[i] += 1.0f; }")
body("endless loop without an effect", "TLE", "    volatile int v = 0; for (;;) { v = v + 1; }")
body("endless loop over barriers", "TLE", "    for (;;) { __syncthreads(); if (i < n) z[i] = a; }")
body("waits for another block", "TLE",
     "    volatile float* w = z; if (blockIdx.x == 0 && n > 256) while (w[n - 1] != 1.0f) {}\n    if (i < n) z[i] = a;")
body("slow loop", "TLE", "    float s = 0; for (long long k = 0; k < (1LL << 40); ++k) s += sinf(s + k);\n"
     "    if (i < n) z[i] = s;")
launch("four billion threads", "TLE", "block=(1024) grid=(2147483647)")
launch("two billion empty blocks", "TLE", "block=(1) grid=(2147483647)")

# ---------------------------------------------------------------- the compiler
kind("the compiler")
add("template bomb", "CLE", HEADER + """\
template <int D, int I> struct T {
    static __device__ int f(int x) { return T<D - 1, 2 * I>::f(x) + T<D - 1, 2 * I + 1>::f(x); }
};
template <int I> struct T<0, I> { static __device__ int f(int x) { return x * I; } };
""" + OPEN + INDEX + "    if (i < n) z[i] = T<16, 1>::f(i);\n}\n")
ROWS = ["#define A0 " + "+".join("n" * 10), *(f"#define A{k} " + "+".join([f"A{k - 1}"] * 10) for k in range(1, 9))]
BOMB = "\n".join(ROWS) + "\n"
assert len(BOMB) < 475
add("macro bomb of 475 bytes", "CLE", HEADER + BOMB + OPEN + "    z[0] = A8;\n}\n")
add("identifier of 10 MB", "CLE", lambda: RIGHT.replace("int i ", f"int {'i' * (10 << 20)} "))
add("identifier of 200 KB", "CE", lambda: HEADER + OPEN + f"    int {'i' * (200 << 10)} = undefined;\n}}\n")
add("comment of 10 MB", "CLE", lambda: RIGHT + "//" + "x" * (10 << 20))
add("deep parentheses", "WA", lambda: HEADER + OPEN + "    z[0] = " + "(" * 60_000 + "1" + ")" * 60_000 + ";\n}\n")
add("deep blocks", "CE", lambda: HEADER + "{" * 100_000)
add("ten thousand errors", "CE", lambda: HEADER + OPEN + "".join(f"    a{k};\n" for k in range(10_000)) + "}\n")
add("endless constant", "CE", HEADER + "constexpr int f() { int k = 0; while (true) ++k; return k; }\n"
    "constexpr int N = f();\n" + OPEN + "}\n")
add("endless template", "CE", HEADER + "template <int N> struct S { static constexpr int v = S<N + 1>::v; };\n"
    + OPEN + "    z[0] = S<0>::v;\n}\n")
add("4 MB of PTX", "CLE", lambda: HEADER + OPEN + INDEX
    + "".join(f"    if (n > {k}) z[i] += x[{k}] * y[{k + 1}];\n" for k in range(4900)) + "}\n")
body("loop unrolled 65536 times", "WA", "    float s = 0;\n    #pragma unroll 65536\n"
     "    for (int k = 0; k < 65536; ++k) s = s * x[0] + k;\n    if (i < n) z[i] = s;")
body("message full of control characters", "CE", "    \x1b]0;owned\x07\x1b[2J int \u202eevil = ;")
add("launches from the device", "CE", HEADER + "__global__ void other() {}\n" + OPEN + "    other<<<1, 1>>>();\n}\n")

# ---------------------------------------------------------------- spying
kind("spying")
add("include of a secret file", "RJ", HEADER + '#include "{SECRET}"\n' + OPEN + RIGHT_BODY + "}\n")
add("include by digraph", "RJ", HEADER + '%:include "{SECRET}"\n' + OPEN + RIGHT_BODY + "}\n")
add("include by splices", "RJ", HEADER + '#inc\\\nlude "{SECRET}"\n' + OPEN + RIGHT_BODY + "}\n")
add("include by a macro", "RJ", HEADER + '#define F "{SECRET}"\n#include F\n' + OPEN + RIGHT_BODY + "}\n")
add("include of the environment", "RJ", HEADER + '#include "/proc/self/environ"\n' + OPEN + RIGHT_BODY + "}\n")
add("include of the reference", "RJ", HEADER + '#include "{REFERENCE}"\n')
add("include of the reference by a relative path", "RJ",
    HEADER + '#include "../../../../../../../../../..{REFERENCE}"\n')
add("include of the grader", "RJ", HEADER + '#include "../../grader/lab00_first_kernels/test_01_saxpy.py"\n' + OPEN
    + RIGHT_BODY + "}\n")
add("question whether a file exists", "RJ", HEADER + '#if __has_include("{SECRET}")\n#define ANSWER 1\n#endif\n' + OPEN
    + RIGHT_BODY + "}\n")
add("embedding a file", "RJ", HEADER + 'const char text[] = {\n#embed "{SECRET}"\n};\n' + OPEN + RIGHT_BODY + "}\n")
add("forged line numbers", "RJ", HEADER + '#line 1 "{SECRET}"\n' + OPEN + "    oops;\n}\n")
body("binary file by inline assembly", "RJ", '    asm volatile(".incbin \\"{SECRET}\\";");')

# ---------------------------------------------------------------- inline assembly
kind("instructions by hand")
body("second entry by inline assembly", "RJ",
     '    asm volatile("ret;\\n}\\n.visible .entry saxpy2() {\\n ret;");\n    if (i < n) z[i] = a * x[i] + y[i];')
body("entry that replaces its own", "RJ",
     '    asm volatile("}\\n.visible .entry saxpy(.param .u64 p) {");\n    if (i < n) z[i] = a * x[i] + y[i];')
body("second entry that is valid", "AC",
     '    if (i < n) z[i] = a * x[i] + y[i];\n    asm volatile("ret;\\n}\\n.visible .entry evil()\\n{\\n");')
body("broken assembly", "RJ", '    asm volatile("this is no instruction;");\n    if (i < n) z[i] = 0;')
body("forged line table", "OOB", '    asm volatile(".loc 1 1 0");\n    z[n + i] = a;')
body("unsupported instruction", "RJ", '    asm volatile("barrier.cluster.arrive;");\n    if (i < n) z[i] = 0;')
body("declares a giant by assembly", "LE",
     '    asm volatile(".shared .b8 giant[2000000000];");\n    if (i < n) z[i] = a * x[i] + y[i];')

# ---------------------------------------------------------------- memory
kind("memory")
body("forged pointer", "OOB", "    float* p = (float*)0x7f0000001000ull; p[i] = 1.0f; if (i < n) z[i] = a;")
body("pointer to nothing", "RTE", "    float* p = nullptr; if (i < n) z[i] = p[i];")
body("walks through the arena", "OOB", "    float s = 0; for (long long k = -4096; k < 4096; ++k) s += z[k * 1024];\n"
     "    if (i < n) z[i] = s;")
body("pointer read from data", "OOB", "    unsigned long long p = __float_as_uint(x[0]); if (i < n) z[i] = *(float*)p;")
body("reads one too far, right output", "OOB",
     "    const float next = x[i + 1];\n    if (i < n) z[i] = a * x[i] + y[i] + (next == 1e30f ? 1.0f : 0.0f);")
body("jumps to data", "RJ", "    auto f = (void (*)(float*))(unsigned long long)(x); f(z);")
body("shared memory out of bounds", "OOB", "    if (i < n) { tile[threadIdx.x + 100000] = a; z[i] = tile[0]; }",
     before="__shared__ float tile[256];\n")
body("400 MB of static shared memory", "LE", "    tile[i] = a; if (i < n) z[i] = tile[i];",
     before="__shared__ float tile[100000000];\n")
body("400 MB of local memory", "MLE", "    float big[100000000];\n"
     "    for (int k = 0; k < n; ++k) big[(k * 7919LL * n) % 100000000] = x[k];\n    if (i < n) z[i] = big[i * n];")
launch("a gigabyte of dynamic shared memory", "LE", "block=(256) grid=(cdiv(n, 256)) shared=1073741824")
add("a terabyte of scratch", "MLE", """\
// 01_saxpy.cu: a submission.
// Entry:   saxpy(const float x[n] in, const float y[n] in, float z[n] out, float a, int n)
// Entry:   fill(float room[n, 1000000000] out, int n)
// Scratch: room
// Launch:  fill block=(1) grid=(1)
// Launch:  saxpy block=(256) grid=(cdiv(n, 256))
extern "C" __global__ void fill(float* room, int n) { room[0] = n; }
""" + OPEN + RIGHT_BODY + "}\n")
body("device malloc loop", "WA", "    while (true) { void* p = malloc(1 << 20); if (!p) break; ((char*)p)[0] = 1; }")
body("new without end", "TLE", "    for (;;) { float* p = new float[1 << 20]; p[0] = a; z[0] = p[0]; }")
add("recursion", "RTE", HEADER + "__device__ __noinline__ int f(int k) { return k < 2 ? k : f(k - 1) + f(k - 2); }\n"
    + OPEN + INDEX + "    if (i < n) z[i] = f(n + 20);\n}\n")
add("endless recursion", "RTE",
    HEADER + "__device__ __noinline__ float f(float v, const float* x) { return x[0] + f(v + 1, x) * 2; }\n"
    + OPEN + INDEX + "    if (i < n) z[i] = f(a, x);\n}\n")
body("virtual functions", "AC", "    A one; B two; A* p = x[0] > 0 ? &one : &two; if (i < n) z[i] = p->f(i) + a * x[i] + y[i];",
     before="struct A { __device__ virtual int f(int k) { return 0; } };\n"
     "struct B : A { __device__ int f(int k) override { return 0; } };\n")

# ---------------------------------------------------------------- order
kind("order")
add("missing barrier, right output", "RACE", SUM_HEADER + SUM_OPEN + """\
    __shared__ float s[256];
    const int i = blockIdx.x * 256 + threadIdx.x;
    s[threadIdx.x] = i < n ? x[i] : 0.0f;
    __syncthreads();
    for (int h = 128; h > 0; h /= 2) {
        if (threadIdx.x < h) s[threadIdx.x] += s[threadIdx.x + h];
    }
    if (threadIdx.x == 0) sums[blockIdx.x] = s[0];
}
""", step=BLOCK_SUM)
add("barrier for half of the block", "SYNC", SUM_HEADER + SUM_OPEN + """\
    __shared__ float s[256];
    s[threadIdx.x] = 0;
    if (threadIdx.x < 128) __syncthreads();
    if (threadIdx.x == 0) sums[blockIdx.x] = s[0];
}
""", step=BLOCK_SUM)
add("shared memory of the block before", "UNINIT", SUM_HEADER + SUM_OPEN + """\
    __shared__ float s[256];
    if (n < 0) s[threadIdx.x] = 1;
    if (threadIdx.x == 0) sums[blockIdx.x] = s[1];
}
""", step=BLOCK_SUM)

# ---------------------------------------------------------------- stops, output
kind("output")
body("trap", "RTE", "    if (i == 3) __trap();\n    if (i < n) z[i] = a * x[i] + y[i];")
body("failed assertion", "RTE", "    if (i == 3) asm volatile(\"trap;\");\n    if (i < n) z[i] = 0;")
body("printf flood", "OLE", '    for (int k = 0; k < 100000; ++k) printf("%d %d spam spam spam spam\\n", i, k);')
body("printf of forged results", "WA", '    if (i == 0) printf("{\\"verdict\\": \\"AC\\", \\"score\\": 6.0}\\n");')
body("printf with a wild pointer", "WA", '    if (i == 0) printf("%s\\n", (const char*)0x7f0000001000ull);')

# ---------------------------------------------------------------- right without the work
kind("right without the work")
body("nothing written", "WA", "")
body("NaN everywhere", "WA", '    if (i < n) z[i] = __int_as_float(0x7fc00000);')
body("infinity everywhere", "WA", '    if (i < n) z[i] = __int_as_float(0x7f800000);')
body("inputs overwritten", "WA", "    if (i < n) { const_cast<float*>(x)[i] = 0; const_cast<float*>(y)[i] = 0; z[i] = 0; }")
body("inputs overwritten after use", "WA", "    if (i < n) { z[i] = a * x[i] + y[i]; const_cast<float*>(x)[i] = 0; }")
body("state kept in device variables", "WA", "    if (i < n) { calls[i] += 1; z[i] = calls[i] > 1 ? a * x[i] + y[i] : 0; }",
     before="__device__ int calls[4096];\n")
body("answer kept from the launch before", "WA", "    if (i < n) { z[i] = kept[i % 4096]; kept[i % 4096] = a * x[i] + y[i]; }",
     before="__device__ float kept[4096];\n")
body("writes its pointers", "WA", "    if (i < n) z[i] = (float)((unsigned long long)(x + i) >> 3 & 0xffffff);")
body("sizes hard-coded", "WA", "    if (n == 256 || n == 1024 || n == 4096) z[i] = a * x[i] + y[i];")
launch("launches too little", "WA", "block=(1) grid=(1)")
launch("too many threads in a block", "LE", "block=(2048) grid=(1)")
launch("nonsense for a grid", "LE", "block=(256) grid=(cdiv(n, 0))")
launch("nested expression", "LE", "block=(256) grid=(" + "cdiv(" * 20_000 + "n" + ", 1)" * 20_000 + ")")
launch("expression of a million digits", "LE", "block=(256) grid=(" + "9" * 200_000 + ")")
launch("expression that would be a program", "BAD", "block=(256) grid=(__import__('os').system('true'))")

# ---------------------------------------------------------------- past the counters
kind("past the counters")
TILED, TRANSPOSE = "lab02_tiling/01_tiled", "lab04_bank_conflicts/01_transpose_padded"
PRODUCT = """\
// 01_tiled.cu: a submission.
// Entry:   matmul(const float A[M,K] in, const float B[K,N] in, float C[M,N] out, int M, int N, int K)
// Launch:  matmul block=(16, 16) grid=(cdiv(N, 16), cdiv(M, 16))
"""
PRODUCT_OPEN = """\
extern "C" __global__ void matmul(const float* A, const float* B, float* C, int M, int N, int K)
{
    const int row = blockIdx.y * 16 + threadIdx.y, col = blockIdx.x * 16 + threadIdx.x;
    float sum = 0.0f;
    if (row >= M || col >= N) return;
"""
add("loads that are atomics", "WA", PRODUCT + PRODUCT_OPEN + """\
    for (int k = 0; k < K; ++k) {
        sum += __int_as_float(atomicOr((int*)&A[row * K + k], 0)) * __int_as_float(atomicOr((int*)&B[k * N + col], 0));
    }
    C[row * N + col] = sum;
}
""", step=TILED)
add("stores that are atomics", "PERF", """\
// 01_transpose_padded.cu: a submission.
// Entry:   transpose(const float A[M,N] in, float At[N,M] out, int M, int N)
// Launch:  transpose block=(32, 8) grid=(cdiv(N, 32), cdiv(M, 8))
extern "C" __global__ void transpose(const float* A, float* At, int M, int N)
{
    const int col = blockIdx.x * 32 + threadIdx.x, row = blockIdx.y * 8 + threadIdx.y;
    if (row < M && col < N) atomicExch(&At[(size_t)col * M + row], A[(size_t)row * N + col]);
}
""", step=TRANSPOSE)
add("matrices in constant memory", "LE", PRODUCT.replace("// Launch:", "// Constant: a <- A, b <- B\n// Launch:")
    + "__constant__ float a[8192];\n__constant__ float b[8192];\n" + PRODUCT_OPEN
    + "    for (int k = 0; k < K; ++k) sum += a[row * K + k] * b[k * N + col];\n    C[row * N + col] = sum;\n}\n", step=TILED)
body("output that depends on the clock", "WA", "    if (i < n) z[i] = clock64() == 0 ? a * x[i] + y[i] : 0;")
body("local memory of the thread before", "WA",
     "    volatile int left[256]; const int seen = left[n * 7 & 255]; left[n * 7 & 255] = 12345;\n"
     "    if (i < n) z[i] = seen == 12345 ? 0 : a * x[i] + y[i];")

# ---------------------------------------------------------------- past the header
kind("headers")
add("an input that a kernel of one's own writes first", "NE", HEADER.replace(
    "// Launch:", "// Entry:   fill(float x[n] out, float y[n] out, int n)\n// Launch:  fill block=(1) grid=(1)\n// Launch:", 1)
    + 'extern "C" __global__ void fill(float* x, float* y, int n) { for (int k = 0; k < n; ++k) x[k] = y[k] = 0; }\n'
    + OPEN + INDEX + "    if (i < n) z[i] = 0;\n}\n")
add("an output that is scratch", "NE", RIGHT.replace("// Launch:", "// Scratch: z\n// Launch:"))
add("an output that starts at zero", "NE", RIGHT.replace("// Launch:", "// Zeroed:  z\n// Launch:"))
add("a step that no GPU here can run", "NE", RIGHT.replace("// Launch:", "// Target:  sm_90a\n// Launch:"))
add("needs sizes that it likes", "LE", RIGHT.replace("// Launch:", "// Needs:   n % 256 == 0\n// Launch:"))
add("include of a system file", "RJ", HEADER + '#include "/etc/passwd"\n' + OPEN + RIGHT_BODY + "}\n")

# ---------------------------------------------------------------- not what was asked for
kind("headers")
add("no entry", "NE", HEADER + "__global__ void saxpy(const float* x) {}\n")
add("other parameters", "NE", RIGHT.replace("float a, int n)", "int n, float a)"))
add("two entries of one name", "CE", RIGHT + OPEN + RIGHT_BODY + "}\n")
add("no header", "NE", OPEN + RIGHT_BODY + "}\n")
add("header that goes on", "LE", lambda: "// 01_saxpy.cu: x\n" + "// Entry: f(int n)\n" * 10_000 + OPEN + RIGHT_BODY + "}\n")
add("sizes that need themselves", "BAD", RIGHT.replace("// Launch:", "// Sizes:   Q = R + 1, R = Q + 1\n// Launch:")
    .replace("grid=(cdiv(n, 256))", "grid=(Q)"))
add("Python instead of CUDA", "CE", "import os\nos.kill(os.getppid(), 9)\n")

# ---------------------------------------------------------------- bytes
kind("bytes of a file")
add("empty file", "BAD", b"")
add("only blanks", "BAD", b" \n\t\n" * 1000)
add("byte order mark", "AC", b"\xef\xbb\xbf" + RIGHT.encode())
add("Windows line ends", "AC", RIGHT.replace("\n", "\r\n"))
add("old Macintosh line ends", "AC", RIGHT.replace("\n", "\r"))
add("UTF-16", "BAD", RIGHT.encode("utf-16"))
add("Latin-1", "BAD", RIGHT.replace("a submission", "für x").encode("latin-1"))
add("NUL bytes", "CE", RIGHT.replace("{\n", "{\0\n").encode())
add("a gzip file", "BAD", bytes([31, 139, 8, 0]) + bytes(range(256)) * 40)
add("letters of other alphabets", "AC", RIGHT.replace("a submission", "\u202e\u0430\u0440\u0435\u200b"))
add("right", "AC", RIGHT)
