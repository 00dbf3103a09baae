"""wgmma in every kind of shape, type, layout and source: engine and oracle agree bit for bit, and with NumPy."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

import ptxsim
from ptxsim import oracle
from ptxsim.fragments import ELEMENT_BITS, fragment
from ptxsim.tensormap import swizzled

SWIZZLES = {0: 0, 1: 128, 2: 64, 3: 32}
"""By the two bits of a descriptor: bytes of a row."""
DEPTHS = {"f16": 16, "bf16": 16, "tf32": 8, "e4m3": 32, "e5m2": 32, "s8": 32, "u8": 32, "b1": 256}


@dataclass(frozen=True)
class Case:
    n: int
    d: str
    a: str
    b: str
    mode: int = 1
    turned: tuple[bool, bool] = (False, False)
    in_registers: bool = False
    signs: tuple[int, int] = (1, 1)
    adds: bool = True
    saturates: bool = False
    base: int = 0

    @property
    def k(self) -> int:
        return DEPTHS[self.a]


CASES = [
    *[Case(n, "f32", "f16", "f16", mode) for n in (8, 24, 64, 256) for mode in (0, 1, 2, 3)],
    *[Case(64, "f32", "f16", "f16", mode, turned) for mode in range(4) for turned in ((True, False), (False, True))],
    Case(128, "f32", "bf16", "bf16", 1, (True, True)), Case(40, "f16", "f16", "f16"),
    Case(64, "f32", "f16", "f16", in_registers=True), Case(64, "f32", "bf16", "bf16", 2, (False, True), True),
    Case(32, "f32", "tf32", "tf32"), Case(32, "f32", "tf32", "tf32", in_registers=True),
    *[Case(48, d, a, b) for d in ("f32", "f16") for a, b in (("e4m3", "e5m2"), ("e5m2", "e4m3"))],
    Case(64, "f32", "e4m3", "e4m3", in_registers=True),
    *[Case(32, "s32", a, b, saturates=s) for a, b, s in (("s8", "u8", False), ("u8", "s8", True), ("s8", "s8", True))],
    Case(24, "s32", "u8", "u8", in_registers=True), Case(16, "s32", "b1", "b1"),
    Case(16, "s32", "b1", "b1", in_registers=True),
    Case(64, "f32", "f16", "f16", signs=(-1, 1)), Case(64, "f32", "f16", "f16", signs=(-1, -1), in_registers=True),
    Case(64, "f32", "f16", "f16", adds=False), Case(64, "f32", "f16", "f16", base=2),
]  # fmt: skip


def elements(case: Case, operand: str, rows: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """(raw bytes of every row's k elements, their values): shapes (rows, 32) and (rows, k)."""
    type_ = case.a if operand == "a" else case.b
    count = case.k
    if type_ in ("f16", "bf16", "tf32"):
        values = rng.integers(-64, 65, (rows, count)) / 16
        if type_ == "f16":
            return values.astype(np.float16).view(np.uint8), values
        single = values.astype(np.float32)
        if type_ == "tf32":
            return single.view(np.uint8), values
        return (single.view(np.uint32) >> 16).astype(np.uint16).view(np.uint8), values
    raw = rng.integers(0, 256, (rows, 32), np.uint8)
    if type_ == "b1":
        return raw, np.unpackbits(raw, axis=1, bitorder="little").astype(np.int64)
    if type_ in ("s8", "u8"):
        return raw, raw.view(np.int8 if type_ == "s8" else np.uint8).astype(np.int64)
    raw &= 0xBF  # no large numbers, no NaN
    bits, bias = (3, 7) if type_ == "e4m3" else (2, 15)
    exponent, fraction = (raw & 0x7F) >> bits, (raw & (1 << bits) - 1) / (1 << bits)
    magnitude = np.where(
        exponent > 0, 2.0 ** (exponent.astype(float) - bias) * (1 + fraction), 2.0 ** (1 - bias) * fraction
    )
    return raw, np.where(raw >> 7, -magnitude, magnitude)


def placed(memory: np.ndarray, start: int, raw: np.ndarray, case: Case, turned: bool) -> int:
    """Puts an operand into shared memory as the PTX ISA's canonical layouts have it; its descriptor."""
    rows, width = len(raw), SWIZZLES[case.mode]
    size = max(1, ELEMENT_BITS[case.a] // 8)
    pitch = width or 16
    if turned:
        across = pitch // 2  # elements of a row that lie together
        leading, stride = (8 * pitch * (case.k // 8), 8 * pitch) if width else (128 * (rows // 8), 128)
    else:
        leading, stride = (16, 8 * pitch) if width else (128, 256)
    for r in range(rows):
        for byte in range(32):
            k = byte // size
            if not turned:
                at = r % 8 * pitch + r // 8 * stride + (byte if width else byte // 16 * leading + byte % 16)
            elif width:
                at = r % across * 2 + r // across * leading + k % 8 * pitch + k // 8 * stride
            else:
                at = r % 8 * 2 + r // 8 * stride + k % 8 * 16 + k // 8 * leading
            at += byte % size if turned else 0
            row = 128 * case.base  # a pattern that begins so many rows later
            memory[start + (swizzled(at, width) if width else at) + row] = raw[r, byte]
    address = start + 128 * case.base
    return address >> 4 | leading >> 4 << 16 | stride >> 4 << 32 | case.base << 49 | case.mode << 62


def program(case: Case) -> str:
    d, a = (
        fragment("wgmma", f"m16n{case.n}k{case.k}", case.d, "d"),
        fragment("wgmma", f"m16n{case.n}k{case.k}", case.a, "a"),
    )
    names = [f"%d{k}" for k in range(d.registers)]
    held = [f"%a{k}" for k in range(a.registers)]
    tail = "" if case.a in ("s8", "u8", "b1") else f", {case.signs[0]}, {case.signs[1]}"
    if case.a in ("f16", "bf16"):
        tail += f", {int(case.turned[1])}" if case.in_registers else f", {int(case.turned[0])}, {int(case.turned[1])}"
    form = f"{'.satfinite' * case.saturates}{'.and.popc' * (case.a == 'b1')}"
    source = "{" + ", ".join(held) + "}" if case.in_registers else "%rd4"
    lines = [
        *(f"ld.global.b32 {name}, [%rd6+{4 * k}];" for k, name in enumerate(names)),
        *(f"ld.global.b32 {name}, [%rd7+{4 * k}];" for k, name in enumerate(held) if case.in_registers),
        "wgmma.fence.sync.aligned;",
        f"wgmma.mma_async.sync.aligned.m64n{case.n}k{case.k}.{case.d}.{case.a}.{case.b}{form}"
        f" {{{', '.join(names)}}}, {source}, %rd5, %p1{tail};",
        "wgmma.commit_group.sync.aligned;", "wgmma.wait_group.sync.aligned 0;",
        *(f"st.global.b32 [%rd6+{4 * k}], {name};" for k, name in enumerate(names)),
    ]  # fmt: skip
    return f"""
.version 8.0
.target sm_90a
.address_size 64
.extern .shared .align 1024 .b8 shared[];
.visible .entry k(.param .u64 memory, .param .u64 sums, .param .u64 held, .param .u64 a, .param .u64 b,
                  .param .u32 adds)
{{
    .reg .b32 %d<{d.registers}>, %a<{a.registers}>, %r<8>;
    .reg .b64 %rd<12>;
    .reg .pred %p<3>;
    ld.param.u64 %rd1, [memory];
    ld.param.u64 %rd2, [sums];
    ld.param.u64 %rd3, [held];
    ld.param.u64 %rd4, [a];
    ld.param.u64 %rd5, [b];
    ld.param.u32 %r1, [adds];
    setp.ne.u32 %p1, %r1, 0;
    mov.u32 %r2, %tid.x;
    mad.wide.u32 %rd6, %r2, {4 * d.registers}, %rd2;
    mad.wide.u32 %rd7, %r2, {4 * a.registers}, %rd3;
    mov.u32 %r3, shared;
    shl.b32 %r4, %r2, 2;
COPY:
    cvt.u64.u32 %rd8, %r4;
    add.u64 %rd9, %rd1, %rd8;
    ld.global.b32 %r5, [%rd9];
    add.u32 %r6, %r3, %r4;
    st.shared.b32 [%r6], %r5;
    add.u32 %r4, %r4, 512;
    setp.lt.u32 %p2, %r4, 65536;
    @%p2 bra COPY;
    fence.proxy.async;
    bar.sync 0;
    {" ".join(lines)}
    ret;
}}
"""


def packed(values: np.ndarray, held: object, rows: np.ndarray) -> np.ndarray:
    """Registers of a warp's fragment from raw elements, shape (32, registers), as 32-bit words."""
    bits = held.bits  # type: ignore[attr-defined]
    raw = values[held.positions[..., 0] + rows, held.positions[..., 1]].astype(np.uint64)  # type: ignore[attr-defined]
    shifts = np.arange(raw.shape[2], dtype=np.uint64) * np.uint64(bits)
    return np.bitwise_or.reduce(raw << shifts, axis=-1).astype(np.uint32)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_engine_oracle_and_numpy_agree(case: Case):
    rng = np.random.default_rng(5)
    shape = f"m16n{case.n}k{case.k}"
    held_d, held_a = fragment("wgmma", shape, case.d, "d"), fragment("wgmma", shape, case.a, "a")
    raw_a, a = elements(case, "a", 64, rng)
    raw_b, b = elements(case, "b", case.n, rng)
    shared = np.zeros(65536, np.uint8)
    describe_a = 0 if case.in_registers else placed(shared, 0, raw_a, case, case.turned[0])
    describe_b = placed(shared, 16384, raw_b, case, case.turned[1])
    start = rng.integers(-8, 9, (64, case.n))
    d_bits = {
        "f32": start.astype(np.float32).view(np.uint32), "f16": start.astype(np.float16).view(np.uint16),
        "s32": start.astype(np.int32).view(np.uint32),
    }[case.d]  # fmt: skip
    size = max(1, ELEMENT_BITS[case.a] // 8)
    a_bits = raw_a.view(f"u{size}") if case.a != "b1" else np.unpackbits(raw_a, axis=1, bitorder="little")
    registers = np.concatenate([packed(d_bits, held_d, 16 * w) for w in range(4)])
    words = np.concatenate([packed(a_bits, held_a, 16 * w) for w in range(4)])
    kernel = ptxsim.parse(program(case)).kernel("k")
    found = []
    for how in ("full", "masked", "oracle"):
        memory = ptxsim.Memory()
        arrays = [memory.allocate(x.nbytes, "x") for x in (shared, registers, words)]
        for array, x in zip(arrays, (shared, registers, words), strict=True):
            array.view()[:] = np.ascontiguousarray(x).reshape(-1).view(np.uint8)
        params = (*arrays, np.uint64(describe_a), np.uint64(describe_b), np.uint32(case.adds))
        if how == "oracle":
            counters = oracle.run(kernel, 1, 128, params, memory, shared_bytes=65536).counters
        else:
            record = kernel.launch(1, 128, params, memory, shared_bytes=65536, parted=how == "masked")
            assert not record.hazards
            counters = record.counters
        found.append((arrays[1].view().copy(), {n: v for n, v in counters.items() if n.startswith("tensor")}))
    assert found[0][1] == found[1][1] == found[2][1] and found[0][1]["tensor_instructions"] == 4
    assert (found[0][0] == found[1][0]).all() and (found[0][0] == found[2][0]).all()
    wanted = (a * case.signs[0]) @ (b * case.signs[1]).T + (start if case.adds else 0)
    words_d = found[0][0].view(np.uint32).reshape(4, 32, -1)
    element = {"f32": np.float32, "f16": np.float16, "s32": np.int32}[case.d]
    result = np.zeros((64, case.n))
    for w in range(4):
        values = words_d[w].reshape(32, -1, 1).view(element)[..., : held_d.elements]
        result[held_d.positions[..., 0] + 16 * w, held_d.positions[..., 1]] = values
    tolerance = {"f32": 1e-5, "f16": 2e-3, "s32": 0}[case.d] * max(1.0, np.abs(wanted).max())
    assert np.abs(result - wanted).max() <= tolerance
