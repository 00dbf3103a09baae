"""Clang in NVRTC's place: the choice, messages, limits, headers; results that are NVRTC's, and what it cannot know.

Without the package ziglang those that compile are skipped; `make test-clang` runs all references and more.
"""

from __future__ import annotations

import importlib.util
import re
import sys

import numpy as np
import pytest
from typer.testing import CliRunner

import warpschool as ws
from warpschool.cli.app import app
from warpschool.compile import (
    CompileLimits,
    clang as clang_module,
    compile_cuda,
    compiler_report,
    find_compiler,
    find_toolchain,
    resource_usage,
)
from warpschool.compile.clang import INCLUDE, as_nvrtc_log, find_clang
from warpschool.compile.result import parse_log
from warpschool.course import Course
from warpschool.errors import (
    ArgumentError,
    CompileError,
    CompileLimitError,
    CompilerLacks,
    CompilerMissing,
    PolicyError,
)

pytestmark = pytest.mark.usefixtures("forked_checks")

needs_clang = pytest.mark.skipif(
    importlib.util.find_spec("ziglang") is None, reason="clang is not installed: pip install 'warpschool[clang]'"
)
KERNEL = """#include <cuda_fp16.h>
extern "C" __global__ void scale(float *x, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] = 2.0f * x[i];
}
"""


@pytest.fixture
def no_nvrtc(monkeypatch):
    """A machine without NVRTC, as a Mac is."""
    monkeypatch.delenv("WARPSCHOOL_COMPILER", raising=False)
    monkeypatch.setattr(sys, "platform", "darwin")
    find_toolchain.cache_clear()
    yield
    find_toolchain.cache_clear()


# ---------------------------------------------------------------- the choice


@needs_clang
def test_without_nvrtc_clang_compiles(no_nvrtc):
    assert find_compiler().name == "clang"
    assert str(compiler_report()["compiler"]).startswith("clang 2")


def test_without_both_the_message_says_what_to_install(no_nvrtc, monkeypatch):
    monkeypatch.setattr(clang_module.importlib.util, "find_spec", lambda name: None)
    find_clang.cache_clear()
    try:
        with pytest.raises(CompilerMissing, match=r"not run on macOS(.|\n)*ziglang is not(.|\n)*warpschool\[clang\]"):
            find_compiler()
        with pytest.raises(CompilerMissing, match=r"pip install 'warpschool\[clang\]'"):
            find_compiler("clang")
    finally:
        find_clang.cache_clear()


def test_a_check_without_the_compiler_that_was_asked_for_is_no_verdict(monkeypatch):
    monkeypatch.setenv("WARPSCHOOL_COMPILER", "auto")  # the option sets it
    monkeypatch.setattr(clang_module.importlib.util, "find_spec", lambda name: None)
    find_clang.cache_clear()
    try:
        solution = Course.find().step("lab00_first_kernels/01_saxpy").solution
        done = CliRunner().invoke(app, ["check", "lab00/01", "--kernel", str(solution), "--compiler", "clang"])
    finally:
        find_clang.cache_clear()
    assert done.exit_code == 3 and "pip install 'warpschool[clang]'" in done.output and "SE" not in done.output


def test_the_variable_and_the_argument_choose(monkeypatch):
    monkeypatch.setenv("WARPSCHOOL_COMPILER", "gcc")
    with pytest.raises(ArgumentError, match=r"no compiler 'gcc'"):
        find_compiler()
    assert find_compiler("nvrtc").name == "nvrtc"
    monkeypatch.setenv("WARPSCHOOL_COMPILER", "nvrtc")
    assert find_compiler().name == "nvrtc"


@needs_clang
def test_each_compiler_has_its_own_place_in_the_cache(monkeypatch):
    ours = compile_cuda(KERNEL, compiler="clang")
    theirs = compile_cuda(KERNEL, compiler="nvrtc")
    assert ours.key != theirs.key
    assert ours.compiler.startswith("clang ") and ours.nvrtc == "none"
    assert theirs.compiler == f"NVRTC {theirs.nvrtc}"
    monkeypatch.setattr(clang_module, "_headers_version", lambda: "other headers")
    assert compile_cuda(KERNEL, compiler="clang").key != ours.key


@needs_clang
def test_both_targets_and_an_unknown_one():
    assert ".target sm_80" in compile_cuda(KERNEL, compiler="clang").ptx
    assert ".target sm_90a" in compile_cuda(KERNEL, compiler="clang", arch="compute_90a").ptx
    for unknown in ("compute_33", "compute_20", "compute_999"):  # clang itself would take the second
        with pytest.raises(CompileError, match=rf"not know {unknown}; it knows compute_75, compute_80, compute_86,"):
            compile_cuda(KERNEL, compiler="clang", arch=unknown)


@needs_clang
@pytest.mark.parametrize("header", ["cuda.h", "cudaTypedefs.h"])
def test_tensor_maps_are_types_of_clangs_device_code_too(header):
    code = f"""#include <{header}>
extern "C" __global__ void k(const __grid_constant__ CUtensorMap map, unsigned long long* x) {{ x[0] = sizeof map; }}
"""
    assert re.search(r"\.align \d+ \.b8 k_param_0\[128\]", compile_cuda(code, compiler="clang", arch="compute_90a").ptx)


@needs_clang
@pytest.mark.parametrize("number", ["75", "88", "90", "100a", "103", "110", "120", "121"])
def test_gpus_of_every_generation_have_code_that_runs(number):
    """Newer ones need a newer version of PTX, each its own."""
    module = ws.RawModule(code=KERNEL, device="sim", compiler="clang", arch=f"compute_{number}")
    assert f".target sm_{number}\n" in module.ptx
    x = module.device.asarray(np.arange(5, dtype=np.float32))
    module.get_function("scale")((1,), (32,), (x, np.int32(5)))
    assert module.device.asnumpy(x).tolist() == [0, 2, 4, 6, 8]


@needs_clang
def test_ptx_names_the_source_and_its_lines_and_no_machine():
    ptx = compile_cuda(KERNEL, name="scale.cu", compiler="clang").ptx
    assert '"scale.cu"' in ptx and ".loc\t1 5 " in ptx
    assert "stdin" not in ptx and str(INCLUDE) not in ptx


# ---------------------------------------------------------------- messages


LOG = """<stdin>:3:5: error: use of undeclared identifier 'half_of'
<stdin>:1:20: error: member reference base type 'int' is not a structure or union
<stdin>:4:9: note: in instantiation of function template specialization 'g<int>' requested here
/where/warpschool/language.h:9:3: warning: odd
/where/warpschool/language.h:8:1: note: expanded from macro 'X'
<stdin>:4:2: note: here
<stdin>:5:7: error: no matching function for call to 'f'
<stdin>:2:5: note: candidate function not viable: call to __host__ function from __global__ function
4 errors generated when compiling for sm_80.
"""
SOURCE = """template <class T> __device__ T g(T a) { return a.x; }
int f();
    half_of(1);
    (void)g(1);
    x = f();
"""


def test_messages_are_told_as_those_of_nvrtc():
    found = parse_log(as_nvrtc_log(LOG, name="k.cu", source=SOURCE), name="k.cu", source=SOURCE)
    assert [(d.line, d.severity) for d in found] == [(3, "error"), (1, "error"), (4, "warning"), (5, "error")]
    assert (found[0].column, found[0].width, found[0].text) == (5, 7, "    half_of(1);")
    assert found[1].notes == (
        "detected during instantiation of function template specialization 'g<int>' requested here (line 4)",
    )
    assert found[3].message.startswith("a function needs __device__ (a helper)")


@needs_clang
def test_errors_stand_on_the_students_line():
    source = KERNEL.replace("2.0f * x[i]", "2.0f * y[i]")
    with pytest.raises(CompileError) as caught:
        compile_cuda(source, name="k.cu", compiler="clang")
    (found,) = caught.value.diagnostics
    assert (found.file, found.line, found.severity) == ("k.cu", 5, "error")
    assert found.text[found.column - 1] == "y" and str(found) in str(caught.value)


@needs_clang
def test_a_header_that_is_not_among_ours_says_which_are():
    with pytest.raises(CompileError, match=r'k\.cu:1: error: there is no header "cudaGL\.h"') as caught:
        compile_cuda("#include <cudaGL.h>\n" + KERNEL, compiler="clang", name="k.cu")
    assert "<cuda_fp16.h>" in caught.value.next_step and "NVRTC" in caught.value.next_step


@needs_clang
def test_a_variable_without_a_value_is_told():
    source = KERNEL.replace("if (i < n)", "float a; int unused; if (i < n)").replace("2.0f", "a")
    compiled = compile_cuda(source, compiler="clang")
    assert compiled.unset == ((5, "a"),)
    assert any("unused" in warning.message for warning in compiled.warnings)


# ---------------------------------------------------------------- limits and policy


@needs_clang
def test_a_bomb_ends_at_its_limits():
    bomb = """template <int N, int M> struct S { S<N - 1, 2 * M> a; S<N - 1, 2 * M + 1> b; };
template <int M> struct S<0, M> { int x; };
__global__ void k(int* x) { x[0] = sizeof(S<22, 0>); }
"""
    limits = CompileLimits(cpu_s=2.0, memory_bytes=1 << 29)
    with pytest.raises(CompileLimitError, match=r"processor time|memory"):
        compile_cuda(bomb, compiler="clang", limits=limits)


@needs_clang
def test_ptx_past_the_limit_is_refused():
    with pytest.raises(CompileLimitError, match="bytes of PTX"):
        compile_cuda(KERNEL + "// long\n", compiler="clang", limits=CompileLimits(ptx_bytes=100))


@needs_clang
@pytest.mark.parametrize(
    "line",
    [
        '#include "/etc/hostname"', "#include <../child.py>", '#embed "/etc/hostname"',
        '#pragma GCC dependency "/etc/hostname"', "_Pragma(\"GCC dependency '/etc/hostname'\")",
    ],
)  # fmt: skip
def test_no_foreign_file_is_read(line):
    with pytest.raises(PolicyError):
        compile_cuda(f"{line}\n{KERNEL}", compiler="clang")


# ---------------------------------------------------------------- options


@needs_clang
def test_options_mean_what_they_mean_to_nvrtc():
    source = """extern "C" __global__ void k(float *x) { x[0] = x[1] * x[2] + x[3] / sqrtf(x[4]) + expf(x[5]) + N; }"""

    def ptx(*options):
        return compile_cuda(source, options=("-DN=4", *options), compiler="clang").ptx

    assert "fma.rn.f32" in ptx() and "div.rn.f32" in ptx() and "sqrt.rn.f32" in ptx()
    unfused = compile_cuda(source.replace("expf(x[5])", "x[5]"), options=("-DN=4", "--fmad=false"), compiler="clang")
    assert "fma" not in unfused.ptx
    assert "sqrt.approx" in ptx("--use_fast_math") and ".ftz" in ptx("--use_fast_math")
    assert "div.full.f32" in ptx("--prec-div=false")
    assert ptx("--maxrregcount=32") == ptx()  # ptxas obeys it


# ---------------------------------------------------------------- what it cannot know


@needs_clang
def test_registers_are_not_known_and_nothing_stands_in_for_them():
    with pytest.raises(CompilerLacks, match="not known with clang"):
        resource_usage(KERNEL, compiler="clang")
    with pytest.raises(CompilerLacks):
        compile_cuda(KERNEL, arch="sm_90", compiler="clang")


@needs_clang
def test_the_debugger_shows_lines_and_variables(monkeypatch):
    """A variable is in local memory there, and has no value before the first one is written, be it what was there."""
    monkeypatch.setenv("WARPSCHOOL_COMPILER", "clang")
    recording = ws.trace(
        "// Entry: count(int y[n] out, int n)\n// Launch: count block=(32) grid=(1)\n"
        'extern "C" __global__ void count(int* y, int n)\n{\n'
        "    int from = -1;\n    for (int k = 0; k < 3; ++k) {\n        from += k;\n    }\n"
        "    y[threadIdx.x] = from;\n}\n",
        {"n": 32},
    )
    assert not recording.note
    assert [step.line for step in recording.steps if step.line > 4] == [5, *[6, 7] * 3, 6, 9, 10]
    at = {line: recording.at([step.line for step in recording.steps].index(line)) for line in (5, 6, 9)}
    assert not at[5]["from"].defined.any()
    assert at[6]["from"].defined.all() and (at[6]["from"].array == -1).all(), "the bytes of memory that nobody wrote"
    assert (at[9]["from"].array == 2).all()


@needs_clang
def test_a_criterion_about_registers_shows_no_points(monkeypatch):
    monkeypatch.setenv("WARPSCHOOL_COMPILER", "clang")
    step = Course.find().step("lab05_work_per_thread/06_double_buffered")
    result = ws.check(step.name, step.solution, device="sim")
    registers = result.criterion("Enough registers")
    assert result.ok and not registers.is_judged and registers.points == 0
    assert registers.seen.startswith("judged with NVRTC only: ")
    assert result.score == result.max_score == sum(c.weight for c in result.criteria) - registers.weight
    assert result.provenance["compiler"].startswith("clang ") and result.provenance["nvrtc"] == "none"
    assert "0/1  Enough registers" not in str(result) and "judged with NVRTC only" in str(result)


@needs_clang
@pytest.mark.parametrize(
    "step",
    [
        "lab02_tiling/01_tiled", "lab05_work_per_thread/02_wide_loads", "lab06_half_precision/01_half_storage",
        "lab07_tensor_cores/01_wmma_naive",
    ],
)  # fmt: skip
@pytest.mark.thinned(2)
def test_references_of_some_labs_are_accepted(step, monkeypatch):
    monkeypatch.setenv("WARPSCHOOL_COMPILER", "clang")
    result = ws.check(step, Course.find().step(step).solution, device="sim")
    assert result.ok and result.score == result.max_score > 0, result.to_json()


# ---------------------------------------------------------------- our headers, against NVIDIA's


GROUPS = r"""
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cooperative_groups/scan.h>
namespace cg = cooperative_groups;
"""
PUTS = {
    "groups": (GROUPS, """
    auto tile = cg::tiled_partition<8>(cg::this_thread_block());
    auto warp = cg::tiled_partition<32>(cg::this_thread_block());
    auto odd = cg::binary_partition(warp, v & 1);
    auto same = cg::labeled_partition(warp, v % 3);
    PUT(cg::reduce(tile, v, cg::plus<int>())); PUT(cg::reduce(warp, v, cg::greater<int>()));
    PUT(cg::inclusive_scan(tile, v, cg::plus<int>())); PUT(cg::exclusive_scan(warp, v, cg::plus<int>()));
    PUT(tile.shfl_up(v, 2)); PUT(tile.shfl(v, 3)); PUT(tile.ballot(v > 5)); PUT(tile.match_any(v & 1));
    PUT(tile.meta_group_rank() * 100 + tile.meta_group_size()); PUT(odd.thread_rank() * 100 + odd.size());
    PUT(cg::reduce(odd, v, cg::plus<int>())); PUT(same.thread_rank() + 100 * same.size());
    if (v > 4) {
        auto here = cg::coalesced_threads();
        out[64 * 40 + t] = here.thread_rank() * 1000 + here.size() * 10 + here.shfl(v, 0);
        out[64 * 41 + t] = here.shfl_down(v, 1);
    }
    cg::sync(cg::this_thread_block()); PUT(cg::this_grid().thread_rank());
"""),
    "integers": ("", """
    PUT(__match_any_sync(~0u, v)); PUT(__reduce_add_sync(~0u, v)); PUT(__syncthreads_count(v > 3));
    PUT(__syncthreads_or(v == 99)); PUT(__byte_perm(v, t * 77, 0x3715)); PUT(__funnelshift_l(v, t, 5));
    PUT(__vmaxs2(v * 65537, t * 3)); PUT(__vadd4(v * 0x1010101, 0xfefefefe)); PUT(__usad(v, t, 3));
    PUT(__clz(v) + __ffs(v) * 100 + __popc(v) * 10000); PUT(__brev(v)); PUT(__mulhi(v << 20, -t << 18));
    PUT(__dp4a(v * 0x1020304, t * 0x2030405, 7)); PUT(__shfl_xor_sync(~0u, v, 5)); PUT(__shfl_up_sync(~0u, v, 3, 8));
    PUT(__ballot_sync(~0u, v > 3)); PUT(min(v, 3u) + max(-v, 2)); PUT(__float2int_rn(v * 0.37f)); PUT(v / 3 % 5);
    PUT(__fns(v * 0x01040105, 0, t % 8 + 1)); PUT(__fns(v | 0x80000001, 31, -1 - t % 2));
    atomicAdd(out + 64 * 40 + t / 8, v); atomicMax(out + 64 * 40 + 10, v); atomicExch(out + 64 * 41 + t, v);
    atomicCAS(out + 64 * 41 + t, v, 5); atomicInc((unsigned *)out + 64 * 42, 20); atomicXor(out + 64 * 42 + 1, v * 3);
"""),
    "halves": ("#include <cuda_fp16.h>\n#include <cuda_bf16.h>\n", """
    half h = __float2half(v * 0.37f), g = __int2half_rn(t), one = __float2half(1.0f);
    half2 p = __floats2half2_rn(v, t * 0.1f), q = __half2half2(h);
    auto H = [](half x) { return __half_as_ushort(x); };
    auto P = [](half2 x) { return *reinterpret_cast<int *>(&x); };
    PUT(H(__hfma(h, g, h))); PUT(H(h + g)); PUT(H(h * g - h)); PUT(H(h / (g + one))); PUT(H(__hmax(h, g)));
    PUT(H(-h)); PUT(H(__habs(-h))); PUT(P(__hfma2(p, q, p))); PUT(P(p * q + p)); PUT(P(__hmax2(p, q)));
    PUT(P(__hlt2(p, q))); PUT(__hlt2_mask(p, q)); PUT(__half2int_rn(h) + (h < g) * 100);
    PUT(H(__float2half_rz(0.37f * v))); PUT(P(__shfl_xor_sync(~0u, p, 1))); PUT(P(__hfma2_relu(p, -q, q)));
    PUT(P(__lowhigh2highlow(p)));
    __nv_bfloat16 b = __float2bfloat16(v * 0.37f), c = __float2bfloat16(t * 1.7f);
    auto B = [](__nv_bfloat16 x) { return __bfloat16_as_ushort(x); };
    PUT(B(b)); PUT(B(b + c)); PUT(B(b * c)); PUT(B(__hfma(b, c, b))); PUT(B(__hsub(b, c)));
    PUT(__float_as_int(__bfloat162float(b)));
"""),
}  # fmt: skip


@needs_clang
@pytest.mark.parametrize("about", PUTS)
def test_results_are_those_of_nvidias_headers_bit_by_bit(about):
    includes, body = PUTS[about]
    source = f"""{includes}
#define PUT(value) out[64 * n++ + t] = (int)(value)
extern "C" __global__ void k(int *out) {{ int t = threadIdx.x, v = t * 7 % 13, n = 0; {body} }}"""
    got = {}
    for compiler in ("clang", "nvrtc"):
        module = ws.RawModule(code=source, device="sim", compiler=compiler)
        out = module.device.zeros((64 * 48,), np.int32)
        launch = module.get_function("k")((1,), (64,), (out,))
        got[compiler] = module.device.asnumpy(out).reshape(48, 64)
        assert not launch.hazards
    assert np.count_nonzero(got["nvrtc"].any(axis=1)) > 10
    assert np.array_equal(got["clang"], got["nvrtc"]), np.nonzero((got["clang"] != got["nvrtc"]).any(axis=1))


MATH = {
    "expf": (np.exp, -104, 88.7), "exp2f": (np.exp2, -150, 128), "logf": (np.log, 0, 1e30), "log2f": (np.log2, 0, 3),
    "sinf": (np.sin, -1e4, 1e4), "cosf": (np.cos, -1e4, 1e4), "tanhf": (np.tanh, -9, 9), "atanf": (np.arctan, -50, 50),
    "log1pf": (np.log1p, -0.99, 10), "expm1f": (np.expm1, -5, 5), "cbrtf": (np.cbrt, -1e9, 1e9),
}  # fmt: skip


@needs_clang
def test_functions_keep_the_documented_bounds():
    """One unit in the last place against float64; CUDA documents one or two for each of these."""
    text = [f'extern "C" __global__ void k_{f}(float *x) {{ x[threadIdx.x] = {f}(x[threadIdx.x]); }}' for f in MATH]
    module = ws.RawModule(code="\n".join(text), device="sim", compiler="clang")
    for name, (exact, low, high) in MATH.items():
        x = np.random.default_rng(1).uniform(low, high, 1024).astype(np.float32)
        array = module.device.asarray(x)
        module.get_function(f"k_{name}")((1,), (1024,), (array,))
        with np.errstate(over="ignore"):
            right = exact(x.astype(np.float64))
            step = np.spacing(np.maximum(np.abs(right), np.finfo(np.float32).tiny).astype(np.float32))
        error = np.abs(module.device.asnumpy(array) - right) / step
        assert np.max(error) <= 1, (name, np.max(error), x[np.argmax(error)])


@needs_clang
def test_special_values_of_functions():
    source = """extern "C" __global__ void k(float *y) { const float inf = __int_as_float(0x7f800000);
    y[0] = expf(inf); y[1] = expf(-inf); y[2] = logf(0.0f); y[3] = logf(inf); y[4] = powf(0.0f, 0.0f);
    y[5] = sinf(3e38f);
    y[6] = logf(-1.0f); y[7] = expf(logf(-1.0f)); y[8] = tanhf(inf); y[9] = atan2f(0.0f, -1.0f);
    y[10] = fmodf(5, inf); }"""
    module = ws.RawModule(code=source, device="sim", compiler="clang")
    y = module.device.zeros((11,), np.float32)
    module.get_function("k")((1,), (1,), (y,))
    right = [np.inf, 0, -np.inf, np.inf, 1, np.sin(np.float64(np.float32(3e38))), np.nan, np.nan, 1, np.pi, 5]
    np.testing.assert_allclose(module.device.asnumpy(y), np.float32(right), rtol=1e-6)


@needs_clang
def test_vectors_are_one_access_each_and_arguments_of_kernels():
    source = """struct Pair { float4 a; float b; };
    extern "C" __global__ void k(const float4 *x, float4 *y, float4 p, Pair pair, float2 q, bool which) {
        int i = threadIdx.x; float4 v = {}; if (which) v = x[i]; y[i] = v; y[i + 32] = make_float4(p.w, pair.b, q.y, 1);
    }"""
    module = ws.RawModule(code=source, device="sim", compiler="clang")
    assert "ld.global.v4" in module.ptx or "ld.global.nc.v4" in module.ptx
    x = module.device.asarray(np.arange(128, dtype=np.float32))
    y = module.device.zeros((256,), np.float32)
    pair = np.array([((1, 2, 3, 4), 5, (0, 0, 0))], [("a", "f4", 4), ("b", "f4"), ("pad", "f4", 3)])[0]
    four, two = np.array([6, 7, 8, 9], "f4"), np.array([10, 11], "f4")
    args = (x, y, _struct(four), pair, _struct(two), np.bool_(True))
    launch = module.get_function("k")((1,), (32,), args)
    assert launch.counters.global_load_requests == 1 and launch.counters.global_store_requests == 2
    got = module.device.asnumpy(y)
    assert np.array_equal(got[:128], np.arange(128)) and np.array_equal(got[128:132], [9, 5, 11, 1])


def _struct(values):
    """A structure of floats, as a kernel takes it by value."""
    return np.array([tuple(values)], [(f"f{i}", "f4") for i in range(len(values))])[0]
