"""Small kernels of what came with Hopper, with seeded inputs: run by the simulator, and by a GPU for the record.

Each case is a text of PTX and its arguments. A kernel waits a bounded time for its copies, so that one that announces
the wrong number of bytes ends on a GPU, too.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ptxsim.tensormap import ELEMENTS, TensorMap, box_bytes

from . import warpgroup_cases as wg

POISON = 0xA5A5A5A5
"""What shared memory holds before a copy comes: what was not written shows."""
NUMPY: dict[str, Any] = {
    "u8": np.uint8, "u16": np.uint16, "u32": np.uint32, "s32": np.int32, "u64": np.uint64, "s64": np.int64,
    "f16": np.uint16, "bf16": np.uint16, "f32": np.uint32, "f32.ftz": np.uint32, "f64": np.uint64, "tf32": np.uint32,
    "tf32.ftz": np.uint32,
}  # fmt: skip
"""Type of element -> the type of its bits."""


@dataclass(frozen=True)
class MapOf:
    """The tensor map of an array among the arguments, which knows its address only when it is there."""

    array: int
    tensor_map: TensorMap

    def at(self, address: int) -> TensorMap:
        return replace(self.tensor_map, address=address)


Argument = np.ndarray | MapOf | np.generic


@dataclass(frozen=True)
class HopperCase:
    """A kernel `k` and its launch. Arrays are copied to the device; those in `written` are compared afterwards."""

    name: str
    ptx: str
    arguments: tuple[Argument, ...]
    written: tuple[int, ...]
    grid: int = 1
    block: int = 128
    shared_bytes: int = 0


def values(name: str, shape: Sequence[int], type_: str = "u32") -> np.ndarray:
    """Seeded bits of numbers of a type: any integers, floats of moderate size."""
    rng = np.random.default_rng(zlib.crc32(name.encode()))
    base = type_.removesuffix(".ftz")
    if base in ("f16", "f32", "f64", "bf16", "tf32"):
        x = rng.integers(-128, 129, shape) * 2.0 ** rng.integers(-4, 5, shape)
        if base == "bf16":
            return (x.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)
        return x.astype({"f16": np.float16, "f64": np.float64}.get(base, np.float32)).view(NUMPY[base])
    dtype = NUMPY[type_]
    return rng.integers(np.iinfo(dtype).min, np.iinfo(dtype).max, shape, dtype, endpoint=True)


# ---------------------------------------------------------------- texts


def kernel(
    arguments: Sequence[Argument], body: Sequence[str], *, shared: Sequence[str] = (), cluster: int = 1,
    bounds: str = "",
) -> str:  # fmt: skip
    """A kernel whose argument k is in %rd{k} (maps: their address), the thread's number in %r0."""
    params, loads = [], []
    for k, argument in enumerate(arguments):
        if isinstance(argument, MapOf):
            params.append(f".param .align 64 .b8 p{k}[128]")
            loads += [f"mov.b64 %rd{k}, p{k};", f"cvta.param.u64 %rd{k}, %rd{k};"]
        else:
            params.append(f".param .u64 p{k}")
            loads.append(f"ld.param.u64 %rd{k}, [p{k}];")
    lines = "\n    ".join([*shared, *loads, "mov.u32 %r0, %tid.x;", *body, "ret;"])
    groups = f".explicitcluster .reqnctapercluster {cluster}" if cluster > 1 else ""
    return f"""
.version 8.4
.target sm_90a
.address_size 64
.visible .entry k({", ".join(params)})
{groups} {bounds}
{{
    .reg .b32 %r<48>;
    .reg .b64 %rd<32>;
    .reg .b16 %h<8>;
    .reg .f32 %f<8>;
    .reg .pred %p<8>;
    {lines}
}}
"""


def words(label: str, nbytes: int, body: str, *, threads: int = 128) -> list[str]:
    """A loop over words, %r10 the word's offset (also as %rd30), by all threads."""
    return [
        "shl.b32 %r10, %r0, 2;", f"{label}:", f"setp.ge.u32 %p7, %r10, {nbytes};", f"@%p7 bra {label}_END;",
        "cvt.u64.u32 %rd30, %r10;", body, f"add.u32 %r10, %r10, {4 * threads};", f"bra {label};", f"{label}_END:",
    ]  # fmt: skip


def filled(nbytes: int, source: str = "") -> list[str]:
    """`box` filled with poison, or from the global array of a register; then visible to bulk copies."""
    get = f"add.u64 %rd31, {source}, %rd30; ld.global.b32 %r12, [%rd31];" if source else f"mov.b32 %r12, {POISON};"
    return [
        "mov.u32 %r9, box;", *words("FILL", nbytes, f"{get} add.u32 %r11, %r9, %r10; st.shared.b32 [%r11], %r12;"),
        "fence.proxy.async.shared::cta;",
    ]  # fmt: skip


def dumped(nbytes: int, to: str) -> list[str]:
    """`box` to the global array of a register, block after block."""
    return [
        "mov.u32 %r13, %ctaid.x;", f"mad.wide.u32 %rd29, %r13, {nbytes}, {to};",
        *words("DUMP", nbytes, "add.u32 %r11, %r9, %r10; ld.shared.b32 %r12, [%r11]; add.u64 %rd31, %rd29, %rd30; "
                               "st.global.b32 [%rd31], %r12;"),
    ]  # fmt: skip


INIT = ["mov.u32 %r8, full;", "setp.eq.u32 %p0, %r0, 0;", "@%p0 mbarrier.init.shared::cta.b64 [%r8], 1;",
        "fence.mbarrier_init.release.cluster;", "bar.sync 0;"]  # fmt: skip
WAIT = [
    "mov.u32 %r14, 0;", "WAIT:", "mbarrier.try_wait.parity.acquire.cta.shared::cta.b64 %p1, [%r8], 0;",
    "@%p1 bra READY;",
    "add.u32 %r14, %r14, 1;", "setp.lt.u32 %p2, %r14, 20000;", "@%p2 bra WAIT;", "READY:",
]  # fmt: skip
SYNC_CLUSTER = ["barrier.cluster.arrive.release.aligned;", "barrier.cluster.wait.acquire.aligned;"]


def memory(nbytes: int) -> list[str]:
    return [f".shared .align 1024 .b8 box[{nbytes}];", ".shared .align 8 .b8 full[8];"]


def expects(nbytes: int) -> str:
    return f"@%p0 mbarrier.arrive.expect_tx.release.cta.shared::cta.b64 _, [%r8], {nbytes};"


def whole(nbytes: int) -> int:
    """Bytes of shared memory for so many: with some behind that must stay."""
    return -(-nbytes // 128) * 128 + 128


# ---------------------------------------------------------------- boxes of tensors

_WORDS = np.array([
    0x3F801000, 0x3F803000, 0x3F800FFF, 0x3F801001, 0xBF801000, 0xBF803000, 0x7F7FFFFF, 0xFF7FEFFF, 0x7F7FF000,
    0x00000001, 0x807FFFFF, 0x00001000, 0x00003000, 0x80000FFF, 0x007FF000, 0x80000000,
    0x7F800000, 0xFF800000, 0x7F800001, 0x7FC00000, 0xFFFFFFFF, 0x7F801000, 0xFFBFFFFF, 0x7F7FEFFF,
], np.uint32)  # fmt: skip
"""What is hard for a conversion of float32: ties, subnormals, the largest numbers, infinities and NaNs."""


@dataclass(frozen=True)
class Box:
    """A copy of a box: `shape` and everything else innermost dimension first."""

    name: str
    type: str
    shape: tuple[int, ...]
    box: tuple[int, ...]
    corner: tuple[int, ...]
    steps: tuple[int, ...] = ()
    swizzle: int = 0
    fill: str = "zero"
    corners: tuple[tuple[int, ...], tuple[int, ...]] | None = None
    offsets: tuple[int, ...] = ()
    bits: str = ""
    """"any": any bits as elements, NaNs and subnormals too"""

    @property
    def tensor_map(self) -> TensorMap:
        size, strides = ELEMENTS[self.type].nbytes, []
        for side in self.shape[:-1]:
            size *= side
            strides.append(-(-size // 16) * 16)
            size = strides[-1]
        return TensorMap(
            0, self.type, self.shape, tuple(strides), self.box, self.steps, 0, self.swizzle, self.fill, self.corners
        )

    def array(self) -> np.ndarray:
        """The array with the gaps between its rows, and some bytes behind it."""
        m = self.tensor_map
        outer = m.strides[-1] * m.sizes[-1] if m.strides else m.nbytes * m.sizes[0]
        count = (-(-outer // 16) * 16 + 16) // m.nbytes
        if self.bits:
            rng = np.random.default_rng(zlib.crc32(self.name.encode()))
            found = rng.integers(0, 256, count * m.nbytes, np.uint8).view(NUMPY[self.type])
            if m.nbytes == 4:
                found[: len(_WORDS)] = _WORDS
            return found
        return values(self.name, (count,), self.type)

    def coordinates(self) -> str:
        return ", ".join(f"%r{20 + k}" for k in range(len(self.corner)))

    def moves(self) -> list[str]:
        return [f"mov.b32 %r{20 + k}, {c};" for k, c in enumerate(self.corner)]


def in_shared(c: Box) -> int:
    """Bytes of shared memory of a box: rows that are narrower than their swizzle may take its whole width."""
    rows = box_bytes(c.tensor_map) // (c.box[0] * c.tensor_map.nbytes)
    return whole(max(box_bytes(c.tensor_map), rows * c.swizzle))


def loaded(c: Box) -> HopperCase:
    """The box comes into shared memory; the last word there says whether the wait for its bytes ended."""
    m = c.tensor_map
    nbytes = box_bytes(m)
    size = in_shared(c)
    array = c.array()
    arguments = (MapOf(2, m), np.zeros(size, np.uint8), array)
    mode = "im2col" if c.corners else "tile"
    within = ", {" + ", ".join(f"%h{k}" for k in range(len(c.offsets))) + "}" if c.corners else ""
    body = [
        *filled(size), *INIT, *c.moves(), *(f"mov.b16 %h{k}, {o};" for k, o in enumerate(c.offsets)), expects(nbytes),
        f"@%p0 cp.async.bulk.tensor.{m.rank}d.shared::cluster.global.{mode}.mbarrier::complete_tx::bytes "
        f"[%r9], [%rd0, {{{c.coordinates()}}}], [%r8]{within};",
        *WAIT, "selp.b32 %r12, 1, 0, %p1;", f"@%p0 st.shared.b32 [%r9+{size - 4}], %r12;", "bar.sync 0;",
        *dumped(size, "%rd1"),
    ]  # fmt: skip
    return HopperCase(f"load_{c.name}", kernel(arguments, body, shared=memory(size)), arguments, (1,))


def stored(c: Box, operation: str = "") -> HopperCase:
    m = c.tensor_map
    size = in_shared(c)
    data = values(f"{c.name} {operation} data", (size // m.nbytes,), c.type)
    array = c.array()
    if operation in ("inc", "dec"):  # limits near the numbers, so that some wrap
        array, data = array % 5, data % 5
    arguments = (MapOf(2, m), data, array)
    what = f"cp.reduce.async.bulk.tensor.{m.rank}d.global.shared::cta.{operation}" if operation else (
        f"cp.async.bulk.tensor.{m.rank}d.global.shared::cta")  # fmt: skip
    mode = "im2col_no_offs" if c.corners else "tile"
    body = [
        *filled(size, "%rd1"), *INIT, *c.moves(),
        f"@%p0 {what}.{mode}.bulk_group [%rd0, {{{c.coordinates()}}}], [%r9];",
        "cp.async.bulk.commit_group;", "cp.async.bulk.wait_group 0;",
    ]  # fmt: skip
    name = f"reduce_{operation}_{c.name}" if operation else f"store_{c.name}"
    return HopperCase(name, kernel(arguments, body, shared=memory(size)), arguments, (2,))


IMAGES = ((8, 6, 5, 3), ((0, 0), (0, 0)))
LOADS = [
    Box("1d", "u32", (40,), (16,), (8,)),
    Box("1d_before", "u32", (40,), (16,), (-4,)),
    Box("1d_behind", "u16", (44,), (32,), (24,)),
    Box("2d", "u8", (48, 9), (32, 5), (16, 2)),
    Box("2d_corner_before", "f16", (24, 9), (16, 6), (-8, -2)),
    Box("2d_corner_behind", "bf16", (28, 9), (16, 6), (16, 6)),
    Box("2d_all_outside", "f32", (12, 9), (8, 4), (40, 2)),
    Box("3d", "f32", (10, 7, 5), (8, 3, 4), (4, 3, 3)),
    Box("3d_before", "s32", (12, 7, 5), (8, 3, 4), (-4, -1, -2)),
    Box("4d", "f64", (5, 5, 4, 3), (4, 3, 2, 2), (2, 3, -1, 2)),
    Box("5d", "u16", (13, 3, 3, 3, 3), (8, 2, 2, 2, 2), (8, 2, -1, 1, 2)),
    Box("u64", "u64", (9, 6), (6, 4), (4, -1)),
    Box("s64", "s64", (8, 6), (6, 4), (-2, 4)),
    *[Box(f"nan_{t}", t, (16, 6), (16, 4), (-8, 4), fill="nan")
      for t in ("f16", "bf16", "f32", "f32.ftz", "f64", "tf32", "tf32.ftz")],
    *[Box(f"swizzle_{s}", "f16", (128, 20), (s // 2, 17), (16, 1), swizzle=s) for s in (32, 64, 128)],
    *[Box(f"swizzle_{s}_narrow_{n}", "u8", (256, 20), (n, 9), (16, 1), swizzle=s)
      for s, n in ((32, 16), (64, 16), (64, 32), (64, 48), (128, 16), (128, 32), (128, 48), (128, 64), (128, 96))],
    Box("swizzle_128_narrow_3d", "f16", (128, 5, 5), (24, 3, 3), (16, 1, 3), swizzle=128),
    Box("swizzle_128_edge", "f32", (40, 20), (32, 9), (20, -3), swizzle=128, fill="nan"),
    Box("swizzle_64_3d", "bf16", (36, 6, 5), (32, 3, 4), (8, 4, -1), swizzle=64),
    Box("steps_2d", "f16", (24, 12), (16, 6), (0, 1), (1, 2)),
    Box("steps_2d_ragged", "f16", (20, 12), (16, 7), (8, -1), (1, 3)),
    Box("steps_3d", "u32", (11, 9, 9), (8, 5, 8), (4, 2, 3), (1, 2, 4)),
    Box("steps_inner", "f32", (32, 8), (16, 4), (0, 0), (2, 1)),
    *[Box(f"any_{t}", t, (16, 16), (16, 16), (0, 0), bits="any")
      for t in ("f16", "bf16", "f32", "f32.ftz", "f64", "tf32", "tf32.ftz")],
    # im2col: images in NHWC (NWC, NDHWC); corners in (W, H, D) of the rectangle of windows
    Box("im2col_3d", "f16", (16, 9, 3), (16, 20), (0, 0, 0), corners=((0,), (-2,)), offsets=(1,)),
    Box("im2col_3d_padded", "f32", (8, 7, 3), (8, 16), (0, -1, 1), corners=((-1,), (-1,)), offsets=(0,)),
    Box("im2col_4d", "f16", (16, 6, 5, 3), (16, 20), (0, 0, 0, 0), corners=((0, 0), (-2, -2)), offsets=(1, 2)),
    Box("im2col_4d_padded", "f16", (16, 6, 5, 3), (16, 33), (8, -1, -1, 0), corners=((-1, -1), (-1, -1)),
        offsets=(2, 0)),
    Box("im2col_4d_within", "bf16", (16, 6, 5, 3), (16, 24), (0, 2, 1, 1), corners=((-1, -1), (-1, -1)),
        offsets=(0, 1)),
    Box("im2col_4d_steps", "f16", (16, 8, 7, 2), (16, 14), (0, -1, -1, 0), (1, 2, 2, 1), corners=((-1, -1), (-1, -1)),
        offsets=(1, 1)),
    Box("im2col_4d_nan", "f32", (8, 6, 5, 2), (8, 40), (4, -1, -1, 0), fill="nan", corners=((-1, -1), (-1, -1)),
        offsets=(2, 2)),
    Box("im2col_4d_swizzle", "f16", (64, 6, 5, 2), (64, 18), (0, 0, 0, 0), swizzle=128, corners=((0, 0), (-2, -2)),
        offsets=(2, 1)),
    Box("im2col_5d", "u16", (8, 4, 4, 4, 2), (8, 40), (0, 0, 0, 0, 0), corners=((0, 0, 0), (-1, -1, -1)),
        offsets=(1, 0, 1)),
    Box("im2col_5d_padded", "f32", (8, 4, 3, 3, 2), (8, 50), (4, -1, -1, -1, 0),
        corners=((-1, -1, -1), (-1, -1, -1)), offsets=(2, 1, 0)),
]  # fmt: skip
STORES = [
    Box("1d", "u32", (39,), (16,), (28,)),
    Box("2d", "f16", (21, 9), (16, 6), (8, 5)),
    Box("2d_behind", "u8", (48, 9), (32, 6), (32, 6)),
    Box("3d", "f32", (10, 7, 5), (8, 3, 4), (4, 5, 3)),
    Box("4d", "u16", (13, 5, 4, 3), (8, 3, 2, 2), (8, 3, 1, 2)),
    Box("5d", "u32", (7, 3, 3, 3, 3), (4, 2, 2, 2, 2), (4, 2, 0, 1, 2)),
    *[Box(f"swizzle_{s}", "f16", (128, 20), (s // 2, 17), (16, 1), swizzle=s) for s in (32, 64, 128)],
    *[Box(f"swizzle_{s}_narrow_{n}", "u8", (256, 20), (n, 9), (16, 1), swizzle=s)
      for s, n in ((32, 16), (64, 48), (128, 16), (128, 96))],
    Box("steps", "f16", (20, 12), (16, 7), (8, 7), (1, 3)),
    Box("im2col_4d", "f16", (16, 6, 5, 3), (16, 20), (0, 0, 0, 0), corners=((0, 0), (-2, -2))),
    Box("im2col_3d", "f32", (8, 7, 3), (8, 12), (4, 0, 1), corners=((0,), (0,))),
    Box("any_f32.ftz", "f32.ftz", (16, 16), (16, 16), (0, 0), bits="any"),
    Box("any_tf32", "tf32", (16, 16), (16, 16), (0, 0), bits="any"),
]  # fmt: skip
UNALIGNED = [
    *[Box(f"unaligned_{t}_{x}", t, (80, 6), (16, 4), (x, 1))
      for t, *all_x in (("u8", 1, 8, 24), ("f16", -3, 4, 12), ("f32", -5, 1, 2, 42, 82), ("u64", 1, -3))
      for x in all_x],
    Box("unaligned_outside", "f32", (80, 6), (16, 4), (2, 9)),
    Box("unaligned_1d", "f32", (80,), (16,), (2,)),
    Box("unaligned_3d", "f16", (80, 3, 3), (16, 2, 2), (4, 0, 0)),
    Box("unaligned_im2col", "f16", (16, 6, 5, 3), (8, 20), (4, 0, 0, 0), corners=((0, 0), (-2, -2)), offsets=(1, 2)),
]  # fmt: skip
"""Boxes whose innermost side begins at no multiple of 16 bytes: a GPU stops there."""
BEFORE = [
    Box("before_x", "f32", (24, 9), (16, 4), (-4, 2)),
    Box("before_y", "f32", (24, 9), (16, 4), (4, -1)),
    Box("before_outside", "f32", (24, 9), (16, 4), (4, -4)),
    Box("before_1d", "u32", (40,), (16,), (-16,)),
    Box("before_3d", "f16", (24, 5, 5), (16, 2, 2), (8, 2, -1)),
    Box("before_im2col", "f16", (16, 6, 5, 3), (16, 20), (0, -1, 0, 0), corners=((-1, 0), (-2, -2))),
]
"""Boxes that begin before the array. A GPU loads them; it stops at their stores and reductions."""
REDUCTIONS = [
    *(("add", t) for t in ("u32", "s32", "u64", "f32", "f16", "bf16")),
    *((o, t) for o in ("min", "max") for t in ("u32", "s32", "u64", "s64", "f16", "bf16")),
    *((o, t) for o in ("and", "or", "xor") for t in ("u32", "u64")), ("inc", "u32"), ("dec", "u32"),
]  # fmt: skip


# ---------------------------------------------------------------- runs of bytes


def bulk(name: str, nbytes: int, source_at: int, to_at: int) -> HopperCase:
    data = values(name, (nbytes + source_at + 64,), "u8")
    size = whole(nbytes + to_at)
    arguments = (data, np.zeros(size, np.uint8))
    body = [
        *filled(size), *INIT, f"add.u64 %rd0, %rd0, {source_at};", f"add.u32 %r15, %r9, {to_at};", expects(nbytes),
        f"@%p0 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r15], [%rd0], {nbytes}, [%r8];",
        *WAIT, "bar.sync 0;", *dumped(size, "%rd1"),
    ]  # fmt: skip
    return HopperCase(name, kernel(arguments, body, shared=memory(size)), arguments, (1,))


def bulk_out(name: str, nbytes: int, operation: str = "", type_: str = "u32") -> HopperCase:
    """Shared to global memory, also as a reduction."""
    array_type = {"b32": "u32", "b64": "u64"}.get(type_, type_)
    size = whole(nbytes)
    data = values(name + " data", (size // np.dtype(NUMPY[array_type]).itemsize,), array_type)
    array = values(name, (len(data),), array_type)
    if operation in ("inc", "dec"):
        data, array = data % 5, array % 5
    arguments = (data, array)
    noftz = ".noftz" if operation == "add" and type_ in ("f16", "bf16") else ""
    what = f"cp.reduce.async.bulk.global.shared::cta.bulk_group.{operation}{noftz}.{type_}" if operation else (
        "cp.async.bulk.global.shared::cta.bulk_group")  # fmt: skip
    body = [
        *filled(size, "%rd0"), *INIT, f"@%p0 {what} [%rd1], [%r9], {nbytes};", "cp.async.bulk.commit_group;",
        "cp.async.bulk.wait_group 0;",
    ]  # fmt: skip
    return HopperCase(name, kernel(arguments, body, shared=memory(size)), arguments, (1,))


BULK_REDUCTIONS = [
    *(("add", t) for t in ("u32", "s32", "u64", "f16", "bf16", "f32", "f64")),
    *((o, t) for o in ("min", "max") for t in ("u32", "s32", "u64", "s64", "f16", "bf16")),
    *((o, t) for o in ("and", "or", "xor") for t in ("b32", "b64")), ("inc", "u32"), ("dec", "u32"),
]  # fmt: skip


# ---------------------------------------------------------------- clusters


def cast(blocks: int, mask: int, *, tensor: bool) -> HopperCase:
    """Block 0 sends a copy to all blocks of a mask; who is not in it expects nothing."""
    box = Box(f"multicast_{blocks}", "u32", (16, 9), (8, 4), (4, 3))
    nbytes = 128
    size = whole(nbytes)
    array = box.array()
    arguments = (MapOf(2, box.tensor_map), np.zeros(size * blocks, np.uint8), array)
    copy = (
        f"cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster "
        f"[%r9], [%rd0, {{{box.coordinates()}}}], [%r8], %h0;" if tensor else
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster "
        f"[%r9], [%rd2], {nbytes}, [%r8], %h0;"
    )  # fmt: skip
    body = [
        *filled(size), *INIT, *box.moves(), f"mov.b16 %h0, {mask};", "mov.u32 %r16, %cluster_ctarank;",
        f"mov.u32 %r17, {mask};", "shr.u32 %r17, %r17, %r16;", "and.b32 %r17, %r17, 1;", "setp.ne.u32 %p3, %r17, 0;",
        "and.pred %p4, %p0, %p3;",
        f"@%p4 mbarrier.arrive.expect_tx.release.cta.shared::cta.b64 _, [%r8], {nbytes};",
        *SYNC_CLUSTER, "setp.eq.u32 %p5, %r16, 0;", "and.pred %p5, %p5, %p0;", f"@%p5 {copy}",
        "@!%p3 bra READY;", *WAIT, "bar.sync 0;", *dumped(size, "%rd1"), *SYNC_CLUSTER,
    ]  # fmt: skip
    name = f"multicast_{'box' if tensor else 'bytes'}_{blocks}_{mask:x}"
    return HopperCase(name, kernel(arguments, body, shared=memory(size), cluster=blocks), arguments, (1,), blocks)


def to_neighbour(blocks: int) -> HopperCase:
    """Each block sends bytes to the next one's shared memory, and tells its barrier object."""
    nbytes, size = 256, 512
    arguments = (values("neighbour", (2 * blocks * size,), "u8"), np.zeros(2 * blocks * size, np.uint8))
    body = [
        "mov.u32 %r13, %ctaid.x;", f"mad.wide.u32 %rd28, %r13, {size}, %rd0;", *filled(size, "%rd28"), *INIT,
        expects(nbytes), *SYNC_CLUSTER, "mov.u32 %r16, %cluster_ctarank;", "add.u32 %r16, %r16, 1;",
        f"and.b32 %r16, %r16, {blocks - 1};", "add.u32 %r17, %r9, 256;", "mapa.shared::cluster.u32 %r18, %r17, %r16;",
        "mapa.shared::cluster.u32 %r19, %r8, %r16;",
        "@%p0 cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes "
        f"[%r18], [%r9], {nbytes}, [%r19];",
        *WAIT, *SYNC_CLUSTER, *dumped(size, "%rd1"),
    ]  # fmt: skip
    text = kernel(arguments, body, shared=memory(size), cluster=blocks)
    return HopperCase(f"neighbour_{blocks}", text, arguments, (1,), 2 * blocks)


def distributed(blocks: int) -> HopperCase:
    """Loads, stores and atomics in other blocks' shared memory, and who is who."""
    size = 2048
    arguments = (np.zeros(2 * blocks * size, np.uint8), values("distributed", (2 * blocks * 128,)))
    next_ = ["add.u32 %r17, %r16, 1;", f"and.b32 %r17, %r17, {blocks - 1};"]
    own = "%cluster_ctarank %cluster_nctarank %clusterid.x %nclusterid.x %cluster_ctaid.x %cluster_nctaid.x"
    body = [
        *filled(size), "bar.sync 0;", "mov.u32 %r13, %ctaid.x;", "mad.lo.u32 %r14, %r13, 128, %r0;",
        "mul.wide.u32 %rd10, %r14, 4;", "add.u64 %rd10, %rd10, %rd1;", "ld.global.b32 %r15, [%rd10];",
        "shl.b32 %r18, %r0, 2;", "add.u32 %r18, %r18, %r9;", "st.shared.b32 [%r18], %r15;",
        "setp.eq.u32 %p0, %r0, 0;", "mov.b32 %r19, 0;", "@%p0 st.shared.b32 [%r9+1536], %r19;",
        "mov.u32 %r16, %cluster_ctarank;", *next_, *SYNC_CLUSTER,
        "mapa.shared::cluster.u32 %r30, %r18, %r17;", "ld.shared::cluster.b32 %r31, [%r30];",
        "st.shared.b32 [%r18+512], %r31;", "st.shared::cluster.b32 [%r30+1024], %r15;",
        "mov.u32 %r32, 0;", "mapa.shared::cluster.u32 %r33, %r9, %r32;",
        "red.relaxed.cluster.shared::cluster.add.u32 [%r33+1536], %r15;",
        "cvt.u64.u32 %rd11, %r9;", "cvta.shared.u64 %rd11, %rd11;", "cvt.u64.u32 %rd12, %r17;",
        "mapa.u64 %rd13, %rd11, %r17;", "getctarank.u64 %r34, %rd13;", "getctarank.shared::cluster.u32 %r35, %r30;",
        "@%p0 st.shared.b32 [%r9+1540], %r34;", "@%p0 st.shared.b32 [%r9+1544], %r35;",
        "ld.b32 %r36, [%rd13+64];", "@%p0 st.shared.b32 [%r9+1548], %r36;",
    ]  # fmt: skip
    for k, name in enumerate(own.split()):
        body += [f"mov.u32 %r37, {name};", f"@%p0 st.shared.b32 [%r9+{1552 + 4 * k}], %r37;"]
    body += [
        *SYNC_CLUSTER, "setp.eq.u32 %p3, %r16, 0;", "and.pred %p3, %p3, %p0;",
        "atom.relaxed.cluster.shared::cluster.exch.b32 %r38, [%r33+1580], %r15;" if blocks == 1 else "",
        "@%p0 atom.relaxed.cluster.shared::cluster.or.b32 %r38, [%r33+1584], 255;",
        "@%p0 atom.relaxed.cluster.shared::cluster.max.u32 %r39, [%r33+1588], 7;",
        *SYNC_CLUSTER, *dumped(size, "%rd0"),
    ]  # fmt: skip
    text = kernel(arguments, body, shared=memory(size)[:1], cluster=blocks)
    return HopperCase(f"distributed_{blocks}", text, arguments, (0,), 2 * blocks)


def remote_arrivals(blocks: int) -> HopperCase:
    """All blocks arrive at the object of block 0, which waits for them: nobody is missing."""
    arguments = (np.zeros(4 * blocks, np.uint32),)
    body = [
        "mov.u32 %r8, full;", "setp.eq.u32 %p0, %r0, 0;",
        f"@%p0 mbarrier.init.shared::cta.b64 [%r8], {128 * blocks};", "fence.mbarrier_init.release.cluster;",
        *SYNC_CLUSTER, "mov.u32 %r16, %cluster_ctarank;", "mov.u32 %r17, 0;",
        "mapa.shared::cluster.u32 %r18, %r8, %r17;",
        "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r18];", "mov.u32 %r19, 1;",
        "setp.ne.u32 %p3, %r16, 0;", "mov.u32 %r14, 0;", "@%p3 bra READY;",
        *(x.replace("acquire.cta", "acquire.cluster") for x in WAIT[1:]),
        *SYNC_CLUSTER, "mul.wide.u32 %rd5, %r16, 16;", "add.u64 %rd5, %rd5, %rd0;",
        "@%p0 st.global.b32 [%rd5], %r19;",
    ]  # fmt: skip
    text = kernel(arguments, body, shared=[".shared .align 8 .b8 full[8];"], cluster=blocks)
    return HopperCase(f"remote_arrivals_{blocks}", text, arguments, (0,), blocks)


# ---------------------------------------------------------------- a warp's


def objects() -> HopperCase:
    """One thread takes a barrier object through phases with arrivals and bytes, and notes what it is told."""
    steps = [
        "mbarrier.init.shared::cta.b64 [%r8], 3;",
        "mbarrier.arrive.shared::cta.b64 %rd2, [%r8];", "PENDING", "TEST",
        "mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%r8], 64;", "mbarrier.arrive.shared::cta.b64 %rd2, [%r8];",
        "PENDING", "mbarrier.arrive.shared::cta.b64 %rd2, [%r8];", "PENDING", "TEST",
        "mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [%r8], 32;", "TEST",
        "mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [%r8], 32;", "TEST", "PARITY",
        "mbarrier.arrive.expect_tx.release.cta.shared::cta.b64 %rd2, [%r8], 16;", "PENDING", "TEST",
        "mbarrier.arrive.release.cta.shared::cta.b64 %rd2, [%r8], 2;", "TEST", "PARITY",
        "mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [%r8], 16;", "TEST", "PARITY",
        "mbarrier.arrive_drop.shared::cta.b64 %rd2, [%r8];", "PENDING",
        "mbarrier.arrive.noComplete.shared::cta.b64 %rd2, [%r8], 1;", "PENDING", "TEST",
        "mbarrier.arrive.shared::cta.b64 %rd2, [%r8];", "TEST",
        "mbarrier.arrive.shared::cta.b64 %rd2, [%r8], 2;", "TEST", "PARITY",
    ]  # fmt: skip
    body, notes = ["mov.u32 %r8, full;"], 0
    for step in steps:
        if step.endswith(";"):
            body.append(step)
            continue
        if step == "PENDING":
            body.append("mbarrier.pending_count.b64 %r10, %rd2;")
        else:
            how = ".parity" if step == "PARITY" else ""
            body += [f"mbarrier.test_wait{how}.shared::cta.b64 %p1, [%r8], {'0' if how else '%rd2'};",
                     "selp.u32 %r10, 1, 0, %p1;"]  # fmt: skip
        body.append(f"st.global.b32 [%rd0+{4 * notes}], %r10;")
        notes += 1
    arguments = (np.zeros(notes, np.uint32),)
    text = kernel(arguments, body, shared=[".shared .align 8 .b8 full[8];"])
    return HopperCase("barrier_object", text, arguments, (0,), block=1)


def stmatrix(count: int, trans: str) -> HopperCase:
    size = 1024
    arguments = (np.zeros(size, np.uint8), values(f"stmatrix {count}", (128,)))
    regs = ", ".join(f"%r{20 + k}" for k in range(count))
    body = [
        "mov.u32 %r9, box;", *words("FILL", size, f"add.u32 %r11, %r9, %r10; st.shared.b32 [%r11], {POISON};",
                                    threads=32),
        "bar.sync 0;", "mul.wide.u32 %rd2, %r0, 16;", "add.u64 %rd2, %rd2, %rd1;",
        "ld.global.v4.b32 {%r20, %r21, %r22, %r23}, [%rd2];",
        "xor.b32 %r12, %r0, 5;", "mad.lo.u32 %r12, %r12, 32, %r9;",  # rows 32 bytes apart, in another order
        f"stmatrix.sync.aligned.m8n8.x{count}{trans}.shared.b16 [%r12], {{{regs}}};", "bar.sync 0;",
        *words("DUMP", size, "add.u32 %r11, %r9, %r10; ld.shared.b32 %r12, [%r11]; add.u64 %rd31, %rd0, %rd30; "
                             "st.global.b32 [%rd31], %r12;", threads=32),
    ]  # fmt: skip
    text = kernel(arguments, body, shared=memory(size)[:1])
    return HopperCase(f"stmatrix_x{count}{trans.replace('.', '_')}", text, arguments, (0,), block=32)


def elected() -> HopperCase:
    """Leaders of a whole warp, and of the lanes of a branch."""
    arguments = (np.zeros(256, np.uint32),)
    mask = 0x10C8_0A88
    body = [
        "elect.sync %r1|%p1, 0xffffffff;", "selp.u32 %r2, 1000, 0, %p1;", "add.u32 %r2, %r2, %r1;", "mov.u32 %r3, 77;",
        f"mov.b32 %r4, {mask};", "shr.u32 %r5, %r4, %r0;", "and.b32 %r5, %r5, 1;", "setp.eq.u32 %p2, %r5, 0;",
        "@%p2 bra OUT;", f"elect.sync %r6|%p1, {mask};", "selp.u32 %r3, 1000, 0, %p1;", "add.u32 %r3, %r3, %r6;",
        "OUT:", "mul.wide.u32 %rd1, %r0, 8;", "add.u64 %rd1, %rd1, %rd0;", "st.global.b32 [%rd1], %r2;",
        "st.global.b32 [%rd1+4], %r3;",
    ]  # fmt: skip
    return HopperCase("elect", kernel(arguments, body), arguments, (0,), block=32)


def registers() -> HopperCase:
    """One warpgroup gives registers away, the other takes them."""
    arguments = (np.zeros(256, np.uint32),)
    body = [
        "setp.ge.u32 %p1, %r0, 128;", "mov.u32 %r2, %r0;", "@%p1 bra MORE;", "setmaxnreg.dec.sync.aligned.u32 40;",
        "add.u32 %r2, %r2, 1000;", "bra OUT;", "MORE:", "setmaxnreg.inc.sync.aligned.u32 232;",
        "add.u32 %r2, %r2, 2000;", "OUT:", "mul.wide.u32 %rd1, %r0, 4;", "add.u64 %rd1, %rd1, %rd0;",
        "st.global.b32 [%rd1], %r2;",
    ]  # fmt: skip
    text = kernel(arguments, body, bounds=".maxntid 256 .minnctapersm 1")
    return HopperCase("setmaxnreg", text, arguments, (0,), block=256)


_EDGES = [0.0, -0.0, 1, -1, 448, 449, 463.9, 464, 464.1, 480, 57344, 61439, 61440, 61441, 65504, 1e6, np.inf, -np.inf,
          np.nan, 2.0**-9, 2.0**-10, 2.0**-10 * 1.01, 2.0**-11, 2.0**-16, 2.0**-17, 2.0**-17 * 1.01, 2.0**-18, 1e-30,
          17, 18, 19, 20, 21, 1.0625, 1.1875, 1.125, 1.375, 1e-45]  # fmt: skip


def to_eight_bits(type_: str, origin: str, relu: str = "") -> HopperCase:
    name = f"cvt_{type_}_{origin}{relu.replace('.', '_')}"
    rng = np.random.default_rng(zlib.crc32(type_.encode()))
    x = rng.standard_normal(512) * 2.0 ** rng.integers(-20, 20, 512)
    x[: len(_EDGES)] = _EDGES
    with np.errstate(over="ignore"):
        data = x.astype(np.float32 if origin == "f32" else np.float16)
    pairs = data.view(np.uint64 if origin == "f32" else np.uint32)
    arguments = (np.zeros(256, np.uint16), pairs)
    size = pairs.itemsize
    get = "ld.global.v2.f32 {%f0, %f1}, [%rd2];" if origin == "f32" else "ld.global.b32 %r1, [%rd2];"
    what = "%f1, %f0" if origin == "f32" else "%r1"
    body = [
        f"mul.wide.u32 %rd2, %r0, {size};", "add.u64 %rd2, %rd2, %rd1;", get,
        f"cvt.rn.satfinite{relu}.{type_}x2.{origin} %h0, {what};", "mul.wide.u32 %rd3, %r0, 2;",
        "add.u64 %rd3, %rd3, %rd0;", "st.global.b16 [%rd3], %h0;",
    ]  # fmt: skip
    return HopperCase(name, kernel(arguments, body), arguments, (0,), block=256)


def from_eight_bits(type_: str, relu: str = "") -> HopperCase:
    codes = np.arange(256, dtype=np.uint16)
    arguments = (np.zeros(256, np.uint32), codes | (255 - codes) << 8)
    body = [
        "mul.wide.u32 %rd2, %r0, 2;", "add.u64 %rd2, %rd2, %rd1;", "ld.global.b16 %h0, [%rd2];",
        f"cvt.rn{relu}.f16x2.{type_}x2 %r1, %h0;", "mul.wide.u32 %rd3, %r0, 4;", "add.u64 %rd3, %rd3, %rd0;",
        "st.global.b32 [%rd3], %r1;",
    ]  # fmt: skip
    name = f"cvt_f16x2_{type_}{relu.replace('.', '_')}"
    return HopperCase(name, kernel(arguments, body), arguments, (0,), block=256)


# ---------------------------------------------------------------- warpgroups


def _products() -> list[wg.Case]:
    """Every type with its smallest and largest N, from descriptors and registers; all turns, swizzles and signs."""
    of, both = wg.Case, ((False, False), (True, False), (False, True), (True, True))
    halves = [("f32", "f16"), ("f32", "bf16"), ("f16", "f16")]
    types = [*((d, t, t) for d, t in halves), ("f32", "tf32", "tf32")]
    types += [(d, a, b) for d in ("f32", "f16") for a in ("e4m3", "e5m2") for b in ("e4m3", "e5m2")]
    types += [("s32", a, b) for a in ("s8", "u8") for b in ("s8", "u8")] + [("s32", "b1", "b1")]
    return [
        *(of(n, *t) for t in types for n in (8, 256) if n == 8 or t[1] in ("f16", "tf32", "e4m3", "s8")),
        *(of(32, *t, in_registers=True) for t in types),
        *(of(40, "f32", t, t, m, turned) for t in ("f16", "bf16") for m in range(4) for turned in both),
        *(of(64, "f32", "bf16", "bf16", m, (False, True), True) for m in range(4)),
        *(of(24, "s32", "s8", "s8", m) for m in range(4)), *(of(96, "f32", "tf32", "tf32", m) for m in range(4)),
        *(of(16, "f32", t, t, signs=s, in_registers=r)
          for t in ("f16", "tf32", "e5m2") for s in ((-1, 1), (1, -1), (-1, -1)) for r in (False, True)),
        of(16, "f32", "f16", "f16", adds=False), of(16, "f16", "f16", "f16", adds=False),
        of(16, "s32", "u8", "u8", adds=False), of(32, "s32", "s8", "u8", saturates=True),
        of(64, "f32", "f16", "f16", base=2),
    ]  # fmt: skip


def warpgroup(c: wg.Case) -> HopperCase:
    given = wg.arguments(c)
    described = np.uint64(given.describe_a), np.uint64(given.describe_b), np.uint32(c.adds)
    arguments: tuple[Argument, ...] = (given.shared, given.sums, given.held, *described)
    how = f"{'r' if c.in_registers else 's'}{c.turned[0]:d}{c.turned[1]:d}{c.mode}{c.signs[0]:+d}{c.signs[1]:+d}"
    extras = f"{'' if c.adds else '_alone'}{'_sat' if c.saturates else ''}{'_base' if c.base else ''}"
    name = f"wgmma_n{c.n}_{c.d}_{c.a}_{c.b}_{how}{extras}"
    return HopperCase(name, wg.program(c), arguments, (1,), shared_bytes=65536)


def cases() -> list[HopperCase]:
    """All of them."""
    return [
        *map(loaded, LOADS), *map(stored, STORES),
        *(stored(Box(t, t, (18, 9), (16, 4), (16 // ELEMENTS[t].nbytes, 7)), operation)
          for operation, t in REDUCTIONS),
        bulk("bytes", 256, 0, 0), bulk("bytes_apart", 48, 16, 80), bulk_out("bytes_out", 272),
        *(bulk_out(f"bytes_{o}_{t}", 128, o, t) for o, t in BULK_REDUCTIONS),
        *(cast(n, mask, tensor=t) for n, mask in ((2, 3), (2, 2), (4, 15), (4, 10)) for t in (False, True)),
        *(make(n) for n in (2, 4) for make in (to_neighbour, distributed, remote_arrivals)),
        objects(), *(stmatrix(n, t) for n in (1, 2, 4) for t in ("", ".trans")), elected(), registers(),
        *(to_eight_bits(t, o, r) for t in ("e4m3", "e5m2") for o in ("f32", "f16x2") for r in ("", ".relu")),
        *(from_eight_bits(t, r) for t in ("e4m3", "e5m2") for r in ("", ".relu")),
        *map(warpgroup, dict.fromkeys(_products())),
    ]  # fmt: skip


def faults() -> list[HopperCase]:
    """Cases at which a GPU stops with an error: the simulator says what is wrong."""
    return [
        *map(loaded, UNALIGNED), *map(stored, UNALIGNED), *map(stored, BEFORE),
        *(stored(box, "add") for box in (UNALIGNED[3], *BEFORE[:5])),
    ]  # fmt: skip
