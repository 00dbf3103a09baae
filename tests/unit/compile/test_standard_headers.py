"""Names of C++'s standard headers are there where a source uses them, and nothing changes where it does not."""

from __future__ import annotations

import re

import numpy as np
import pytest

import warpschool
from warpschool.compile import compile_cuda, source
from warpschool.compile.source import library_options, standard_options
from warpschool.compile.toolchain import STANDARD
from warpschool.errors import CompileError, PolicyError

HEADERS = sorted(path.name for path in STANDARD.iterdir() if path.name != "warpschool_standard.h")
CUDA = "#include <cuda_fp16.h>\n#include <mma.h>\n#include <cuda/std/cstdint>\n#include <cuda/std/cmath>\n"


def ptx(body: str, *, before: str = "") -> str:
    return compile_cuda(f'{before}extern "C" __global__ void k(float* x, int n)\n{{\n    {body}\n}}\n').ptx


@pytest.mark.parametrize("before", ["", CUDA], ids=["alone", "with CUDA's headers"])
@pytest.mark.parametrize(
    ("body", "stored"),
    [
        ("constexpr float most = INFINITY; x[0] = -most;", "-8388608"),
        ("x[0] = FLT_MAX;", "2139095039"),
        ("x[0] = __int_as_float(INT_MIN + n * 0 + INT_MAX);", "-1"),
        ("uint32_t a = 3; uint8_t b = 4; x[0] = a + b;", "1088421888"),
        ("x[0] = __uint_as_float(UINT32_MAX);", "-1"),
        ("uint a = 7; x[0] = a;", "1088421888"),
    ],
)
def test_names_of_standard_headers_need_none(body, stored, before):
    assert f"mov.u32 \t%r1, {stored};" in ptx(body, before=before)


@pytest.mark.parametrize("header", HEADERS)
@pytest.mark.thinned(3)
def test_harmless_standard_headers_are_taken(header):
    body = 'x[0] = sqrtf(x[1]) + INFINITY; assert(n > 0); printf("%d\\n", n);'
    assert ".entry k(" in ptx(body, before=f"#include <{header}>\n#include <cuda_fp16.h>\n")


def test_what_stands_in_namespace_std_is_there():
    before = "#include <cstdint>\n#include <cmath>\n#include <limits>\n"
    body = "std::uint32_t a = n; x[0] = std::sqrt(x[1]) + a; x[1] = std::numeric_limits<float>::infinity();"
    assert "sqrt.rn.f32" in ptx(body, before=before)


@pytest.mark.parametrize(
    ("before", "body"),
    [
        ("typedef unsigned long uint64_t;\n", "uint64_t a = n; x[0] = a;"),
        ("#define INFINITY 1e30f\n", "x[0] = INFINITY;"),
        ("template <typename uint> __device__ float f(uint a) { return a; }\n", "x[0] = f(n);"),
    ],
)
def test_names_that_a_source_declares_stay_its_own(before, body):
    compiled = compile_cuda(f'{before}extern "C" __global__ void k(float* x, int n)\n{{\n    {body}\n}}\n')
    assert not compiled.warnings


def test_most_sources_are_compiled_as_ever():
    """Their PTX, and so their counts, must not depend on headers that they do not use."""
    code = 'extern "C" __global__ void k(float* x) { x[0] = 1; }'
    assert standard_options(code, folder=STANDARD) == []
    assert standard_options("#include <mma.h>\n" + code, folder=STANDARD) == []
    assert "-DWARPSCHOOL_NAN" in standard_options(code.replace("1", "NAN"), folder=STANDARD)


ATOMIC = """#include <cuda/atomic>
extern "C" __global__ void k(int* x)
{
    cuda::atomic_ref<int, cuda::thread_scope_device>(x[0]).fetch_add(1, cuda::memory_order_relaxed);
}
"""


def test_libcudacxx_is_read_quickly_and_the_code_is_the_same(tmp_path, monkeypatch):
    (told,) = library_options(ATOMIC)
    assert told.startswith("-D_CCCL_")
    quick = compile_cuda(ATOMIC)
    monkeypatch.setenv("WARPSCHOOL_CACHE", str(tmp_path))  # where nothing has been compiled
    monkeypatch.setattr(source, "library_options", lambda code: [])
    usual = compile_cuda(ATOMIC)
    assert not usual.cached and quick.ptx == usual.ptx


@pytest.mark.parametrize(
    "code", ["#include <mma.h>\n", "#include <cuda_fp16.h>\n", "#define _CCCL_META_UNROLL_LIMIT 9\n" + ATOMIC]
)
def test_what_does_without_libcudacxx_or_has_its_own_limit_is_told_nothing(code):
    assert library_options(code) == []


@pytest.mark.parametrize("call", ["tex2D(x, 1)", "surf2Dwrite(1.0f, 3, 4)", "__shfl_sync(n, 1)", "tex2D<float>(3, 1)"])
def test_a_wrong_call_of_what_the_compiler_has_built_in_is_an_error_of_the_source(call):
    with pytest.raises(CompileError, match="matches the argument list") as caught:
        ptx(f"x[0] = 1; {call};")
    assert not isinstance(caught.value, PolicyError) and caught.value.diagnostics[0].line == 3


MAPPED = """
template <CUtensorMapSwizzle swizzle = CU_TENSOR_MAP_SWIZZLE_128B>
static CUtensorMap encoded(float* x, cuuint64_t* sizes)
{
    CUtensorMap map;
    PFN_cuTensorMapEncodeTiled_v12000 encode = entry();
    if (encode(&map, sizes, swizzle) != CUDA_SUCCESS) exit(1);
    return map;
}
extern "C" __global__ void k(const __grid_constant__ CUtensorMap map, unsigned long long* found)
{
    static_assert(sizeof(CUtensorMap) == 128 && alignof(CUtensorMap) >= 64 && sizeof(map.opaque[0]) == 8);
    asm volatile("prefetch.tensormap [%0];" ::"l"(&map));
    found[0] = map.opaque[0];
}
"""


@pytest.mark.parametrize("headers", [
    ["cuda.h"], ["cudaTypedefs.h"], ["cuda.h", "cudaTypedefs.h"], ["cuda.h", "cuda/barrier"],
    ["cuda/barrier", "cuda.h"], ["cuda.h", "cuda_runtime.h", "cuda_bf16.h"], ["vector", "cudaTypedefs.h", "stdint.h"],
], ids=" ".join)  # fmt: skip
def test_tensor_maps_are_types_of_device_code_too(headers):
    """With NVIDIA's headers beside ours, which forward-declare it."""
    compiled = compile_cuda("".join(f"#include <{name}>\n" for name in headers) + MAPPED, arch="compute_90a")
    assert not compiled.warnings
    assert re.search(r"\.param \.align (64|128) \.b8 k_param_0\[128\]", compiled.ptx)


def test_whoever_asks_for_no_driver_has_nvidias_headers_first():
    code = '#include <cuda_fp16.h>\n#include <stdint.h>\nextern "C" __global__ void k(float* x) { x[0] = 1; }'
    assert source.first_folders(code, folder=STANDARD) == []
    assert source.first_folders("#include <cuda.h>\n" + code, folder=STANDARD) == [f"-I{STANDARD}"]


def test_a_map_goes_to_a_kernel_that_has_the_type_from_the_header():
    code = """#include <cuda.h>
    extern "C" __global__ void k(const __grid_constant__ CUtensorMap map, float* y)
    {
        __shared__ alignas(128) float box[32];
        __shared__ unsigned long long bar;
        unsigned to = __cvta_generic_to_shared(box), b = __cvta_generic_to_shared(&bar);
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(b));
        asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], 128;" ::"r"(b));
        asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
                     "[%0], [%1, {%3, %4}], [%2];" ::"r"(to), "l"(&map), "r"(b), "r"(4), "r"(2) : "memory");
        asm volatile("{\\n.reg .pred p;\\nWAIT:\\nmbarrier.try_wait.parity.shared::cta.b64 p, [%0], 0;\\n"
                     "@!p bra WAIT;\\n}" ::"r"(b) : "memory");
        for (int k = 0; k < 32; k++) y[k] = box[k];
    }
    """
    x = np.arange(16 * 32, dtype=np.float32).reshape(16, 32)
    module = warpschool.RawModule(code=code, device="sim", arch="compute_90a")
    device = module.device
    d_x, y = device.asarray(x), device.zeros(32, np.float32)
    module.get_function("k")(1, 1, (device.tensor_map(d_x, (8, 4)), y))
    assert np.array_equal(y.get().reshape(8, 4), x[2:10, 4:8])
