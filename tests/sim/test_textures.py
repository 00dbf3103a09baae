"""Textures and surfaces: the translated code against the oracle, both against values computed by hand, and refusals."""

from __future__ import annotations

import functools

import numpy as np
import pytest

from ptxsim import Memory, oracle, parse, texture
from ptxsim.errors import KernelTrap, PtxSyntaxError, TextureError, UnsupportedInstruction
from ptxsim.texture import ADDRESS_MODES, FORMATS, Image, Surface, Texture, bind
from warpschool.compile import compile_cuda

from .oracle_launch import entry

NAN, INF = np.float32(np.nan), np.float32(np.inf)
COORDINATES = {"1d": 1, "2d": 2, "3d": 4, "a1d": 2, "a2d": 4}
CUBES = {"cube": (6, 4, 4), "acube": (12, 4, 4)}
SHAPES = {"1d": (7,), "2d": (5, 7), "3d": (3, 5, 7), "a1d": (3, 7), "a2d": (3, 5, 7)}
REGISTERS = ".reg .b64 %rd<9>; .reg .f32 %f<9>; .reg .b32 %r<16>; .reg .b16 %rs<9>; .reg .pred %p<4>;"
BOTH = pytest.mark.parametrize("how", ["engine", "parted", "oracle"])


# ---------------------------------------------------------------- kernels


@functools.cache
def fetching(geometry: str, *, gather: str = "", linear: bool = False):
    """Thread i fetches at x, y, z and layer number i of an array of 16 bytes each, and stores four numbers."""
    values = {
        "1d": "%f1", "2d": "%f1, %f2", "3d": "%f1, %f2, %f3, %f3", "a1d": "%r4, %f1", "a2d": "%r4, %f1, %f2, %f2",
        "cube": "%f1, %f2, %f3, %f3", "acube": "%r4, %f1, %f2, %f3",
    }  # fmt: skip
    opcode, type_, place = ("tld4." + gather, "f32", values[geometry]) if gather else ("tex", "f32", values[geometry])
    if linear:
        type_, place = "s32", "%r4"
    body = f"""{REGISTERS}
        ld.param.u64 %rd1, [object]; ld.param.u64 %rd2, [places]; ld.param.u64 %rd3, [out];
        mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ntid.x; mov.u32 %r3, %tid.x; mad.lo.u32 %r1, %r1, %r2, %r3;
        mul.wide.u32 %rd4, %r1, 16; add.u64 %rd2, %rd2, %rd4; add.u64 %rd3, %rd3, %rd4;
        ld.global.v4.b32 {{%f1, %f2, %f3, %r4}}, [%rd2];
        {opcode}.{geometry}.v4.f32.{type_} {{%r5, %r6, %r7, %r8}}, [%rd1, {{{place}}}];
        st.global.v4.b32 [%rd3], {{%r5, %r6, %r7, %r8}}; ret;"""
    return parse(entry(body, params=".param .u64 object, .param .u64 places, .param .u64 out")).kernel("k")


def perform(kernel, how: str, threads: int, params, memory, **options):
    """Runs a launch on one of the executors; its counters."""
    if how == "oracle":
        return oracle.run(kernel, -(-threads // 32), 32, params, memory).counters
    record = kernel.launch(-(-threads // 32), 32, params, memory, parted=how == "parted", **options)
    assert record.hazards == ()
    return record.counters


def fetch(how: str, of: Texture, memory: Memory, places, layers=None, *, gather: str = "") -> np.ndarray:
    """The four numbers, as raw bits, at each place: rows of coordinates."""
    places = np.asarray(places, np.float32)
    places = places.reshape(len(places), -1)
    threads = -(-len(places) // 32) * 32
    rows = np.zeros((threads, 4), np.float32)
    rows[: len(places), : places.shape[1]] = places
    if layers is not None:
        rows[: len(places), 3] = np.asarray(layers, np.int32).view(np.float32)
    linear = of.image.kind == "linear"
    source, out = memory.allocate(rows.nbytes), memory.allocate(rows.nbytes)
    source.view()[:] = rows.reshape(-1).view(np.uint8)
    handle = bind(memory, of)
    kernel = fetching(of.image.geometry, gather=gather, linear=linear)
    perform(kernel, how, threads, (handle, source, out), memory)
    return out.view().view(np.uint32).reshape(-1, 4)[: len(places)].copy()


def floats(bits: np.ndarray) -> list:
    return bits.view(np.float32)[:, 0].tolist()


def filled(
    memory: Memory, shape, dtype: str, channels: int = 1, *, layered: bool = False, cube: bool = False, seed: int = 0
) -> Image:  # fmt: skip
    image = Image.array(memory, shape, dtype, channels=channels, layered=layered, cube=cube, name="image")
    fill(image, seed)
    return image


def fill(image: Image, seed: int) -> None:
    rng, view = np.random.default_rng(seed), image.view()
    if view.dtype.kind == "f":
        view[...] = rng.normal(size=view.shape)
    else:
        limits = np.iinfo(view.dtype)
        view[...] = rng.integers(limits.min, limits.max, view.shape, view.dtype, endpoint=True)


def row(memory: Memory, *values: float, dtype: str = "f4") -> Image:
    image = Image.array(memory, (len(values),), dtype)
    image.view()[:] = values
    return image


# ---------------------------------------------------------------- by hand


@BOTH
def test_the_nearest_texel_is_the_one_that_a_coordinate_lies_in(how):
    memory = Memory()
    of = Texture(row(memory, 10, 20, 30, 40))
    assert floats(fetch(how, of, memory, [0.0, 0.999, 1.0, 2.5, 3.99, 4.0, -0.01, 1e30, -1e30])) == [
        10, 10, 20, 30, 40, 40, 10, 40, 10,
    ]  # fmt: skip


@BOTH
def test_no_number_is_0_and_the_infinities_are_the_ends(how):
    memory = Memory()
    image = row(memory, 10, 20, 30, 40)
    assert floats(fetch(how, Texture(image), memory, [NAN, INF, -INF])) == [10, 40, 10]
    wrapped = Texture(image, "wrap", normalized_coordinates=True)
    assert floats(fetch(how, wrapped, memory, [NAN, INF, -INF])) == [10, 10, 10]
    border = Texture(image, "border", "linear", border=(7, 0, 0, 0))
    assert floats(fetch(how, border, memory, [INF, -INF])) == [7, 7]


@BOTH
def test_normalized_coordinates_repeat_and_turn(how):
    memory = Memory()
    image = row(memory, 10, 20, 30, 40)
    places = [0.125, 1.125, -0.125, -1.125, 0.875, 1.875, 2.125, 5.0]
    for mode, expected in {
        "wrap": [10, 10, 40, 40, 40, 40, 10, 10], "mirror": [10, 40, 10, 40, 40, 10, 10, 40],
        "clamp": [10, 40, 10, 10, 40, 40, 40, 40], "border": [10, 7, 7, 7, 40, 7, 7, 7],
    }.items():  # fmt: skip
        of = Texture(image, mode, normalized_coordinates=True, border=(7, 0, 0, 0))
        assert floats(fetch(how, of, memory, places)) == expected, mode


@BOTH
def test_other_coordinates_neither_repeat_nor_turn(how):
    memory = Memory()
    image = row(memory, 10, 20, 30, 40)
    for mode in ("wrap", "mirror"):
        assert floats(fetch(how, Texture(image, mode), memory, [-1.5, 5.5])) == [10, 40]


@BOTH
def test_the_filter_weighs_two_texels_in_256ths(how):
    memory = Memory()
    of = Texture(row(memory, 0, 256, 512, 0), filter="linear")
    below = 0.5 + 1 / 512 - 1 / 65536
    assert floats(fetch(how, of, memory, [0.5, 1.0, 1.5, 0.5 + 3 / 256, below, 0.5 + 1 / 512, 0.0, 9.0])) == [
        0, 128, 256, 3, 0, 1, 0, 0,
    ]  # fmt: skip
    edge = Texture(row(memory, 256, 0), "wrap", "linear", normalized_coordinates=True)
    assert floats(fetch(how, edge, memory, [0.0, 0.25, 0.75, 0.5, 1.0])) == [128, 256, 0, 128, 128]
    border = Texture(row(memory, 256, 0), "border", "linear", border=(64, 0, 0, 0))
    assert floats(fetch(how, border, memory, [0.0, -0.25, -0.5, 2.0])) == [160, 112, 64, 32]


@BOTH
def test_the_filter_takes_four_and_eight_texels(how):
    memory = Memory()
    plane = Image.array(memory, (2, 2), "f4")
    plane.view()[:] = [[0, 1], [2, 4]]
    assert floats(fetch(how, Texture(plane, filter="linear"), memory, [(1, 1), (1, 0.5), (0.75, 1.25)])) == [
        1.75, 0.5, 0.25 * (0.75 * 0 + 0.25 * 1) + 0.75 * (0.75 * 2 + 0.25 * 4),
    ]  # fmt: skip
    box = Image.array(memory, (2, 2, 2), "f4")
    box.view()[:] = np.arange(8).reshape(2, 2, 2) ** 2
    assert floats(fetch(how, Texture(box, filter="linear"), memory, [(1, 1, 1), (0.5, 0.5, 1), (1.5, 1, 0.5)])) == [
        140 / 8, 8, 5,
    ]  # fmt: skip


@BOTH
def test_integers_become_numbers_of_0_to_1_and_of_minus_1_to_1(how):
    memory = Memory()
    for dtype, values, expected in (
        ("u1", [0, 51, 255], [0, 0.2, 1]), ("i1", [-128, -127, 127], [-1, -1, 1]),
        ("u2", [0, 13107, 65535], [0, 0.2, 1]), ("i2", [-32768, 0, 32767], [-1, 0, 1]),
    ):  # fmt: skip
        of = Texture(row(memory, *values, dtype=dtype), read="normalized")
        assert floats(fetch(how, of, memory, [0, 1, 2])) == np.array(expected, np.float32).tolist(), dtype
    half = Texture(row(memory, 0, 255, dtype="u1"), filter="linear", read="normalized")
    assert floats(fetch(how, half, memory, [1.0, 0.75])) == [0.5, 0.25]


@BOTH
def test_integers_keep_their_sign_and_halves_become_floats(how):
    memory = Memory()
    for dtype, values, bits in (
        ("i1", [-1, 5], [0xFFFFFFFF, 5]), ("u1", [255, 5], [255, 5]), ("i2", [-2, 7], [0xFFFFFFFE, 7]),
        ("u4", [1 << 31, 1], [1 << 31, 1]), ("f2", [1.5, -2], [0x3FC00000, 0xC0000000]),
    ):  # fmt: skip
        assert fetch(how, Texture(row(memory, *values, dtype=dtype)), memory, [0, 1])[:, 0].tolist() == bits, dtype


@BOTH
def test_a_gather_goes_against_the_clock_from_the_lower_left(how):
    memory = Memory()
    plane = Image.array(memory, (3, 3), "i4", channels=4)
    plane.view()[:] = np.arange(36).reshape(3, 3, 4)
    of = Texture(plane)
    for k, component in enumerate("rgba"):
        (found,) = fetch(how, of, memory, [(1.0, 1.0)], gather=component).tolist()
        assert found == [12 + k, 16 + k, 4 + k, k]
    assert fetch(how, of, memory, [(0.0, 3.0)], gather="r").tolist() == [[24, 24, 24, 24]]


@BOTH
def test_layers_are_chosen_and_clamped_and_not_mixed(how):
    memory = Memory()
    image = Image.array(memory, (3, 2), "f4", layered=True)
    image.view()[:] = [[1, 2], [3, 4], [5, 6]]
    of = Texture(image, filter="linear")
    assert floats(fetch(how, of, memory, [1.0, 1.0, 0.5, 1.5, 1.0], [0, 1, 2, 3, -1])) == [1.5, 3.5, 5, 6, 5.5]


@BOTH
def test_linear_memory_is_read_by_integers_and_is_0_outside(how):
    memory = Memory()
    array = memory.allocate(40, "data")
    array.view().view(np.float32)[:] = np.arange(10) + 0.5
    of = Texture(Image.linear(array, "f4", channels=2))
    found = fetch(how, of, memory, np.zeros(5), [0, 4, 5, -1, 1 << 30]).view(np.float32)
    assert found.tolist() == [[0.5, 1.5, 0, 0], [8.5, 9.5, 0, 0], *[[0, 0, 0, 0]] * 3]


@BOTH
def test_pitched_memory_is_a_plane(how):
    memory = Memory()
    array = memory.allocate(2 * 64, "data")
    array.view().view(np.float32)[:] = np.arange(32)
    image = Image.pitched(array, (2, 3), "f4", row_bytes=64)
    assert image.view().tolist() == [[0, 1, 2], [16, 17, 18]]
    assert floats(fetch(how, Texture(image), memory, [(0, 0), (2.5, 0), (1, 1), (9, 9)])) == [0, 2, 17, 18]


# ---------------------------------------------------------------- every description


def some_places(rng: np.random.Generator, extent, *, normalized: bool) -> np.ndarray:
    """Places inside and outside, on texels' edges and centres, and numbers that are none."""
    rough = rng.uniform(-2.5, 3.5, (24, 3))
    whole = rng.integers(-4, 12, (24, 3)) / 2
    places = np.concatenate([rough * np.array(extent), whole]).astype(np.float32)
    strange = np.array([NAN, INF, -INF, 3e38, -1e-30, -0.0, 1e-44, 16777217], np.float32)
    places = np.concatenate([places, rng.choice(strange, (16, 3))])
    return (places / np.array(extent, np.float32)).astype(np.float32) if normalized else places


def agree(describe, places, layers, *, gather: str = "") -> None:
    """Both executors on descriptions made anew in a memory of their own."""
    found = []
    for how in ("engine", "parted", "oracle"):
        memory = Memory()
        of = describe(memory)
        found.append(fetch(how, of, memory, places, layers, gather=gather))
    assert np.array_equal(found[0], found[2]), np.flatnonzero((found[0] != found[2]).any(axis=1))
    assert np.array_equal(found[1], found[2])


@pytest.mark.parametrize("geometry", SHAPES)
@pytest.mark.parametrize("dtype", FORMATS)
@pytest.mark.thinned(3)
def test_all_types_filters_and_modes_are_alike_on_both(geometry, dtype):
    rng = np.random.default_rng(FORMATS.index(dtype))
    shape, layered = SHAPES[geometry], geometry[0] == "a"
    reads = ("element", "normalized") if dtype in ("u1", "i1", "u2", "i2") else ("element",)
    for k, mode in enumerate(ADDRESS_MODES):
        read = reads[k % len(reads)]
        linear = (dtype[0] == "f" or read == "normalized") and rng.random() < 0.7
        normalized = bool(rng.random() < 0.7)
        border = (0.25, -1.0, 3.0, 4.0) if dtype[0] == "f" or read == "normalized" else (0.0,) * 4
        channels = (1, 2, 4)[k % 3]
        extent = (7, 5, 3)

        def describe(memory, mode=mode, read=read, linear=linear, border=border, channels=channels, own=normalized):
            image = filled(memory, shape, dtype, channels, layered=layered, seed=k)  # noqa: B023 - called at once
            return Texture(image, mode, "linear" if linear else "point", read, own, border)

        places = some_places(rng, extent, normalized=normalized)
        agree(describe, places, rng.integers(-2, 6, len(places)))


@BOTH
def test_a_cube_map_is_read_by_directions(how):
    """Faces +x, -x, +y, -y, +z, -z, and on each of them where the direction meets it: CUDA C++ Programming Guide."""
    memory = Memory()
    image = Image.array(memory, (12, 2, 2), "f4", layered=True, cube=True)
    image.view()[:] = np.arange(48).reshape(12, 2, 2)
    of = Texture(image, normalized_coordinates=True)
    ways = np.array([*np.eye(3), *-np.eye(3)])[[0, 3, 1, 4, 2, 5]]
    # on each face a place right and below of its middle, scaled: only the direction counts
    aside = np.array([(0, -1, -1), (0, -1, 1), (1, 0, 1), (1, 0, -1), (1, -1, 0), (-1, -1, 0)]) / 2
    places = 3 * (ways + aside)
    assert floats(fetch(how, of, memory, places, [0] * 6)) == [4 * face + 3 for face in range(6)]
    assert floats(fetch(how, of, memory, places, [1] * 6)) == [24 + 4 * face + 3 for face in range(6)]


@pytest.mark.parametrize("geometry", CUBES)
@pytest.mark.parametrize("filter_", ["point", "linear"])
def test_cube_maps_are_alike_on_both(geometry, filter_):
    rng = np.random.default_rng(len(geometry))
    mode = str(rng.choice(ADDRESS_MODES))

    def describe(memory):
        image = filled(memory, CUBES[geometry], "f4", 2, layered=geometry == "acube", cube=True, seed=5)
        return Texture(image, mode, filter_, normalized_coordinates=True)

    places = rng.normal(size=(150, 3)).astype(np.float32)
    edges = np.array([(x, y, z) for x in (-1, 0, 1) for y in (-1, 0, 1) for z in (-1, 0, 1)], np.float32)
    strange = np.array([(NAN, 1, 2), (1, NAN, 2), (1, 2, NAN), (INF, 1, 0), (-INF, INF, 0), (0, -0.0, 0)], np.float32)
    places = np.concatenate([places, edges, strange])
    agree(describe, places, rng.integers(0, 3, len(places)))


def test_a_surface_of_a_cube_map_has_six_layers():
    for how in ("engine", "parted", "oracle"):
        memory = Memory()
        image = filled(memory, (6, 4, 4), "u4", cube=True)
        to = filled(memory, (6, 4, 4), "u4", cube=True, seed=1)
        handles = [bind(memory, Surface(i)) for i in (image, to)]
        places = np.array([(4 * x, y, 0, face) for face in range(6) for y in range(4) for x in range(4)], np.int32)
        source = memory.allocate(places.nbytes)
        source.view()[:] = places.reshape(-1).view(np.uint8)
        perform(copying("a2d", "", "b32", "trap"), how, 96, (*handles, source), memory)
        assert np.array_equal(image.view(), to.view())


@pytest.mark.parametrize("seed", range(12))
def test_invented_descriptions_are_alike_on_both(seed):
    rng = np.random.default_rng(seed)
    geometry = str(rng.choice(list(SHAPES)))
    dtype, channels = str(rng.choice(FORMATS)), int(rng.choice([1, 2, 4]))
    shape = tuple(int(n) for n in rng.integers(1, 9, len(SHAPES[geometry])))
    read = str(rng.choice(["element", "normalized"])) if dtype in ("u1", "i1", "u2", "i2") else "element"
    gives_floats = dtype[0] == "f" or read == "normalized"
    modes = tuple(str(m) for m in rng.choice(ADDRESS_MODES, 3))
    filter_ = "linear" if gives_floats and rng.random() < 0.6 else "point"
    normalized = bool(rng.random() < 0.6)
    border = tuple(rng.normal(size=4).tolist()) if gives_floats else (0.0,) * 4
    gather = str(rng.choice(list("rgba"))) if geometry == "2d" and rng.random() < 0.5 else ""

    def describe(memory):
        image = filled(memory, shape, dtype, channels, layered=geometry[0] == "a", seed=seed)
        return Texture(image, modes, filter_, read, normalized, border)

    extent = (*shape[::-1], 1, 1)[:3]
    places = some_places(rng, extent, normalized=normalized)
    agree(describe, places, rng.integers(-2, 10, len(places)), gather=gather)


def test_texels_that_are_no_numbers_are_alike_on_both():
    def describe(memory, filter_):
        return Texture(row(memory, NAN, 1, INF, -INF, 3e38, 3e38), filter=filter_)

    for filter_ in ("point", "linear"):
        agree(functools.partial(describe, filter_=filter_), np.arange(0, 7, 0.25), None)


# ---------------------------------------------------------------- as a compiler writes it


SOURCE = """
#define AT(n) o[(n) * blockDim.x + threadIdx.x]
extern "C" __global__ void textures(cudaTextureObject_t line, cudaTextureObject_t plane, cudaTextureObject_t box,
    cudaTextureObject_t lines, cudaTextureObject_t planes, cudaTextureObject_t words, cudaTextureObject_t numbers,
    float* o)
{
    float x = threadIdx.x * 0.37f - 1, y = threadIdx.x * 0.21f, z = threadIdx.x * 0.1f;
    int n = threadIdx.x;
    bool there;
    AT(0) = tex1D<float>(line, x);
    AT(1) = tex2D<float4>(plane, x, y).z;
    AT(2) = tex3D<float>(box, x, y, z);
    AT(3) = tex1DLayered<float>(lines, x, n % 4);
    AT(4) = tex2DLayered<float2>(planes, x, y, n % 4).y;
    AT(5) = tex1Dfetch<int>(words, n);
    AT(6) = tex2Dgather<float4>(plane, x, y, 1).x;
    AT(7) = tex2Dgather<float4>(plane, x, y, 3).w;
    uchar4 texel = tex2D<uchar4>(numbers, x, y);
    AT(8) = texel.x + 256 * texel.w;
    AT(9) = tex2D<float>(plane, x, y, &there) + there;
    if (n % 3 == 0) AT(9) = tex1D<float>(line, y);
    asm volatile("{ .reg .b32 r; txq.width.b32 r, [%1]; cvt.rn.f32.u32 %0, r; }" : "=f"(AT(10)) : "l"(plane));
    asm volatile("{ .reg .b32 r; txq.array_size.b32 r, [%1]; cvt.rn.f32.u32 %0, r; }" : "=f"(AT(11)) : "l"(planes));
}

extern "C" __global__ void surfaces(cudaSurfaceObject_t line, cudaSurfaceObject_t plane, cudaSurfaceObject_t box,
    cudaSurfaceObject_t lines, cudaSurfaceObject_t planes, float* o)
{
    int n = threadIdx.x, y = blockIdx.x;
    if (y == 0) surf1Dwrite((unsigned char)(n + 100), line, n);
    surf2Dwrite(make_float4(n, y, n * y, -n), plane, n * 16, y);
    surf3Dwrite((short)(n - y), box, n * 2, y % 2, y / 2);
    surf1DLayeredwrite(make_uchar4(n, y, 3, 4), lines, n * 4, y);
    surf2DLayeredwrite(make_double2_bits(n, y), planes, n * 16, 0, y);
    o[y * 32 + n] = surf2Dread<float4>(plane, n * 16, y).z + surf3Dread<short>(box, n * 2, y % 2, y / 2)
        + surf1DLayeredread<uchar4>(lines, n * 4, y).y + surf2DLayeredread<longlong2>(planes, n * 16, 0, y).x
        + surf2Dread<float>(plane, n * 16, y, cudaBoundaryModeClamp);
    float before = surf2Dread<float>(plane, n * 16 - 64, y - 1, cudaBoundaryModeZero);  // what another block writes
    o[y * 32 + n] += before;
    surf2Dwrite(1.0f, plane, n * 16 + 1024, y, cudaBoundaryModeZero);
}
""".replace("make_double2_bits(n, y)", "make_longlong2(n - 5, y)")


@functools.cache
def compiled():
    return parse(compile_cuda(SOURCE, arch="compute_80").ptx)


def test_textures_as_the_compiler_writes_them():
    found = []
    for how in ("engine", "parted", "oracle"):
        memory = Memory()
        words = memory.allocate(4 * 20, "words")
        words.view().view(np.int32)[:] = np.arange(20) * 3
        handles = [
            bind(memory, Texture(filled(memory, (9,), "f4"), filter="linear")),
            bind(memory, Texture(filled(memory, (6, 8), "f4", 4), "border", "linear", border=(1, 2, 3, 4))),
            bind(memory, Texture(filled(memory, (3, 6, 8), "f2"), filter="linear")),
            bind(memory, Texture(filled(memory, (3, 9), "u1", layered=True), read="normalized")),
            bind(memory, Texture(filled(memory, (3, 6, 8), "i2", 2, layered=True), "clamp", "linear", "normalized")),
            bind(memory, Texture(Image.linear(words, "i4"))),
            bind(memory, Texture(filled(memory, (6, 8), "u1", 4))),
        ]
        out = memory.allocate(4 * 32 * 12, "out")
        counters = perform(compiled().kernel("textures"), how, 32, (*handles, out), memory)
        assert counters["texture_instructions"] == 11
        found.append(out.view().view(np.float32).reshape(12, 32).copy())
    assert found[0][5].tolist() == [*(3.0 * np.arange(20)), *[0] * 12]
    assert (found[0][10] == 8).all() and (found[0][11] == 3).all()
    assert np.isfinite(found[0]).all()
    assert np.array_equal(found[0], found[2]) and np.array_equal(found[1], found[2])


def test_surfaces_as_the_compiler_writes_them():
    found = []
    for how in ("engine", "parted", "oracle"):
        memory = Memory()
        images = [
            Image.array(memory, (32,), "u1"), Image.array(memory, (4, 32), "f4", channels=4),
            Image.array(memory, (2, 2, 32), "i2"), Image.array(memory, (4, 32), "u1", channels=4, layered=True),
            Image.array(memory, (4, 1, 32), "u4", channels=4, layered=True),
        ]  # fmt: skip
        out = memory.allocate(4 * 32 * 4, "out")
        handles = [bind(memory, Surface(image)) for image in images]
        if how == "oracle":
            counters = oracle.run(compiled().kernel("surfaces"), 4, 32, (*handles, out), memory).counters
        else:
            record = compiled().kernel("surfaces").launch(4, 32, (*handles, out), memory, parted=how == "parted")
            line = 1 + next(k for k, text in enumerate(SOURCE.split("\n")) if "what another block writes" in text)
            assert [(h.kind, h.access, h.line) for h in record.hazards] == [("race", "read", line)]
            counters = record.counters
        assert counters["surface_load_instructions"] == 4 * 6
        assert counters["surface_store_instructions"] == 4 * 5 + 1
        n, y = np.meshgrid(np.arange(32), np.arange(4))
        assert images[0].view().tolist() == list(range(100, 132))
        assert np.array_equal(images[1].view(), np.stack([n, y, n * y, -n], axis=-1))
        assert np.array_equal(images[2].view().reshape(4, 32), (n - y))
        assert np.array_equal(images[3].view(), np.stack([n, y, 0 * n + 3, 0 * n + 4], axis=-1))
        assert np.array_equal(images[4].view().view("i8")[:, 0], np.stack([n - 5, y], axis=-1))
        found.append(out.view().view(np.float32).copy())
    assert np.array_equal(found[0], found[2]) and np.array_equal(found[1], found[2])


# ---------------------------------------------------------------- surfaces


@functools.cache
def copying(geometry: str, vector: str, type_: str, mode: str):
    """Thread i reads at place i (x, y, z, layer) of one surface and writes there to another."""
    count = int(vector[2:] or 1)
    kind = {"b8": "%rs", "b16": "%rs", "b32": "%r1", "b64": "%rd"}[type_]
    names = ", ".join(f"{kind}{k + (5 if kind == '%rd' else 1)}" for k in range(count))
    place = {"1d": "%r4", "2d": "%r4, %r5", "3d": "%r4, %r5, %r6, %r6", "a1d": "%r7, %r4", "a2d": "%r7, %r4, %r5, %r5"}
    body = f"""{REGISTERS}
        ld.param.u64 %rd1, [from]; ld.param.u64 %rd2, [to]; ld.param.u64 %rd3, [places];
        mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ntid.x; mov.u32 %r3, %tid.x; mad.lo.u32 %r1, %r1, %r2, %r3;
        mul.wide.u32 %rd4, %r1, 16; add.u64 %rd3, %rd3, %rd4;
        ld.global.v4.b32 {{%r4, %r5, %r6, %r7}}, [%rd3];
        suld.b.{geometry}{vector}.{type_}.{mode} {{{names}}}, [%rd1, {{{place[geometry]}}}];
        sust.b.{geometry}{vector}.{type_}.{mode} [%rd2, {{{place[geometry]}}}], {{{names}}};
        ret;"""
    return parse(entry(body, params=".param .u64 from, .param .u64 to, .param .u64 places")).kernel("k")


def copied(how: str, geometry: str, vector: str, type_: str, mode: str, places: np.ndarray) -> np.ndarray:
    """What a surface of 1 holds after a copy from one of random bytes; rows of 24 bytes."""
    memory, layered = Memory(), geometry[0] == "a"
    shape = (*SHAPES[geometry][:-1], 6)
    source = filled(memory, shape, "u4", layered=layered, seed=3)
    target = Image.array(memory, shape, "u4", layered=layered)
    target.view()[...] = 1
    array = memory.allocate(places.nbytes)
    array.view()[:] = places.reshape(-1).view(np.uint8)
    handles = [bind(memory, Surface(image)) for image in (source, target)]
    kernel = copying(geometry, vector, type_, mode)
    if how == "oracle":
        oracle.run(kernel, 1, len(places), (*handles, array), memory)
    else:
        record = kernel.launch(1, len(places), (*handles, array), memory, check=False, parted=how == "parted")
        assert record.counters["surface_load_instructions"] == record.counters["surface_store_instructions"] == 1
    return target.view().copy()


@pytest.mark.parametrize(("geometry", "vector", "type_"), [
    ("1d", "", "b8"), ("1d", ".v2", "b64"), ("2d", ".v4", "b8"), ("2d", ".v2", "b16"), ("2d", "", "b64"),
    ("3d", "", "b32"), ("3d", ".v4", "b16"), ("a1d", "", "b16"), ("a1d", ".v4", "b32"), ("a2d", "", "b64"),
    ("a2d", ".v2", "b32"), ("a2d", ".v2", "b8"),
])  # fmt: skip
@pytest.mark.parametrize("mode", ["clamp", "zero"])
@pytest.mark.thinned(3)
def test_surfaces_outside_are_alike_on_both(geometry, mode, vector, type_):
    size = int(vector[2:] or 1) * int(type_[1:]) // 8
    places = np.random.default_rng(5).integers(-2, 7, (32, 4)).astype(np.int32)
    places[0] = 0
    places[:, 0] *= size
    found = [copied(how, geometry, vector, type_, mode, places) for how in ("engine", "parted", "oracle")]
    assert np.array_equal(found[0], found[2]) and np.array_equal(found[1], found[2])
    assert (found[0] != 1).any()


def test_what_lies_outside_a_surface_is_0_or_the_nearest():
    places = np.array([[-4, 0, 0, 0], [24, 0, 0, 0], [20, 9, 0, 0]], np.int32)
    inside = filled(Memory(), (5, 6), "u4", seed=3).view()
    for how in ("engine", "oracle"):
        assert (copied(how, "2d", "", "b32", "zero", places) == 1).all()
        found = copied(how, "2d", "", "b32", "clamp", places)
        changed = {(0, 0), (0, 5), (4, 5)}
        assert {tuple(p) for p in np.argwhere(found != 1).tolist()} == changed
        assert all(found[p] == inside[p] for p in changed)


@pytest.mark.parametrize(("place", "told"), [
    ((24, 0, 0, 0), "byte 24, row 0: it has 24 bytes, 5 rows"),
    ((0, 5, 0, 0), "byte 0, row 5: it has 24 bytes, 5 rows"),
    ((-4, 2, 0, 0), "byte -4, row 2: it has 24 bytes, 5 rows"),
])  # fmt: skip
def test_a_trap_ends_the_launch_with_thread_and_place(place, told):
    places = np.zeros((32, 4), np.int32)
    places[7] = place
    with pytest.raises(KernelTrap, match=r"thread \(7, 0, 0\) of block \(0, 0, 0\) accesses image outside") as error:
        copied("engine", "2d", "", "b32", "trap", places)
    assert told in error.value.message
    with pytest.raises(KernelTrap, match=r"block \(0, 0, 0\), thread \(7, 0, 0\): .* lies outside"):
        copied("oracle", "2d", "", "b32", "trap", places)


WRONG = """
extern "C" __global__ void outside(cudaSurfaceObject_t s, int n)
{
    int x = blockIdx.x * blockDim.x + threadIdx.x;
    if (x <= n)
        surf1Dwrite(1.0f, s, x * 4);
}
extern "C" __global__ void unscaled(cudaSurfaceObject_t s)
{
    surf1Dwrite(1.0f, s, threadIdx.x);
}
extern "C" __global__ void same(cudaSurfaceObject_t s)
{
    surf1Dwrite((float)threadIdx.x, s, 0);
}
"""


@functools.cache
def wrong():
    return parse(compile_cuda(WRONG, arch="compute_80").ptx)


def test_a_trap_names_the_line_whatever_the_number_of_host_threads():
    for threads in (1, 2):
        memory = Memory()
        handle = bind(memory, Surface(Image.array(memory, (1000,), "f4", name="line")))
        with pytest.raises(KernelTrap, match=r"kernel\.cu:6: thread \(232, 0, 0\) of block \(3, 0, 0\)") as error:
            wrong().kernel("outside").launch(4, 256, (handle, np.int32(1000)), memory, threads=threads)
        assert error.value.line == 6
        wrong().kernel("outside").launch(4, 256, (handle, np.int32(999)), memory, threads=threads)


def test_surface_accesses_are_watched():
    memory = Memory()
    image = Image.array(memory, (64,), "f4", name="line")
    handle = bind(memory, Surface(image))
    record = wrong().kernel("unscaled").launch(1, 32, (handle,), memory)
    assert [(h.kind, h.line, h.array) for h in record.hazards if h.kind == "misaligned"] == [("misaligned", 10, "line")]
    (race,) = wrong().kernel("same").launch(1, 32, (handle,), memory).hazards
    assert (race.kind, race.line, race.access, race.array) == ("race", 14, "write", "line")


# ---------------------------------------------------------------- objects that are none


def objects(memory: Memory) -> dict[str, np.uint64]:
    """Handles that a 2D fetch of floats cannot use."""
    image = filled(memory, (4, 4), "f4")
    gone, freed = bind(memory, Texture(image)), filled(memory, (4, 4), "f4")
    texture.unbind(memory, gone)
    dangling = bind(memory, Texture(freed))
    memory.free(freed.allocation)
    array = memory.allocate(64, "words")
    return {
        "is no texture or surface object": np.uint64(7), "is no texture": gone, "has been freed": dangling,
        "which is no texture": np.uint64(texture.FIRST_HANDLE + 1000), "no texture or surface": np.uint64(2**64 - 1),
        "as a texture": bind(memory, Surface(image)),
        "is a 1D array": bind(memory, Texture(filled(memory, (4,), "f4"))),
        "is a layered 2D array": bind(memory, Texture(filled(memory, (2, 4, 4), "f4", layered=True))),
        "is linear memory": bind(memory, Texture(Image.linear(array, "f4"))),
    }  # fmt: skip


@pytest.mark.parametrize("why", list(objects(Memory())))
def test_an_object_that_does_not_fit_ends_the_launch(why):
    memory = Memory()
    handle, out = objects(memory)[why], memory.allocate(16 * 32)
    places = memory.allocate(16 * 32)
    for parted in (False, True):
        with pytest.raises(KernelTrap, match=r"thread \(0, 0, 0\) of block \(0, 0, 0\)") as error:
            fetching("2d").launch(1, 32, (handle, places, out), memory, parted=parted)
        assert why in error.value.message
    with pytest.raises(KernelTrap, match=r"tex\.2d\.v4\.f32\.f32 in block"):
        oracle.run(fetching("2d"), 1, 32, (handle, places, out), memory)


def test_a_gather_and_a_surface_want_arrays():
    memory = Memory()
    pitched = Image.pitched(memory.allocate(256), (2, 4), "f4", row_bytes=64)
    for how in ("engine", "oracle"):
        with pytest.raises(KernelTrap, match="pitched"):
            fetch(how, Texture(pitched), memory, [(0, 0)], gather="r")
    with pytest.raises(TextureError, match="a surface is an array, not pitched memory"):
        Surface(pitched)


def test_other_lanes_do_not_care_for_a_handle_that_is_none():
    body = f"""{REGISTERS}
        ld.param.u64 %rd1, [object]; ld.param.u64 %rd3, [out]; mov.u32 %r1, %tid.x; mov.f32 %f1, 0f3F800000;
        mul.wide.u32 %rd4, %r1, 4; add.u64 %rd3, %rd3, %rd4; setp.lt.u32 %p1, %r1, 16; mov.b32 %r5, 0;
        selp.b64 %rd1, %rd1, 5, %p1;
        @%p1 tex.1d.v4.f32.f32 {{%r5, %r6, %r7, %r8}}|%p2, [%rd1, {{%f1}}];
        st.global.b32 [%rd3], %r5; ret;"""
    kernel = parse(entry(body, params=".param .u64 object, .param .u64 out")).kernel("k")
    for how in ("engine", "oracle"):
        memory = Memory()
        out = memory.allocate(128)
        perform(kernel, how, 32, (bind(memory, Texture(row(memory, 3, 4))), out), memory)
        assert out.view().view(np.float32).tolist() == [4] * 16 + [0] * 16


# ---------------------------------------------------------------- refused


@pytest.mark.parametrize(("text", "error", "why"), [
    ("tex.level.2d.v4.f32.f32 {%f1, %f2, %f3, %f4}, [%rd1, {%f1, %f2}], %f3;", UnsupportedInstruction, "mipmap"),
    ("tex.grad.2d.v4.f32.f32 {%f1, %f2, %f3, %f4}, [%rd1, {%f1, %f2}], {%f1, %f2}, {%f2, %f1};",
     UnsupportedInstruction, "mipmap"),
    ("tex.cube.v4.f32.f32 {%f1, %f2, %f3, %f4}, [%rd1, {%f1, %f2, %f3}];", PtxSyntaxError, "operand 2"),
    ("tld4.r.cube.v4.f32.f32 {%f1, %f2, %f3, %f4}, [%rd1, {%f1, %f2, %f3, %f3}];", UnsupportedInstruction, "cubemap"),
    ("tex.2d.v4.f32.s32 {%f1, %f2, %f3, %f4}, [%rd1, {%r1, %r2}];", UnsupportedInstruction, "integer coordinates"),
    ("tex.2d.v4.f32.f32 {%f1, %f2, %f3, %f4}, [%rd1, %rd2, {%f1, %f2}];", PtxSyntaxError, "cannot read the place"),
    ("tex.2d.v4.f32.f32 {%f1, %f2, %f3, %f4}, [%rd1, {%f1, %f2}], {%r1, %r2};", UnsupportedInstruction, "offsets"),
    ("tex.2d.v4.f32.f32 {%f1, %f2, %f3, %f4}, [%rd1, {%f1}];", PtxSyntaxError, "operand 2"),
    ("tex.2d.v4.f32.f32 {%f1, %f2, %f3, %f4}, [%r1, {%f1, %f2}];", PtxSyntaxError, "operand 2"),
    ("tex.2d.v4.f32.f32 {%f1, %f2}, [%rd1, {%f1, %f2}];", PtxSyntaxError, "operand 1"),
    ("tex.2d.v4.f32.f32 {%f1, %f2, %f3, %f4}, %rd1, {%f1, %f2};", UnsupportedInstruction, "offsets"),
    ("tex.2d.v4.f32.f32 {%f1, %f2, %f3, %f4}, [%rd1];", PtxSyntaxError, "operand 2"),
    ("tex.2d.v4.f32.f32 {%f1, %f2, %f3, %f4}, [image, {%f1, %f2}];", UnsupportedInstruction, "references"),
    ("tex.2d.1d.v4.f32.f32 {%f1, %f2, %f3, %f4}, [%rd1, {%f1, %f2}];", PtxSyntaxError, "several"),
    ("tex.v4.f32.f32 {%f1, %f2, %f3, %f4}, [%rd1, {%f1, %f2}];", PtxSyntaxError, "needs one of"),
    ("tld4.r.a2d.v4.f32.f32 {%f1, %f2, %f3, %f4}, [%rd1, {%r1, %f1, %f2, %f2}];", UnsupportedInstruction, "layered"),
    ("suld.p.2d.v4.b32.trap {%r1, %r2, %r3, %r4}, [%rd1, {%r1, %r2}];", UnsupportedInstruction, "formatted"),
    ("suld.b.2d.v4.b64.trap {%rd1, %rd2, %rd3, %rd4}, [%rd1, {%r1, %r2}];", PtxSyntaxError, "too long"),
    ("sust.b.2d.b32.trap.zero [%rd1, {%r1, %r2}], {%r3};", PtxSyntaxError, "exclude each other"),
    ("sust.b.2d.b32.trap [%rd1, {%r1, %r2}], {%r3, %r4};", PtxSyntaxError, "operand 2"),
    ("sust.b.2d.b32.trap [%rd1, {%r1, %r2}];", PtxSyntaxError, "operands"),
    ("sured.b.add.2d.u32.trap [%rd1, {%r1, %r2}], %r3;", UnsupportedInstruction, "surface reduction"),
    ("txq.filter_mode.b32 %r1, [%rd1];", UnsupportedInstruction, "filter_mode"),
    ("ld.global.b32 %r1, [%rd1, {%r2}];", PtxSyntaxError, "operand 2"),
    ("tex.1d.v4.f32.f32 {%f1, %f2, %f3, %f4}, [%rd1, {%f1}|%p1];", PtxSyntaxError, "cannot read the place"),
    ("tex.1d.v4.f32.f32 {%f1, %f2, %f3, %f4}|%f5, [%rd1, {%f1}];", PtxSyntaxError, "operand 1"),
    ("tex.1d.v4.f32.f32 {%f1, %f2, %f3, %f4}, [%rd1, {{%f1}}];", PtxSyntaxError, "cannot read"),
])  # fmt: skip
def test_what_no_object_takes_is_refused_by_name(text, error, why):
    with pytest.raises(error, match=why):
        parse(entry(REGISTERS + text + "ret;", declarations=".global .texref image;")).kernel("k")


@pytest.mark.parametrize(("describe", "why"), [
    (lambda m: Image.array(m, (2, 2, 2, 2), "f4"), "4 dimensions"),
    (lambda m: Image.array(m, (4,), "f4", layered=True), "1 dimensions with layers"),
    (lambda m: Image.array(m, (4, 0), "f4"), "no texels"),
    (lambda m: Image.array(m, (4,), "f8"), "1 channels of float64"),
    (lambda m: Image.array(m, (4,), "f4", channels=3), "3 channels of float32"),
    (lambda m: Image.array(m, (1 << 20,), "u1"), "too many"),
    (lambda m: Image.linear(m.allocate(3), "f4"), "no texel"),
    (lambda m: Image.pitched(m.allocate(256), (4, 16), "f4", row_bytes=60), "60 bytes apart"),
    (lambda m: Image.pitched(m.allocate(255), (4, 16), "f4", row_bytes=64), "more than the 255"),
    (lambda m: Image.array(m, (5, 4, 4), "f4", cube=True), "six square faces"),
    (lambda m: Image.array(m, (12, 4, 4), "f4", cube=True), "six square faces"),
    (lambda m: Image.array(m, (6, 4, 3), "f4", cube=True, layered=True), "six square faces"),
    (lambda m: Texture(Image.array(m, (6, 4, 4), "f4", cube=True)), "directions"),
    (lambda m: Texture(Image.array(m, 4, "f4"), "repeat"), "no address mode 'repeat'"),
    (lambda m: Texture(Image.array(m, 4, "f4"), filter="cubic"), "no filter 'cubic'"),
    (lambda m: Texture(Image.array(m, 4, "i4"), read="normalized"), "8- and 16-bit integers"),
    (lambda m: Texture(Image.array(m, 4, "u1"), filter="linear"), "not filtered"),
    (lambda m: Texture(Image.array(m, 4, "u1"), "border", border=(1, 0, 0, 0)), "border"),
    (lambda m: Texture(Image.linear(m.allocate(16), "f4"), filter="linear"), "linear memory"),
    (lambda m: bind(Memory(), Texture(Image.array(m, 4, "f4"))), "not in this memory"),
    (lambda m: texture.unbind(m, np.uint64(3)), "no handle"),
])  # fmt: skip
def test_descriptions_that_no_gpu_takes_are_refused(describe, why):
    with pytest.raises(TextureError, match=why):
        describe(Memory())


def test_a_listing_shows_places_as_they_are_written():
    assert "tex.2d.v4.f32.f32 {%r5, %r6, %r7, %r8}, [%rd1, {%f1, %f2}]" in fetching("2d").listing("lanes", 32)


def test_kernels_without_textures_know_nothing_of_them():
    kernel = parse(entry(REGISTERS + "ld.param.u64 %rd1, [out]; st.global.b32 [%rd1], 1; ret;")).kernel("k")
    assert "texture" not in kernel.listing("ir", 32) and "ws_surface" not in kernel.listing("ir", 32)
