"""Products of warpgroups in every kind of shape, type, layout and source: operands, their places, and a kernel."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ptxsim.fragments import ELEMENT_BITS, Fragment, fragment
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
    Case(128, "f32", "f16", "f16", 1, (False, True), base=2),
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


def product(case: Case, d: Fragment, a: Fragment) -> list[str]:
    """D and A into registers, one product, D back."""
    names = [f"%d{k}" for k in range(d.registers)]
    held = [f"%a{k}" for k in range(a.registers)]
    tail = "" if case.a in ("s8", "u8", "b1") else f", {case.signs[0]}, {case.signs[1]}"
    if case.a in ("f16", "bf16"):
        tail += f", {int(case.turned[1])}" if case.in_registers else f", {int(case.turned[0])}, {int(case.turned[1])}"
    form = f"{'.satfinite' * case.saturates}{'.and.popc' * (case.a == 'b1')}"
    source = "{" + ", ".join(held) + "}" if case.in_registers else "%rd4"
    return [
        *(f"ld.global.b32 {name}, [%rd6+{4 * k}];" for k, name in enumerate(names)),
        *(f"ld.global.b32 {name}, [%rd7+{4 * k}];" for k, name in enumerate(held) if case.in_registers),
        "wgmma.fence.sync.aligned;",
        f"wgmma.mma_async.sync.aligned.m64n{case.n}k{case.k}.{case.d}.{case.a}.{case.b}{form}"
        f" {{{', '.join(names)}}}, {source}, %rd5, %p1{tail};",
        "wgmma.commit_group.sync.aligned;", "wgmma.wait_group.sync.aligned 0;",
        *(f"st.global.b32 [%rd6+{4 * k}], {name};" for k, name in enumerate(names)),
    ]  # fmt: skip


def program(case: Case) -> str:
    """A kernel that fills shared memory and multiplies."""
    shape = f"m16n{case.n}k{case.k}"
    d, a = fragment("wgmma", shape, case.d, "d"), fragment("wgmma", shape, case.a, "a")
    return f"""
.version 8.4
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
    shr.u32 %r7, %r3, 4;  // a GPU's shared memory does not begin at 0
    cvt.u64.u32 %rd10, %r7;
    add.u64 %rd4, %rd4, %rd10;
    add.u64 %rd5, %rd5, %rd10;
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
    {" ".join(product(case, d, a))}
    ret;
}}
"""


def packed(values: np.ndarray, held: Fragment, first: int) -> np.ndarray:
    """Registers of a warp's fragment, from row `first` on, of raw elements: shape (32, registers), 32-bit words."""
    raw = values[held.positions[..., 0] + first, held.positions[..., 1]].astype(np.uint64)
    shifts = np.arange(raw.shape[2], dtype=np.uint64) * np.uint64(held.bits)
    return np.asarray(np.bitwise_or.reduce(raw << shifts, axis=-1).astype(np.uint32))


@dataclass(frozen=True)
class Arguments:
    """What a case's kernel is given, and the numbers it is made of."""

    shared: np.ndarray
    sums: np.ndarray
    """D's registers; the kernel writes them"""
    held: np.ndarray
    """A's registers"""
    describe_a: int
    describe_b: int
    a: np.ndarray
    b: np.ndarray
    start: np.ndarray


def arguments(case: Case) -> Arguments:
    """Seeded inputs of a case."""
    rng = np.random.default_rng(5)
    shape = f"m16n{case.n}k{case.k}"
    held_d, held_a = fragment("wgmma", shape, case.d, "d"), fragment("wgmma", shape, case.a, "a")
    raw_a, a = elements(case, "a", 64, rng)
    raw_b, b = elements(case, "b", case.n, rng)
    shared = np.zeros(65536, np.uint8)
    describe_a = 0 if case.in_registers else placed(shared, 0, raw_a, case, case.turned[0])
    describe_b = placed(shared, 16384, raw_b, case, case.turned[1])
    start = rng.integers(-8, 9, (64, case.n))
    number = {"f32": np.float32, "f16": np.float16, "s32": np.int32}[case.d]
    d_bits = np.asarray(start.astype(number)).view(np.uint16 if case.d == "f16" else np.uint32)
    size = max(1, ELEMENT_BITS[case.a] // 8)
    a_bits: np.ndarray = raw_a.view(f"u{size}")
    if case.a == "b1":
        a_bits = np.unpackbits(raw_a, axis=1, bitorder="little")
    registers = np.concatenate([packed(d_bits, held_d, 16 * w) for w in range(4)])
    words = np.concatenate([packed(a_bits, held_a, 16 * w) for w in range(4)])
    return Arguments(shared, registers, words, describe_a, describe_b, a, b, start)
