"""More kernels that cheat, stall, spy or play games, by kind; see `hostile_kernels`, whose table they go into."""

from __future__ import annotations

from .hostile_kernels import (
    BLOCK_SUM,
    HEADER,
    INDEX,
    OPEN,
    PRODUCT,
    PRODUCT_OPEN,
    RIGHT,
    RIGHT_BODY,
    SUM_HEADER,
    SUM_OPEN,
    TILED,
    add,
    body,
    kind,
    launch,
)

RIGHT_LINE = "    if (i < n) z[i] = a * x[i] + y[i];"
LAUNCH = "// Launch:  saxpy block=(256) grid=(cdiv(n, 256))\n"


def header(name: str, verdict: str, old: str, new: str) -> None:
    """A right saxpy with something else in its header."""
    assert RIGHT.count(old) == 1, old
    add(name, verdict, RIGHT.replace(old, new))


def above(name: str, verdict: str, text: str, *, line: str = RIGHT_LINE) -> None:
    """A right saxpy with something above its kernel."""
    add(name, verdict, f"{HEADER}{text}\n{OPEN}{INDEX}{line}\n}}\n")


def asm(name: str, verdict: str, text: str, *, line: str = RIGHT_LINE) -> None:
    """A right saxpy with an instruction by hand in front."""
    body(name, verdict, f"    {text}\n{line}")


# ---------------------------------------------------------------- budgets
kind("budgets")
add("launches that each run for long", "TLE", HEADER.replace(LAUNCH, LAUNCH * 400) + OPEN + INDEX
    + "    float s = 0;\n    for (int k = 0; k < 60000; ++k) s = s * 0.5f + k;\n"
    "    if (i < n) z[i] = a * x[i] + y[i] + (s < 0 ? 1.0f : 0.0f);\n}\n")
body("all threads add to one word for long", "TLE",
     "    for (int k = 0; k < 10000000; ++k) atomicAdd(&z[0], 1.0f);\n    if (i < n) z[i] = 0;")
body("lanes leave a loop one by one", "TLE",
     "    float s = 0;\n    for (long long k = 0; k < (threadIdx.x % 32 + 1) * 100000000LL; ++k) s = s * 0.5f + k;\n"
     "    if (i < n) z[i] = s;")
body("waits for the clock", "TLE", "    const long long t = clock64(); while (clock64() - t < 1000000000000LL) {}\n" + RIGHT_LINE)
body("waits for the timer", "TLE",
     '    unsigned long long t, u; asm volatile("mov.u64 %0, %globaltimer;" : "=l"(t));\n'
     '    do { asm volatile("mov.u64 %0, %globaltimer;" : "=l"(u)); } while (u - t < 1000000000000ull);\n' + RIGHT_LINE)
body("sleeps for very long", "TLE", "    for (;;) __nanosleep(1000000000u);")
body("loops inside loops inside loops", "TLE",
     "    float s = 0;\n" + "".join(f"    for (int k{d} = 0; k{d} < 1000; ++k{d})\n" for d in range(6))
     + "        s = s * 0.5f + k5;\n    if (i < n) z[i] = s;")
body("a loop that turns at the largest integer", "TLE",
     "    float s = 0; for (unsigned k = 0; k <= 0xffffffffu; ++k) s += k; if (i < n) z[i] = s;")
body("barriers that never end", "TLE", "    while (__syncthreads_or(1)) {}\n" + RIGHT_LINE)
body("shuffles that never end", "TLE", "    float s = a; while (__shfl_xor_sync(0xffffffffu, s, 1) == s) s += 0.0f;\n" + RIGHT_LINE)
body("a lock that nobody opens", "TLE", "    while (atomicCAS(&lock, 0, 1) != 0) {}\n" + RIGHT_LINE, before="__device__ int lock = 1;\n")
body("memory set for a terabyte", "OOB", "    memset(z, 0, 1ull << 40);\n" + RIGHT_LINE)
body("memory copied for a gigabyte", "OOB", "    memcpy(z, x, 1ull << 30);\n" + RIGHT_LINE)
launch("a million blocks of full size", "TLE", "block=(1024) grid=(1000000)")
launch("blocks in three dimensions without end", "TLE", "block=(8, 8, 8) grid=(65535, 65535, 65535)")
body("every loop unrolled inside another", "OOB TLE",
     "    float s = 0;\n" + "".join(f"    #pragma unroll\n    for (int k{d} = 0; k{d} < 48; ++k{d})\n" for d in range(4))
     + "        s = s * x[k0] + y[k1] * x[k2 + k3];\n    if (i < n) z[i] = s;")
add("a switch of four thousand cases", "CLE", lambda: HEADER + OPEN + INDEX + "    float s = 0;\n    switch (n % 5000) {\n"
    + "".join(f"    case {k}: s = x[0] * {k}.5f; break;\n" for k in range(4000))
    + "    }\n    if (i < n) z[i] = a * x[i] + y[i] + 0.0f * (s == 77.125f);\n}\n")
add("two hundred kernels that nobody launches", "AC", lambda: HEADER
    + "".join(f"__global__ void spare{k}(float* p) {{ p[{k}] = {k}; }}\n" for k in range(200)) + RIGHT[len(HEADER):])
add("a table of forty thousand numbers", "AC", lambda: HEADER + "__device__ const int table[] = {"
    + ",".join(str(k * 7919 % 9973) for k in range(40_000)) + "};\n" + OPEN + INDEX
    + "    if (i < n) z[i] = a * x[i] + y[i] + (table[i % 40000] < 0 ? 1.0f : 0.0f);\n}\n")
add("lambdas inside lambdas", "AC", HEADER + OPEN + INDEX + "    auto f0 = [=](float v) { return v; };\n"
    + "".join(f"    auto f{k} = [=](float v) {{ return f{k - 1}(v) + 0.0f; }};\n" for k in range(1, 200))
    + "    if (i < n) z[i] = f199(a * x[i] + y[i]);\n}\n")

# ---------------------------------------------------------------- what is printed
kind("output")
body("a precision of two billion", "AC", r'    if (i == 0) printf("%.2000000000f\n", 1.0);' + "\n" + RIGHT_LINE)
body("a text of wild length", "AC", '    if (i == 0) printf("%.*s\\n", 2000000000, "short");\n' + RIGHT_LINE)
body("a conversion that writes", "AC", '    int k = 0; if (i == 0) printf("%n", &k);\n' + RIGHT_LINE)
body("more conversions than arguments", "AC", '    if (i == 0) printf("%d %d %d %s %s %f %p\\n", 1);\n' + RIGHT_LINE)
body("a format that is no text", "AC", "    if (i == 0) printf((const char*)x, 1);\n" + RIGHT_LINE)
body("a format that is computed", "AC", '    const char* f = n % 2 ? "%d\\n" : "%f\\n"; if (i == 0) printf(f, 1);\n' + RIGHT_LINE)
body("escape codes and letters that turn around", "AC",
     '    if (i == 0) printf("\\x1b[2J\\x1b]0;owned\\x07\\u202e\\u2066 %c%c\\n", 0, 7);\n' + RIGHT_LINE)
body("every thread says little", "OLE", '    printf("%d\\n", i);\n' + RIGHT_LINE)
body("markup", "AC", '    if (i == 0) printf("<script>alert(1)</script><img src=x onerror=alert(1)>\\n");\n' + RIGHT_LINE)
body("an assertion with a long text", "RTE", "    assert(i < 0 && \"" + "x" * 20_000 + "\");\n" + RIGHT_LINE)

# ---------------------------------------------------------------- headers and launches
kind("headers")
launch("no threads", "LE", "block=(0) grid=(1)")
launch("no blocks", "LE", "block=(256) grid=(0)")
launch("a negative grid", "LE", "block=(256) grid=(0 - 1)")
launch("a block too deep", "LE", "block=(2, 2, 65) grid=(1)")
launch("a grid too high", "LE", "block=(256) grid=(1, 70000)")
launch("negative shared memory", "LE", "block=(256) grid=(cdiv(n, 256)) shared=0 - 8")
launch("a grid beyond 64 bits", "LE", "block=(256) grid=(9999999999 * 9999999999 * 9999999999)")
launch("a grid by the input's values", "LE", "block=(256) grid=(x)")
header("launches what does not exist", "LE", "// Launch:  saxpy", "// Launch:  other")
header("launches twice", "AC", LAUNCH, LAUNCH * 2)
header("sizes that hide a parameter", "BAD", "// Launch:", "// Sizes:   n = 1\n// Launch:")
header("needs what can never be", "LE", "// Launch:", "// Needs:   n < 0\n// Launch:")
header("needs what cannot be computed", "BAD", "// Launch:", "// Needs:   n / 0 == 1\n// Launch:")
header("an input that starts at zero", "BAD", "// Launch:", "// Zeroed:  x\n// Launch:")
header("an input that is scratch", "BAD", "// Launch:", "// Scratch: x\n// Launch:")
header("an input that is an output too", "NE", "const float y[n] in", "float y[n] inout")
header("doubles for floats", "NE", "float z[n] out", "double z[n] out")
header("an output that is larger", "NE", "z[n] out", "z[n + 1] out")
header("an output that is smaller", "NE", "z[n] out", "z[1] out")
header("a keyword nobody knows", "BAD", "// Launch:", "// Points:  100\n// Launch:")
add("a header behind the kernel", "NE", OPEN + RIGHT_BODY + "}\n" + HEADER)
add("a header in a string", "CE", 'const char* text = R"(\n' + HEADER + ')";\n' + OPEN + RIGHT_BODY + "}\n")
add("two headers", "AC", HEADER + "\n" + HEADER.replace("a submission", "another").replace("cdiv(n, 256)", "1")
    + OPEN + RIGHT_BODY + "}\n")
add("a header of other digits", "BAD", RIGHT.replace("block=(256)", "block=(\uff12\uff15\uff16)"))
add("a header with a line that goes on", "BAD", RIGHT.replace("block=(256) grid", "block=(256) \\\n// grid"))
add("launch bounds below the launch", "LE", RIGHT.replace("__global__ void", "__global__ void __launch_bounds__(32)"))
add("clusters", "CE", RIGHT.replace("__global__ void", "__global__ void __cluster_dims__(2, 1, 1)"))

# ---------------------------------------------------------------- macros, names, letters
kind("macros and names")
above("float is double", "NE", "#define float double")
above("the entry's name is another's", "NE", "#define saxpy other")
above("global is nothing", "NE", "#undef __global__\n#define __global__ __device__")
above("a guard that macros take away", "OOB", "#define if(condition)", line=RIGHT_LINE)
above("lanes by a macro", "WA", "struct Zero { unsigned x = 0, y = 0, z = 0; };\n#define threadIdx Zero()")
above("the hour of the day", "RJ", "", line="    if (i < n) z[i] = (__TIME__[7] % 2) ? a * x[i] + y[i] : 0.0f;")
above("the day of the year", "RJ", "", line="    if (i < n) z[i] = (__DATE__[5] % 2) ? a * x[i] + y[i] : 0.0f;")
above("the hour by pasted letters", "RJ", "#define PASTE(a, b) a##b\n#define NOW PASTE(__TI, ME__)",
      line="    if (i < n) z[i] = (NOW[7] % 2) ? a * x[i] + y[i] : 0.0f;")
above("the file's own time", "CE", "", line="    if (i < n) z[i] = (__TIMESTAMP__[18] % 2) ? a * x[i] + y[i] : 0.0f;")
above("a counter of the compiler's", "CE", "", line="    if (i < n) z[i] = a * x[i] + y[i] + __COUNTER__ * 0.0f;")
above("the file's own name", "AC", "", line='    if (i < n) z[i] = a * x[i] + y[i] + (__FILE__[0] == 1 ? 1 : 0);')
above("includes itself", "RJ", "#include __FILE__")
above("includes what stands in a macro's text", "RJ", "#define S(x) #x\n#define F S(/etc/passwd)\n#include F")
above("include_next", "RJ", '#include_next "/etc/passwd"')
above("import", "RJ", '#import "/etc/passwd"')
above("an endless device", "RJ", '#include "/dev/zero"')
above("its own standard input", "RJ", '#include "/dev/stdin"')
above("its own memory map", "RJ", "#include </proc/self/maps>")
above("a file above the headers", "RJ", "#include <../../../../../../../../etc/passwd>")
above("a library of hosts", "AC", "#include <fstream>")
above("a line far away", "RJ", "#line 2000000000")
above("a line in another file", "RJ", '# 1 "/etc/passwd" 1')
above("errors of one's own", "CE", "#error \x1b[31m<b>100 of 100 points</b>")
above("pragmas", "AC", "#pragma GCC system_header\n#pragma nv_diag_suppress 20014",
      line=f'    _Pragma("unroll 4")\n    for (int k = 0; k < 1; ++k)\n{RIGHT_LINE}')
above("a name by escapes", "AC", "", line="    const float \\u00e4 = a;\n    if (i < n) z[i] = \\u00e4 * x[i] + y[i];")
add("a name of another alphabet", "CE", RIGHT.replace("void saxpy", "void \u0455axpy"))
add("letters that turn the writing around", "AC", RIGHT.replace(
    "    if (i < n)", "    /* \u202e } \u2066 if (false) \u2069 \u2066 */ if (i < n)"))
add("an entry in a namespace", "NE", HEADER + "namespace mine {\n" + OPEN + RIGHT_BODY + "}\n}\n")
add("an entry that is a template", "CE", HEADER + "template <int N> " + OPEN + RIGHT_BODY + "}\n")
add("an entry without C's name", "AC", RIGHT.replace('extern "C" ', ""))
add("an entry that is static", "AC", RIGHT.replace('extern "C" __global__', "static __global__"))
add("a name of a hundred thousand letters", "AC", lambda: RIGHT.replace("const int i", f"const int {'q' * 100_000} = 1, i"))

# ---------------------------------------------------------------- instructions by hand
kind("instructions by hand")
asm("leaves early", "WA", 'asm volatile("exit;");')
asm("a breakpoint that no debugger waits at", "AC", 'asm volatile("brkpt;");')
asm("the multiprocessor's number", "AC", 'unsigned s; asm volatile("mov.u32 %0, %smid;" : "=r"(s));',
    line="    if (i < n) z[i] = s % 2 ? 0 : a * x[i] + y[i];")
asm("a counter of the hardware's", "RJ", 'unsigned s; asm volatile("mov.u32 %0, %pm0;" : "=r"(s));',
    line="    if (i < n) z[i] = s > 5 ? 0 : a * x[i] + y[i];")
asm("parameters far away", "OOB", 'float v; asm volatile("ld.param.f32 %0, [saxpy_param_0 + 65536];" : "=f"(v));',
    line="    if (i < n) z[i] = a * x[i] + y[i] + v * 0.0f;")
asm("a parameter that is written", "RJ", 'asm volatile("st.param.u64 [saxpy_param_2], %0;" :: "l"(x));')
asm("constants at a wild address", "OOB", 'float v; asm volatile("ld.const.f32 %0, [%1];" : "=f"(v) : "l"(1ull << 40));',
    line="    if (i < n) z[i] = a * x[i] + y[i] + v * 0.0f;")
asm("shared memory at a wild address", "OOB", 'asm volatile("st.shared.f32 [%0], %1;" :: "r"(1 << 30), "f"(a));')
asm("local memory at a wild address", "OOB", 'asm volatile("st.local.f32 [%0], %1;" :: "r"(1 << 30), "f"(a));')
asm("another file for its lines", "RJ", 'asm volatile(".file 9 \\"/etc/passwd\\"");')
asm("a pragma by hand", "AC", 'asm volatile(".pragma \\"nounroll\\";");')
asm("a jump to nowhere", "RJ", 'asm volatile("bra nowhere;");')
asm("a jump into another block", "RJ", 'asm volatile("{ bra L1; }\\n{ L1: }");')
asm("a barrier of seven threads", "RJ", 'asm volatile("bar.sync 3, 7;");')
asm("a barrier of another number", "AC", 'asm volatile("bar.sync 15;");')
asm("a barrier that does not exist", "RJ", 'asm volatile("bar.sync 99;");')
asm("a fetch from far away", "AC", 'asm volatile("prefetch.global.L2 [%0];" :: "l"(x + (1ull << 40)));')
asm("a brace too many", "RJ", 'asm volatile("}");')
asm("a comment that is not closed", "RJ", 'asm volatile("/*");')
asm("a register of nobody's", "RJ", 'asm volatile("add.f32 %f999999, %f999999, 1.0;");')
asm("a register of another type", "RJ", 'asm volatile("{ .reg .pred p; mov.u32 p, 1; }");')
asm("instructions without end", "CLE", 'int k = 0; asm volatile("' + "add.u32 %0,%0,1;" * 15_500 + '" : "+r"(k));')
asm("text that is no instruction, and is long", "RJ", 'asm volatile("' + "\u00e4" * 5000 + '");')
asm("sleeps by hand", "AC", 'asm volatile("nanosleep.u32 1000000000;");')
asm("fewer registers", "RJ", 'asm volatile("setmaxnreg.dec.sync.aligned.u32 24;");')
asm("waits for another grid", "AC", 'asm volatile("griddepcontrol.wait;");')

# ---------------------------------------------------------------- memory
kind("memory")
body("a constant that is written", "RTE", "    table[0] = 1.0f;\n" + RIGHT_LINE, before="__constant__ float table[4];\n")
body("a constant that is written behind its back", "RTE",
     "    *const_cast<float*>(&table[threadIdx.x % 4]) = 1.0f;\n" + RIGHT_LINE, before="__constant__ float table[4];\n")
body("constant memory too large", "CLE", "    if (i < n) z[i] = table[i] + a * x[i] + y[i];", before="__constant__ float table[100000];\n")
body("memory of host and device", "AC", "    seen[0] = n;\n" + RIGHT_LINE, before="__managed__ int seen[4];\n")
body("a variable that nobody defines", "LE", "    if (i < n) z[i] = elsewhere[i];", before="extern __device__ float elsewhere[];\n")
body("in front of shared memory", "OOB", "    tile[(int)threadIdx.x - 1] = a;\n" + RIGHT_LINE, before="__shared__ volatile float tile[256];\n")
body("a word at an odd address", "OOB", "    if (i < n) *(float*)((char*)z + 1) = a;")
body("four words at an address of one", "OOB", "    if (i < n) *(float4*)(z + 1) = make_float4(a, a, a, a);")
body("the largest index there is", "OOB", "    if (i < n) z[i + 0x7fffffffffffll] = a;")
body("an index that wraps", "OOB", "    if (i < n) z[(unsigned)i - 1u] = a;")
body("a pointer to the stack of another thread", "RACE",
     "    float own = a; if (threadIdx.x == 0) other = &own; __syncthreads();\n    if (i < n) z[i] = *other * x[i] + y[i] + 1.0f;",
     before="__device__ float* other;\n")
body("the poison of outputs", "WA", "    if (i < n && __float_as_int(z[i]) != 0x7fc0dead) z[i] = a * x[i] + y[i];")
body("freed twice", "OOB", "    void* p = malloc(64); free(p); free(p);\n" + RIGHT_LINE)
body("an array of variable length", "CE", "    float row[n]; row[0] = a;\n" + RIGHT_LINE)
body("much local memory", "AC",
     "    float row[100000]; for (int k = 0; k < 100000; k += 1000) row[k] = x[0];\n"
     "    if (i < n) z[i] = a * x[i] + y[i] + 0.0f * row[(i * 1000) % 100000];")

# ---------------------------------------------------------------- order
kind("order")
body("results that a race decides", "RACE", "    winner = i; if (i < n) z[i] = winner == i ? a * x[i] + y[i] : 0;",
     before="__device__ int winner;\n")
add("sums without a barrier, by volatile", "RACE", SUM_HEADER + SUM_OPEN + """\
    volatile __shared__ float s[256];
    const int i = blockIdx.x * 256 + threadIdx.x;
    s[threadIdx.x] = i < n ? x[i] : 0.0f;
    for (int h = 128; h > 0; h /= 2) if (threadIdx.x < h) s[threadIdx.x] += s[threadIdx.x + h];
    if (threadIdx.x == 0) sums[blockIdx.x] = s[0];
}
""", step=BLOCK_SUM)
add("a mask that lies", "SYNC", SUM_HEADER + SUM_OPEN + """\
    const int i = blockIdx.x * 256 + threadIdx.x;
    float s = i < n ? x[i] : 0.0f;
    if (threadIdx.x % 2) s += __shfl_xor_sync(0xffffffffu, s, 1);
    if (threadIdx.x == 0) sums[blockIdx.x] = s;
}
""", step=BLOCK_SUM)
add("the last block adds, without a fence", "RACE", SUM_HEADER + "__device__ unsigned done;\n" + SUM_OPEN + """\
    if (threadIdx.x == 0) atomicAdd(&done, 1u);
    if (threadIdx.x == 0 && done == gridDim.x) for (int b = 0; b < gridDim.x; ++b) sums[b] = 0;
}
""", step=BLOCK_SUM)
add("a barrier in a loop of different lengths", "SYNC", SUM_HEADER + SUM_OPEN + """\
    __shared__ float s[256];
    s[threadIdx.x] = 0;
    for (int k = 0; k < threadIdx.x; ++k) __syncthreads();
    if (threadIdx.x == 0) sums[blockIdx.x] = s[0];
}
""", step=BLOCK_SUM)

# ---------------------------------------------------------------- past the counters
kind("past the counters")
add("one matrix in constant memory", "LE", PRODUCT.replace("// Launch:", "// Constant: a <- A\n// Launch:")
    + "__constant__ float a[16384];\n" + PRODUCT_OPEN
    + "    for (int k = 0; k < K; ++k) sum += a[row * K + k] * B[k * N + col];\n    C[row * N + col] = sum;\n}\n", step=TILED)
add("loads through textures' path", "PERF", PRODUCT + PRODUCT_OPEN
    + "    for (int k = 0; k < K; ++k) sum += __ldg(&A[row * K + k]) * __ldg(&B[k * N + col]);\n"
    "    C[row * N + col] = sum;\n}\n", step=TILED)
add("loads by memcpy", "PERF", PRODUCT + PRODUCT_OPEN
    + "    for (int k = 0; k < K; ++k) { float u, v; memcpy(&u, &A[row * K + k], 4); memcpy(&v, &B[k * N + col], 4); sum += u * v; }\n"
    "    C[row * N + col] = sum;\n}\n", step=TILED)
add("loads by hand, of bytes", "PERF", PRODUCT + PRODUCT_OPEN
    + "    for (int k = 0; k < K; ++k) {\n        unsigned u = 0;\n        for (int b = 0; b < 4; ++b)"
    " u |= (unsigned)((const unsigned char*)&A[row * K + k])[b] << 8 * b;\n"
    "        sum += __int_as_float(u) * B[k * N + col];\n    }\n    C[row * N + col] = sum;\n}\n", step=TILED)
add("asynchronous copies that are not waited for", "RACE", SUM_HEADER + SUM_OPEN + """\
    __shared__ float s[256];
    const int i = blockIdx.x * 256 + threadIdx.x;
    s[threadIdx.x] = 0;
    if (i < n) asm volatile("cp.async.ca.shared.global [%0], [%1], 4;"
        :: "r"((unsigned)__cvta_generic_to_shared(&s[threadIdx.x])), "l"(x + i));
    __syncthreads();
    if (threadIdx.x == 0) { float t = 0; for (int k = 0; k < 256; ++k) t += s[k]; sums[blockIdx.x] = t; }
}
""", step=BLOCK_SUM)
