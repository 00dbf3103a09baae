"""Random kernels: the translated simulator against the oracle, every output bit and every counter.

A seed makes a CUDA C++ kernel of expressions over mixed types, nested loops and branches that part the lanes, break and
continue, switches, calls of functions (one of them recursive), shared memory between barriers, loops around barriers,
shuffles and votes, in ragged blocks too; NVRTC compiles it, both simulators run it. Every other program is of numbers:
halves, bfloat16 and doubles beside the rest.
"""

from __future__ import annotations

import random

import numpy as np
import pytest

from warpschool.compile import compile_cuda

from . import engine_launch, oracle_launch

BLOCKS = [(32, 1), (64, 1), (50, 1), (16, 8), (8, 12), (96, 1)]
WORDS = 16
KINDS = ("unsigned", "int", "float", "long long")
NUMBERS = ("double", "__half", "__nv_bfloat16", "unsigned long long")
HALVES = {"__half": "__half_as_ushort", "__nv_bfloat16": "__bfloat16_as_ushort"}
HEADERS = "#include <cuda_fp16.h>\n#include <cuda_bf16.h>\n"
FUNCTIONS = """
__device__ __noinline__ unsigned mixed(unsigned a, int n)
{
    for (int k = 0; k < (n & 3); ++k) a = a * 5 + k;
    return a ^ n;
}
__device__ __noinline__ unsigned descend(unsigned a, int n)
{
    if ((n & 15) < 3) return a + n;
    const unsigned below = descend(a * 3 + n, (n & 15) - 2);
    return below * 7 - a;
}
__device__ __noinline__ unsigned turned(unsigned a, int n) { return __funnelshift_l(a, a, n) + descend(a, n >> 2); }
typedef unsigned (*Function)(unsigned, int);
__device__ Function functions[3] = {mixed, descend, turned};
"""


class Program:
    """Writes one random kernel."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.block = self.random.choice(BLOCKS)
        self.lines: list[str] = []
        self.kinds = KINDS + NUMBERS if seed % 2 else KINDS
        self.names: dict[str, list[str]] = {kind: [] for kind in self.kinds}
        self.calls = False
        self.depth = 0
        self.count = 0

    def source(self) -> str:
        threads = self.block[0] * self.block[1]
        self.emit("const int t = threadIdx.y * blockDim.x + threadIdx.x;")
        self.emit(f"const int i = blockIdx.x * {threads} + t;")
        for number, kind in enumerate(self.kinds):
            for k in range(2):
                name = f"v{number}{k}"
                self.emit(f"{kind} {name} = {self.converted(kind, f'x[(i * {3 + k} + {7 * k}) % n]', 'unsigned')};")
                self.names[kind].append(name)
        for _ in range(self.random.randint(3, 6)):
            self.statement(top=True)
        for k, kind in enumerate((*self.kinds, *self.kinds)):
            value = self.names[kind][k // len(self.kinds)]
            bits = f"__float_as_uint({value})" if kind == "float" else f"(unsigned){value}"
            if kind == "double":  # the payload of a double's NaN is left open
                bits = f"(isnan({value}) ? 7u : (unsigned)__double_as_longlong({value}) ^ __double2hiint({value}))"
            if kind in HALVES:
                bits = f"{HALVES[kind]}({value})"
            self.emit(f"out[i * {WORDS} + {k}] = {bits};")
        body = "\n    ".join(self.lines)
        head = (HEADERS if len(self.kinds) > len(KINDS) else "") + (FUNCTIONS if self.calls else "")
        return head + f'extern "C" __global__ void k(const unsigned* x, unsigned* out, int n) {{\n    __shared__ unsigned s[{threads}];\n    {body}\n}}\n'

    def emit(self, text: str) -> None:
        self.lines.append("    " * self.depth + text)

    def pick(self, kind: str) -> str:
        return self.random.choice(self.names[kind])

    def converted(self, kind: str, text: str, of: str) -> str:
        """`text` of kind `of` as `kind`; halves go through float."""
        if of in HALVES:
            text = f"(float)({text})"
        return f"{kind}((float)({text}))" if kind in HALVES else f"({kind})({text})"

    def expression(self, kind: str, depth: int = 2) -> str:
        r = self.random
        if kind in NUMBERS[:3]:
            return self.number(kind, depth)
        if depth == 0 or r.random() < 0.2:
            constant = f"{r.uniform(-3, 3):.3f}f" if kind == "float" else str(r.randint(-40, 90))
            return r.choice([self.pick(kind), self.pick(kind), constant, f"({kind})threadIdx.x", f"({kind})(t % 7)"])
        a, b = self.expression(kind, depth - 1), self.expression(kind, depth - 1)
        if r.random() < 0.2:
            other = r.choice([k for k in self.kinds if k in ("unsigned", "int", "long long") or kind == "float"])
            return self.converted(kind, self.expression(other, depth - 1), other)
        if r.random() < 0.15:
            return f"({self.condition()} ? {a} : {b})"
        if kind == "float":
            return r.choice([f"({a} + {b})", f"({a} - {b})", f"({a} * {b})", f"fminf({a}, {b})", f"fabsf({a})", f"fmaf({a}, {b}, {a})"])
        plain = [f"({a} + {b})", f"({a} - {b})", f"({a} * {b})", f"({a} & {b})", f"({a} | {b})", f"({a} ^ {b})"]
        shifts = [f"({a} >> {r.randint(0, 20)})", f"({a} << {r.randint(0, 9)})"]
        division = [f"({a} / ((({b}) & 15) + 1))", f"({a} % ((({b}) & 7) + 3))"]
        return r.choice(plain + shifts + division + [f"min(({kind}){a}, ({kind}){b})", f"max(({kind}){a}, ({kind}){b})"])

    def number(self, kind: str, depth: int) -> str:
        """An expression over halves or doubles."""
        r = self.random
        if depth == 0 or r.random() < 0.2:
            constant = f"{r.uniform(-3, 3):.3f}" if kind == "double" else f"{kind}({r.uniform(-3, 3):.3f}f)"
            return r.choice([self.pick(kind), self.pick(kind), constant, self.converted(kind, "t % 7", "int")])
        if r.random() < 0.2:
            other = r.choice([k for k in self.kinds if k != kind])
            return self.converted(kind, self.expression(other, depth - 1), other)
        a, b = self.number(kind, depth - 1), self.number(kind, depth - 1)
        if kind == "double":
            return r.choice([f"({a} + {b})", f"({a} * {b})", f"fmin({a}, {b})", f"fma({a}, {b}, {a})", f"fabs({a})"])
        forms = ["__hadd({}, {})", "__hmul({}, {})", "__hsub({}, {})", "__hmax({}, {})", "__hmin({}, {})"]
        return r.choice([*(f.format(a, b) for f in forms), f"__hfma({a}, {b}, {a})", f"__hneg({a})", f"__habs({b})"])

    def condition(self) -> str:
        kind = self.random.choice(("unsigned", "int", "float"))
        a, b = self.expression(kind, 1), self.expression(kind, 1)
        return self.random.choice([f"{a} < {b}", f"{a} > {b}", "(t & 3) == 1", "t < 20", f"({self.pick('unsigned')} & 1)"])

    def statement(self, top: bool = False) -> None:
        r = self.random
        choices = ["assign", "assign", "if", "loop", "switch"] if self.depth < 3 else ["assign"]
        choices += ["call"] if self.random.random() < 0.15 else []
        if top:
            choices += ["shared", "shuffle", "vote", "rounds"]
        getattr(self, r.choice(choices))()

    def assign(self) -> None:
        kind = self.random.choice(self.kinds)
        self.emit(f"{self.pick(kind)} = {self.expression(kind)};")

    def switch(self) -> None:
        r = self.random
        self.emit(f"switch ({self.pick('unsigned')} % {r.randint(3, 9)}) {{")
        for case in range(r.randint(3, 6)):
            self.emit(f"case {case}: {{")
            self.nested(1)
            self.emit("}" + r.choice([" break;", " break;", ""]))
        self.emit("default:")
        self.nested(1)
        self.emit("}")

    def call(self) -> None:
        self.calls = True
        callee = self.random.choice(["mixed", "descend", "turned", f"functions[{self.pick('unsigned')} % 3]"])
        self.emit(f"{self.pick('unsigned')} = {callee}({self.expression('unsigned', 1)}, {self.pick('int')} & 63);")

    def rounds(self) -> None:
        """A loop around barriers, as long for all threads."""
        self.count += 1
        k = f"k{self.count}"
        threads = self.block[0] * self.block[1]
        self.emit(f"for (int {k} = 0; {k} < {self.random.choice(['3', 'n % 5', 'gridDim.x'])}; ++{k}) {{")
        self.nested(1, f"s[t] = {self.expression('unsigned')};")
        self.emit("    __syncthreads();")
        self.emit(f"    {self.pick('unsigned')} += s[(t + {k}) % {threads}];")
        self.emit("    __syncthreads();")
        self.emit("}")

    def nested(self, count: int, extra: str = "") -> None:
        self.depth += 1
        for _ in range(count):
            self.statement()
        if extra:
            self.emit(extra)
        self.depth -= 1

    def if_(self) -> None:
        self.emit(f"if ({self.condition()}) {{")
        self.nested(self.random.randint(1, 2))
        if self.random.random() < 0.5:
            self.emit("} else {")
            self.nested(self.random.randint(1, 2))
        self.emit("}")

    def loop(self) -> None:
        self.count += 1
        k = f"k{self.count}"
        bound = self.random.choice(["5", f"({self.pick('unsigned')} & 7)", "(t % 5)", "(t / 16 + 1)"])
        self.emit(f"for (int {k} = 0; {k} < {bound}; ++{k}) {{")
        leave = self.random.choice(["", f"if ({self.condition()}) break;", f"if ({self.condition()}) continue;"])
        self.nested(self.random.randint(1, 2), leave)
        self.nested(1)
        self.emit("}")

    def shared(self) -> None:
        threads = self.block[0] * self.block[1]
        self.emit(f"s[t] = {self.expression('unsigned')};")
        self.emit("__syncthreads();")
        shift = self.random.randint(0, threads)
        index = self.random.choice([f"(t + {shift}) % {threads}", f"{threads - 1} - t", "t / 4", str(shift % threads)])
        self.emit(f"{self.pick('unsigned')} = s[{index}];")
        self.emit("__syncthreads();")

    def shuffle(self) -> None:
        source = self.expression("unsigned")
        form = self.random.choice(["__shfl_xor_sync(~0u, {}, 5)", "__shfl_down_sync(~0u, {}, 3)", "__shfl_sync(~0u, {}, t * 3)"])
        self.warps_are_whole(f"{self.pick('unsigned')} = {form.format(source)};")

    def vote(self) -> None:
        self.warps_are_whole(f"{self.pick('unsigned')} += __ballot_sync(~0u, {self.condition()});")

    def warps_are_whole(self, text: str) -> None:
        """Statements that name all 32 lanes need a block of whole warps."""
        if self.block[0] * self.block[1] % 32 == 0:
            self.emit(text)


setattr(Program, "if", Program.if_)


@pytest.mark.parametrize("seed", [*range(6), *(pytest.param(s, marks=pytest.mark.slow) for s in range(6, 300))])
@pytest.mark.thinned(6)
def test_random_kernel(seed):
    program = Program(seed)
    source = program.source()
    ptx = compile_cuda(source, arch=("compute_80", "compute_100")[seed // 2 % 2]).ptx
    threads, grid = program.block[0] * program.block[1], 3
    x = np.random.default_rng(seed).integers(0, 200, 257).astype(np.uint32)
    arguments = [x, np.zeros(grid * threads * WORDS, np.uint32), np.int32(len(x))]
    expected = oracle_launch.launch(ptx, "k", (grid,), program.block, *arguments)
    for options in ({}, {"parted": True}, {"check": False, "threads": 1}, {"tier": "stencils"}):
        ours = engine_launch.launch(ptx, "k", (grid,), program.block, *arguments, **options)
        assert not ours.record.hazards, f"{ours.record.hazards[0].message}\n{source}"
        words = zip(ours.arrays[1].reshape(-1, WORDS), expected.arrays[1].reshape(-1, WORDS), strict=True)
        for thread, (mine, theirs) in enumerate(words):
            assert (mine == theirs).all(), f"thread {thread}, {options}: {mine} != {theirs}\n{source}"
        differ = {n: (ours.counters.get(n, 0), c) for n, c in expected.counters.items() if ours.counters.get(n, 0) != c}
        assert not differ, f"{options}: (engine, oracle) = {differ}\n{source}"
