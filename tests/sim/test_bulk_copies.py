"""Boxes of tensors and runs of bytes: engine, oracle and NumPy agree, at all edges, in every rank, type and swizzle."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace

import numpy as np
import pytest

from ptxsim import Memory, oracle, parse
from ptxsim.errors import PtxSyntaxError, UnsupportedInstruction
from ptxsim.tensormap import ELEMENTS, NAN_FILL, TensorMap, TensorMapError, box_bytes, swizzled

SHARED = 32 << 10
NUMPY = {"u8": np.uint8, "u16": np.uint16, "u32": np.uint32, "s32": np.int32, "u64": np.uint64, "s64": np.int64,
         "f16": np.float16, "f32": np.float32, "f64": np.float64, "tf32": np.float32}  # fmt: skip
REDUCTIONS = {
    "add": np.add, "min": np.minimum, "max": np.maximum, "and": np.bitwise_and, "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    "inc": lambda x, y: np.where(x >= y, 0, x + 1), "dec": lambda x, y: np.where((x == 0) | (x > y), y, x - 1),
}  # fmt: skip


def kernel(copies: str, *, maps: int = 1, together: str = ""):
    """A kernel (maps..., data, corner) whose thread 0 does `copies`, behind what all threads do `together`; shared
    memory comes from `data` and goes back."""
    params = [*(f".param .align 64 .b8 map{k}[128]" for k in range(maps)), ".param .u64 data", ".param .u64 at"]
    return parse(f"""
.version 8.3
.target sm_90a
.address_size 64
.visible .entry k({", ".join(params)})
{{
    .reg .b32 %r<16>, %c<8>, %v<4>;
    .reg .b16 %h<4>;
    .reg .b64 %rd<12>;
    .reg .pred %p<4>;
    .shared .align 1024 .b8 box[{SHARED}];
    .shared .align 8 .b8 full[8];
    ld.param.u64 %rd1, [data];
    ld.param.u64 %rd2, [at];
    mov.u32 %r1, %tid.x;
    mov.u32 %r2, box;
    mov.u32 %r3, full;
    setp.ne.u32 %p1, %r1, 0;
    shl.b32 %r4, %r1, 4;
FILL:
    cvt.u64.u32 %rd3, %r4;
    add.u64 %rd4, %rd1, %rd3;
    ld.global.v4.b32 {{%v0, %v1, %v2, %v3}}, [%rd4];
    add.u32 %r6, %r2, %r4;
    st.shared.v4.b32 [%r6], {{%v0, %v1, %v2, %v3}};
    add.u32 %r4, %r4, 512;
    setp.lt.u32 %p2, %r4, {SHARED};
    @%p2 bra FILL;
    fence.proxy.async.shared::cta;
    {together}
    @%p1 bra DONE;
    mbarrier.init.shared::cta.b64 [%r3], 1;
    {" ".join(f"mov.b64 %rd{5 + k}, map{k}; cvta.param.u64 %rd{5 + k}, %rd{5 + k};" for k in range(maps))}
    {" ".join(f"ld.global.b32 %c{k}, [%rd2+{4 * k}];" for k in range(8))}
    {" ".join(f"ld.global.u16 %h{k}, [%rd2+{20 + 4 * k}];" for k in range(3))}
    {copies}
DONE:
    bar.sync 0;
    shl.b32 %r4, %r1, 4;
BACK:
    cvt.u64.u32 %rd3, %r4;
    add.u64 %rd4, %rd1, %rd3;
    add.u32 %r6, %r2, %r4;
    ld.shared.v4.b32 {{%v0, %v1, %v2, %v3}}, [%r6];
    st.global.v4.b32 [%rd4], {{%v0, %v1, %v2, %v3}};
    add.u32 %r4, %r4, 512;
    setp.lt.u32 %p2, %r4, {SHARED};
    @%p2 bra BACK;
    ret;
}}
""").kernel("k")


def load(rank: int, nbytes: int, *, windows: bool = False) -> str:
    at = ", ".join(f"%c{k}" for k in range(rank))
    within = ", {" + ", ".join(f"%h{k}" for k in range(rank - 2)) + "}"
    mode, offsets = (".im2col", within) if windows else (".tile", "")
    return f"""
    mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r3], {nbytes};
    cp.async.bulk.tensor.{rank}d.shared::cluster.global{mode}.mbarrier::complete_tx::bytes [%r2], [%rd5, {{{at}}}], [%r3]{offsets};
WAIT:
    mbarrier.try_wait.parity.shared::cta.b64 %p3, [%r3], 0;
    @!%p3 bra WAIT;"""  # noqa: E501


def store(rank: int, operation: str = "") -> str:
    at = ", ".join(f"%c{k}" for k in range(rank))
    what = f"cp.reduce.async.bulk.tensor.{rank}d.global.shared::cta.{operation}" if operation else (
        f"cp.async.bulk.tensor.{rank}d.global.shared::cta")  # fmt: skip
    return f"{what}.tile.bulk_group [%rd5, {{{at}}}], [%r2]; cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;"


@dataclass
class Done:
    shared: np.ndarray
    array: np.ndarray


def run(copies: str, array: np.ndarray, tensor_map, corner, shared: np.ndarray, *, by_oracle: bool) -> Done:
    """What the kernel leaves, with a map made by `tensor_map(address)`."""
    memory = Memory()
    x, data, at = memory.allocate(array.nbytes, "x"), memory.allocate(SHARED, "data"), memory.allocate(32, "at")
    x.view()[:] = array.reshape(-1).view(np.uint8)
    data.view()[:] = shared
    at.view()[:] = np.array([*corner, *[0] * (8 - len(corner))], np.int32).view(np.uint8)
    made = tensor_map(x.address)
    parameters = made.encode() + data.address.to_bytes(8, "little") + at.address.to_bytes(8, "little")
    if by_oracle:
        oracle.run(kernel(copies), (1,), (32,), parameters, memory)
    else:
        record = kernel(copies).launch((1,), (32,), parameters, memory)
        assert not record.hazards, [h.message for h in record.hazards]
    return Done(data.view().copy(), x.view().view(array.dtype).reshape(array.shape).copy())


def in_order(shared: np.ndarray, nbytes: int, swizzle: int) -> np.ndarray:
    """The bytes of a box in the order in which its rows follow each other."""
    return shared[[swizzled(k, swizzle) for k in range(nbytes)]]


def window(array: np.ndarray, corner, box, steps, fill) -> np.ndarray:
    """The box of `array` (outermost axis first) at `corner` (innermost first), `fill` where it sticks out."""
    axes = [
        c + np.arange(0, side, step) if axis else c + np.arange(side)
        for axis, (c, side, step) in enumerate(zip(corner, box, steps, strict=True))
    ][::-1]
    grid = np.meshgrid(*axes, indexing="ij")
    inside = np.all([(g >= 0) & (g < n) for g, n in zip(grid, array.shape, strict=True)], axis=0)
    found = array[tuple(np.clip(g, 0, n - 1) for g, n in zip(grid, array.shape, strict=True))]
    return np.where(inside, found, fill)


def drawn(seed: int, *, stored: bool = False):
    """A random array, map and corner that often sticks out of it: of what is stored only behind its end."""
    rng = np.random.default_rng(seed)
    rank, name = int(rng.integers(1, 6)), rng.choice(list(NUMPY))
    size = ELEMENTS[name].nbytes
    swizzle = int(rng.choice([0, 32, 64, 128])) if rank > 1 else 0
    pieces = int(rng.integers(1, (swizzle or 128) // 16 + 1))
    if swizzle:
        pieces = swizzle // 16  # rows as wide as the swizzle, as everybody has them
    most = (2, 2, 17, 7, 4, 4)[rank]
    box = [16 * pieces // size, *(int(n) for n in rng.integers(1, most, rank - 1))]
    shape = [int(rng.integers(1, 5)) * 16 // size, *(int(n) for n in rng.integers(1, 12, rank - 1))]
    steps = [1, *(int(n) for n in rng.integers(1, 4, rank - 1))]
    corner = [int(rng.integers(0 if stored else -b, n + 2)) for b, n in zip(box, shape, strict=True)]
    corner[0] -= corner[0] % (16 // size)
    dtype = np.dtype(NUMPY[name])
    array = rng.integers(0, 100, shape[::-1]).astype(dtype)
    strides = tuple(int(s) for s in array.strides[:-1][::-1])
    fill = "nan" if ELEMENTS[name].is_float and rng.integers(2) else "zero"

    def tensor_map(address: int) -> TensorMap:
        return TensorMap(
            address, str(name), tuple(shape), strides, tuple(box), tuple(steps), swizzle=swizzle, fill=fill
        )

    return rng, array, tensor_map, corner, box, steps, swizzle, fill


@pytest.mark.parametrize("by_oracle", [False, True])
@pytest.mark.parametrize("seed", range(40))
@pytest.mark.thinned(6)
def test_a_box_is_loaded_as_numpy_cuts_it_out(seed, by_oracle):
    rng, array, tensor_map, corner, box, steps, swizzle, fill = drawn(seed)
    shared = rng.integers(0, 256, SHARED, np.uint8)
    nbytes = box_bytes(tensor_map(4096))
    done = run(load(array.ndim, nbytes), array, tensor_map, corner, shared, by_oracle=by_oracle)
    outside = np.array(0, array.dtype)
    if fill == "nan":
        outside = np.full(array.itemsize // 2, NAN_FILL, np.uint16).view(array.dtype)[0]
    expected = window(array, corner, box, steps, outside)
    assert np.array_equal(in_order(done.shared, nbytes, swizzle), expected.reshape(-1).view(np.uint8))
    assert np.array_equal(done.array.view(np.uint8), array.view(np.uint8))


@pytest.mark.parametrize("by_oracle", [False, True])
@pytest.mark.parametrize("seed", range(40, 60))
@pytest.mark.thinned(4)
def test_a_box_is_stored_where_the_array_is(seed, by_oracle):
    rng, array, tensor_map, corner, box, steps, swizzle, _ = drawn(seed, stored=True)
    nbytes = box_bytes(tensor_map(4096))
    sides = [-(-side // step) if axis else side for axis, (side, step) in enumerate(zip(box, steps, strict=True))]
    values = rng.integers(0, 100, sides[::-1]).astype(array.dtype)
    shared = np.zeros(SHARED, np.uint8)
    shared[[swizzled(k, swizzle) for k in range(nbytes)]] = values.reshape(-1).view(np.uint8)
    done = run(store(array.ndim), array, tensor_map, corner, shared, by_oracle=by_oracle)
    expected = array.copy()
    for place in itertools.product(*(range(n) for n in values.shape)):
        at = tuple(
            c + p * (s if axis else 1) for axis, (c, p, s) in enumerate(zip(corner, place[::-1], steps, strict=True))
        )[::-1]
        if all(0 <= a < n for a, n in zip(at, array.shape, strict=True)):
            expected[at] = values[place]
    assert np.array_equal(done.array, expected)


@pytest.mark.parametrize("by_oracle", [False, True])
@pytest.mark.parametrize(("operation", "name"), [
    *[(o, "u32") for o in REDUCTIONS], *[(o, "s32") for o in ("add", "min", "max", "and")], ("add", "f32"),
    *[(o, "f16") for o in ("add", "min", "max")], ("add", "u64"), ("min", "s64"), ("xor", "u64"),
])  # fmt: skip
@pytest.mark.thinned(4)
def test_a_box_is_reduced_into_the_array(operation, name, by_oracle):
    rng = np.random.default_rng(3)
    dtype = np.dtype(NUMPY[name])
    array = rng.integers(0, 50, (6, 16)).astype(dtype)
    values = rng.integers(0, 50, (4, 16)).astype(dtype)
    shared = np.zeros(SHARED, np.uint8)
    shared[: values.nbytes] = values.reshape(-1).view(np.uint8)

    def tensor_map(address: int) -> TensorMap:
        return TensorMap(address, name, (16, 6), (16 * dtype.itemsize,), (16, 4), (1, 1))

    done = run(store(2, operation), array, tensor_map, (8, 3), shared, by_oracle=by_oracle)
    expected = array.copy()
    expected[3:, 8:] = REDUCTIONS[operation](array[3:, 8:], values[:3, :8]).astype(dtype)
    assert np.array_equal(done.array, expected)


@pytest.mark.parametrize("by_oracle", [False, True])
@pytest.mark.parametrize("seed", range(12))
@pytest.mark.thinned(4)
def test_windows_are_loaded_place_by_place(seed, by_oracle):
    """im2col over images in NHWC: so many places of the output, each with the channels of its window's element."""
    rng = np.random.default_rng(seed)
    count, h, w, c = (int(rng.integers(low, high)) for low, high in ((1, 4), (3, 9), (3, 9), (1, 4)))
    channels, places, stride = 8 * c, int(rng.integers(1, 40)), int(rng.integers(1, 3))
    r, s, pad = (int(rng.integers(1, 4)), int(rng.integers(1, 4)), int(rng.integers(0, 2)))
    array = rng.integers(0, 100, (count, h, w, channels)).astype(np.float16)
    out_h, out_w = (max(1, (n + 2 * pad - k) // stride + 1) for n, k in ((h, r), (w, s)))
    lower, upper = (-pad, -pad), (out_w * stride - stride - pad - (w - 1), out_h * stride - stride - pad - (h - 1))
    first = int(rng.integers(0, count * out_h * out_w))
    element = (int(rng.integers(0, r)), int(rng.integers(0, s)))

    def tensor_map(address: int) -> TensorMap:
        strides = tuple(int(n) for n in array.strides[2::-1])
        return TensorMap(address, "f16", (channels, w, h, count), strides, (8, places), (1, stride, stride, 1),
                         corners=(lower, upper))  # fmt: skip

    image, rest = divmod(first, out_h * out_w)
    y, x = divmod(rest, out_w)
    corner = (0, x * stride - pad, y * stride - pad, image, 0, element[1], element[0])
    done = run(load(4, 16 * places, windows=True), array, tensor_map, corner, np.zeros(SHARED, np.uint8),
               by_oracle=by_oracle)  # fmt: skip
    padded = np.zeros((count + 50, h + 20, w + 20, channels), np.float16)
    padded[:count, 10 : 10 + h, 10 : 10 + w] = array
    expected = []
    for place in range(first, first + places):
        image, rest = divmod(place, out_h * out_w)
        y, x = divmod(rest, out_w)
        expected.append(padded[image, 10 + y * stride - pad + element[0], 10 + x * stride - pad + element[1], :8])
    assert np.array_equal(done.shared[: 16 * places].view(np.float16).reshape(places, 8), np.array(expected))


@pytest.mark.parametrize(("changes", "says"), [
    ({"box": (3, 4)}, "16 bytes"), ({"box": (512, 4)}, "256"), ({"strides": (20,)}, "16"), ({"address": 8}, "16"),
    ({"swizzle": 32, "box": (32, 4)}, "swizzle"), ({"fill": "nan", "element": "u32"}, "NaN"),
])  # fmt: skip
def test_maps_that_no_driver_makes(changes, says):
    given = {"address": 4096, "element": "f32", "sizes": (16, 6), "strides": (64,), "box": (16, 4), **changes}
    with pytest.raises(TensorMapError) as caught:
        TensorMap(**given).encode()
    assert says.lower() in str(caught.value).lower(), str(caught.value)


def test_what_is_no_map_is_told():
    memory = Memory()
    data, at = memory.allocate(SHARED, "data"), memory.allocate(32, "at")
    data.view()[:] = 0
    at.view()[:] = 0
    parameters = bytes(128) + data.address.to_bytes(8, "little") + at.address.to_bytes(8, "little")
    record = kernel(store(2)).launch((1,), (32,), parameters, memory)
    assert [(h.kind, h.detail) for h in record.hazards] == [("out-of-bounds", "tensor-map")]
    assert "no" in record.hazards[0].message and "tensor map" in record.hazards[0].message


@pytest.mark.parametrize("nbytes", [16, 512, 8192])
def test_runs_of_bytes_go_both_ways(nbytes):
    rng = np.random.default_rng(nbytes)
    array, shared = rng.integers(0, 256, 16384, np.uint8), rng.integers(0, 256, SHARED, np.uint8)
    copies = f"""
    ld.param.u64 %rd8, [map0]; add.u64 %rd9, %rd8, 8192;
    mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r3], {nbytes};
    cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r2], [%rd8], {nbytes}, [%r3];
WAIT:
    mbarrier.try_wait.parity.shared::cta.b64 %p3, [%r3], 0;
    @!%p3 bra WAIT;
    add.u32 %r8, %r2, 16384;
    cp.async.bulk.global.shared::cta.bulk_group [%rd9], [%r8], {nbytes};
    cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;"""

    def as_map(address: int):
        return type("Address", (), {"encode": lambda self: address.to_bytes(8, "little") + bytes(120)})()

    for by_oracle in (False, True):
        done = run(copies, array, as_map, (0,), shared, by_oracle=by_oracle)
        assert np.array_equal(done.shared[:nbytes], array[:nbytes])
        assert np.array_equal(done.array[8192 : 8192 + nbytes], shared[16384 : 16384 + nbytes])
        assert np.array_equal(done.array[8192 + nbytes :], array[8192 + nbytes :])


@pytest.mark.parametrize("mode, to_shared", [("im2col", False), ("im2col_no_offs", True)])
def test_windows_have_offsets_where_they_are_loaded_and_none_where_they_are_stored(mode, to_shared):
    """As ptxas has it: it refuses the other two."""
    copy = load(4, 64, windows=True) if to_shared else store(4)
    with pytest.raises(PtxSyntaxError, match="im2col_no_offs"):
        kernel(copy.replace(".im2col", f".{mode}").replace(".tile", f".{mode}"))


# ---------------------------------------------------------------- maps that the kernel changes

CHANGES = """
    {
    .shared .align 128 .b8 changed[128];
    .reg .b64 %from, %to, %wide; .reg .b32 %s, %n, %w;
    mov.u32 %s, changed; ld.param.u64 %to, [at]; add.u64 %to, %to, 128; mov.u32 %n, %tid.x;
    mul.wide.u32 %wide, %n, 4; add.u64 %from, %to, %wide; ld.global.b32 %w, [%from+128];
    mad.lo.u32 %n, %n, 4, %s; st.shared.b32 [%n], %w;
    bar.warp.sync -1;
    @%p1 bra CHANGED;
    CHANGE
CHANGED:
    bar.warp.sync -1;
    tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned [%to], [%s], 128;
    bar.warp.sync -1;
    fence.proxy.tensormap::generic.acquire.gpu [%to], 128;
    }
"""
HERE = "tensormap.replace.tile"
FIELD_CHANGES = {
    "global_address": f"ld.param.u64 %wide, [at]; {HERE}.global_address.shared::cta.b1024.b64 [%s], %wide;",
    "global_dim": f"mov.u32 %w, 5; {HERE}.global_dim.shared::cta.b1024.b32 [%s], 0, %w;",
    "global_stride": f"mov.u64 %wide, 128; {HERE}.global_stride.shared::cta.b1024.b64 [%s], 0, %wide;",
    "box_dim": f"{HERE}.box_dim.shared::cta.b1024.b32 [%s], 1, 2;",
    "element_stride": f"mov.u32 %w, 2; {HERE}.element_stride.shared::cta.b1024.b32 [%s], 1, %w;",
    "rank": f"mov.u32 %w, 0; {HERE}.rank.shared::cta.b1024.b32 [%s], %w;",
    "elemtype": f"{HERE}.elemtype.shared::cta.b1024.b32 [%s], 7;",
    "swizzle_mode": f"{HERE}.swizzle_mode.shared::cta.b1024.b32 [%s], 1;",
    "fill_mode": f"{HERE}.fill_mode.shared::cta.b1024.b32 [%s], 1;",
}
"""Field -> what changes it in the copy of a map in shared memory, at %s."""


def _changed(name: str, tensor_map: TensorMap, at: int) -> TensorMap:
    """The map that the driver would have made."""
    return {
        "global_address": lambda: replace(tensor_map, address=at),
        "global_dim": lambda: replace(tensor_map, sizes=(5, tensor_map.sizes[1])),
        "global_stride": lambda: replace(tensor_map, strides=(128,)),
        "box_dim": lambda: replace(tensor_map, box=(8, 2)),
        "element_stride": lambda: replace(tensor_map, steps=(1, 2)),
        "rank": lambda: replace(tensor_map, sizes=tensor_map.sizes[:1], strides=(), box=tensor_map.box[:1]),
        "elemtype": lambda: replace(tensor_map, element="f32"),
        "swizzle_mode": lambda: replace(tensor_map, swizzle=32),
        "fill_mode": lambda: replace(tensor_map, element="f32", fill="nan"),
    }[name]()


@pytest.mark.parametrize("by_oracle", [False, True], ids=["engine", "oracle"])
@pytest.mark.parametrize("name", FIELD_CHANGES)
@pytest.mark.thinned(4)
def test_a_changed_map_is_the_one_that_the_driver_makes(name, by_oracle):
    memory = Memory()
    x, data, at = memory.allocate(4096, "x"), memory.allocate(SHARED, "data"), memory.allocate(512, "at")
    x.view()[:] = np.arange(4096) % 251
    at.view()[:] = np.arange(512) % 241
    at.view()[:32] = 0
    data.view()[:] = 0
    element = "f32" if name == "fill_mode" else "u32"
    tensor_map = TensorMap(x.address, element, (8, 16), (64,), box=(8, 4))
    made = kernel("", together=CHANGES.replace("CHANGE\n", FIELD_CHANGES[name] + "\n"))
    at.view()[256:384] = np.frombuffer(tensor_map.encode(), np.uint8)
    parameters = [bytes(128), data, at]
    if by_oracle:
        oracle.run(made, 1, 32, parameters, memory)
    else:
        record = made.launch(1, 32, parameters, memory)
        assert not record.hazards, record.hazards
    assert TensorMap.decode(bytes(at.view()[128:256])) == _changed(name, tensor_map, at.address)


@pytest.mark.parametrize("change", [
    f"{HERE}.box_dim.shared::cta.b1024.b32 [%s], 5, 2;", f"{HERE}.elemtype.shared::cta.b1024.b32 [%s], 13;",
    f"{HERE}.global_dim.shared::cta.b1024.b64 [%s], 0, %wide;", f"{HERE}.lower.shared::cta.b1024.b32 [%s], 0, 2;",
    f"{HERE}.box_dim.shared::cta.b1024.b32 [%s], 1, 2; {HERE}.box_dim.shared::cta.b1024.b32 [%s], 9, 2;",
])  # fmt: skip
def test_changes_of_what_no_map_has_are_refused(change):
    with pytest.raises((UnsupportedInstruction, PtxSyntaxError), match="tensormap"):
        kernel("", together=CHANGES.replace("CHANGE\n", change + "\n"))


@pytest.mark.parametrize("by_oracle", [False, True], ids=["engine", "oracle"])
def test_a_copy_goes_by_the_changed_map(by_oracle):
    memory = Memory()
    x, data, at = memory.allocate(4096, "x"), memory.allocate(SHARED, "data"), memory.allocate(512, "at")
    x.view()[:] = np.arange(4096) % 251
    data.view()[:] = at.view()[:] = 0
    tensor_map = TensorMap(x.address, "u32", (8, 16), (64,), box=(8, 4))
    at.view()[256:384] = np.frombuffer(tensor_map.encode(), np.uint8)
    together = CHANGES.replace("CHANGE\n", FIELD_CHANGES["box_dim"] + FIELD_CHANGES["global_stride"] + "\n")
    made = kernel(f"add.u64 %rd5, %rd2, 128; {load(2, 64)}", together=together)
    if by_oracle:
        oracle.run(made, 1, 32, [bytes(128), data, at], memory)
    else:
        record = made.launch(1, 32, [bytes(128), data, at], memory)
        assert not record.hazards, record.hazards
    rows = x.view().reshape(-1, 128)[:2, :32]
    assert (data.view()[:64] == rows.reshape(-1)).all() and not data.view()[64:128].any()


def _reached(copies: str, *, maps: int = 2, together: str = "") -> tuple[set[str], set[str]]:
    """Names of the arrays that a kernel may read, and may write, as far as its code and its maps tell."""
    memory = Memory()
    x, y, data, at = (memory.allocate(n, name) for n, name in ((4096, "x"), (4096, "y"), (SHARED, "data"), (512, "at")))
    for array in (x, y, data, at):
        array.view()[:] = 0
    encoded = [TensorMap(a.address, "u32", (8, 16), (64,), box=(8, 4)).encode() for a in (x, y)]
    at.view()[128:256] = np.frombuffer(encoded[0], np.uint8)
    made = kernel(copies, maps=maps, together=together)
    record = made.launch(1, 32, [*encoded[:maps], data, at], memory)
    return tuple({a.name for a in found} for found in (record.reach.read, record.reach.written))


def test_a_copy_reaches_the_array_of_its_map_alone():
    second = "mov.b64 %rd5, %rd6;"
    assert _reached(load(2, 128)) == ({"x", "data", "at"}, {"data"})
    assert _reached(store(2)) == ({"data", "at"}, {"x", "data"})
    assert _reached(second + store(2)) == ({"data", "at"}, {"x", "y", "data"})  # a register that had both
    assert _reached(store(2, "add")) == ({"x", "data", "at"}, {"x", "data"})
    by_bytes = "cp.async.bulk.global.shared::cta.bulk_group [%rd1], [%r2], 16; cp.async.bulk.commit_group;"
    assert _reached(by_bytes + "cp.async.bulk.wait_group 0;") == ({"data", "at"}, {"data"})


def test_a_map_in_memory_may_lead_anywhere():
    assert _reached(f"add.u64 %rd5, %rd2, 128; {store(2)}")[1] == {"x", "y", "data", "at"}


def test_what_a_copy_stores_races_with_what_a_thread_reads_of_the_array():
    memory = Memory()
    x, data, at = memory.allocate(4096, "x"), memory.allocate(SHARED, "data"), memory.allocate(32, "at")
    for array in (x, data, at):
        array.view()[:] = 0
    made = TensorMap(x.address, "u32", (8, 16), (64,), box=(8, 4)).encode()
    reads = "ld.param.u64 %rd9, [map0]; ld.global.b32 %r9, [%rd9+4];"  # a map begins with its array's address
    record = kernel(store(2), together=reads).launch(2, 32, [made, data, at], memory)
    assert any(h.kind == "race" and h.array == "x" for h in record.hazards)
