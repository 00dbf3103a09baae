"""How tensor cores add: many small products with chosen numbers, recorded from a GPU.

    python benchmarks/tensor_sums.py record FOLDER     on a machine with the GPU: what it computed, as FOLDER/KIND.npy
    python benchmarks/tensor_sums.py compare FOLDER    the model of `ptxsim.oracle.silicon_sums` against that record

Inputs follow from a seed, so that a record holds nothing but results. A kind is an instruction with its types.
"""

from __future__ import annotations

import argparse
import json
import zlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ptxsim.adders import FORMATS
from ptxsim.fragments import ELEMENT_BITS, Fragment, dimensions, fragment
from ptxsim.oracle import silicon_sums

FAMILIES = (
    "normal", "normal with sum", "wide", "wide with sum", "cancelling", "cancelling with sum", "subnormal",
    "few powers",
)  # fmt: skip
"""What numbers a tile holds: its number modulo eight."""
RESULTS = Path(__file__).parent / "results" / "tensor_sums_h200.json"


@dataclass(frozen=True)
class Kind:
    """A matrix instruction: `mma` of a warp, or `wgmma` of a warpgroup with eight columns."""

    instruction: str
    shape: str
    d: str
    ab: str

    @property
    def name(self) -> str:
        return f"{self.instruction}_{self.shape}_{self.d}_{self.ab}"

    @property
    def rows(self) -> int:
        return 64 if self.instruction == "wgmma" else 16

    @property
    def k(self) -> int:
        return dimensions(self.shape)[2]

    def held(self, operand: str) -> Fragment:
        type_ = self.ab if operand in "ab" else self.d
        return fragment(self.instruction, self.shape, type_, operand)


KINDS = [
    *(Kind("mma", "m16n8k16", d, ab) for d, ab in (("f32", "f16"), ("f32", "bf16"), ("f16", "f16"))),
    *(Kind("mma", "m16n8k8", d, ab) for d, ab in (("f32", "f16"), ("f32", "bf16"), ("f16", "f16"), ("f32", "tf32"))),
    Kind("mma", "m16n8k4", "f32", "tf32"),
    *(Kind("wgmma", "m16n8k16", d, ab) for d, ab in (("f32", "f16"), ("f32", "bf16"), ("f16", "f16"))),
    Kind("wgmma", "m16n8k8", "f32", "tf32"),
    *(Kind("wgmma", "m16n8k32", d, ab) for d, ab in (("f32", "e4m3"), ("f32", "e5m2"), ("f16", "e4m3"))),
]  # fmt: skip


# ---------------------------------------------------------------- numbers


def encoded(x: np.ndarray, type_: str) -> np.ndarray:
    """Bits of float64 numbers in a format, cut off below, at most its largest finite number."""
    exponent_bits, fraction_bits = FORMATS[type_]
    bias = (1 << exponent_bits - 1) - 1
    largest_exponent = bias if type_ != "e4m3" else 8
    magnitude, e = np.abs(x), np.frexp(np.where(x == 0, 1, x))[1] - 1
    e = np.clip(e, 1 - bias, largest_exponent)
    units = np.floor(np.ldexp(magnitude, fraction_bits - e)).astype(np.int64)
    top = (2 << fraction_bits) - (2 if type_ == "e4m3" else 1)
    units = np.minimum(units, np.where(e == largest_exponent, top, (2 << fraction_bits) - 1))
    normal = units >> fraction_bits > 0
    bits = np.where(normal, (e + bias << fraction_bits) + units - (1 << fraction_bits), units)
    bits = bits | (x < 0).astype(np.int64) << exponent_bits + fraction_bits
    return (bits << 13 if type_ == "tf32" else bits).astype(f"u{ELEMENT_BITS[type_] // 8}")


def decoded(bits: np.ndarray, type_: str) -> np.ndarray:
    """The float64 numbers that finite bits are."""
    exponent_bits, fraction_bits = FORMATS[type_]
    raw = bits.astype(np.int64) >> (13 if type_ == "tf32" else 0)
    fraction = raw & (1 << fraction_bits) - 1
    e = raw >> fraction_bits & (1 << exponent_bits) - 1
    bias = (1 << exponent_bits - 1) - 1
    units = np.where(e > 0, fraction + (1 << fraction_bits), fraction)
    magnitude = np.ldexp(units.astype(float), np.maximum(e, 1) - bias - fraction_bits)
    return np.where(raw >> exponent_bits + fraction_bits & 1, -magnitude, magnitude)


def inputs(kind: Kind, tiles: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Bits of A (tiles, rows, k), B (tiles, k, 8) and C (tiles, rows, 8)."""
    rng = np.random.default_rng(zlib.crc32(kind.name.encode()))
    families = np.arange(tiles) % len(FAMILIES)
    a, b = np.zeros((tiles, kind.rows, kind.k)), np.zeros((tiles, kind.k, 8))
    c = np.zeros((tiles, kind.rows, 8))
    reach = {"f16": 6, "bf16": 18, "tf32": 18, "e4m3": 3, "e5m2": 6}[kind.ab]
    low = {"f16": -23, "bf16": -75, "tf32": -75, "e4m3": -8, "e5m2": -15}[kind.ab]
    for number, family in enumerate(FAMILIES):
        at = families == number
        n = int(at.sum())
        shapes = [(n, *x.shape[1:]) for x in (a, b, c)]
        x, y, z = (rng.standard_normal(s) for s in shapes)
        if family.startswith("wide"):
            x, y = (v * 2.0 ** rng.integers(-reach, reach + 1, v.shape) for v in (x, y))
            z *= 2.0 ** rng.integers(-2 * reach, 2 * reach + 1, z.shape)
        elif family.startswith("cancelling"):  # A's neighbours cancel but for their last bits; B is powers of two
            x[..., 1::2] = -x[..., ::2] * (1 + 2.0 ** -rng.integers(3, 14, x[..., ::2].shape))
            x = np.take_along_axis(x, rng.permuted(np.broadcast_to(np.arange(kind.k), x.shape), axis=-1), axis=-1)
            y = np.broadcast_to(2.0 ** rng.integers(-1, 2, (n, 1, 8)), y.shape)
            z *= 2.0 ** rng.integers(-16, 5, z.shape)
        elif family == "subnormal":
            x, y = (v * 2.0 ** rng.integers(low, low + 8, v.shape) for v in (x, y))
            z *= 2.0 ** rng.integers(2 * low - 4, 2 * low + 12, z.shape)
        elif family == "few powers":
            x = np.where(rng.random(x.shape) < 0.3, np.sign(x) * 2.0 ** rng.integers(-reach, reach + 1, x.shape), 0)
            y = np.where(rng.random(y.shape) < 0.8, np.sign(y) * 2.0 ** rng.integers(-reach, reach + 1, y.shape), 0)
            z = np.sign(z) * 2.0 ** rng.integers(-2 * reach, 2 * reach + 1, z.shape)
        if not family.endswith("sum") and family not in ("subnormal", "few powers"):
            z = np.zeros(shapes[2])
        a[at], b[at], c[at] = x, y, z
    limit = 2.0**12 if kind.d == "f16" else np.inf
    return encoded(a, kind.ab), encoded(b, kind.ab), encoded(np.clip(c, -limit, limit), kind.d)


def packed(values: np.ndarray, held: Fragment) -> np.ndarray:
    """Registers, shape (matrices, 32, registers), of matrices of elements' bits."""
    raw = values[:, held.positions[..., 0], held.positions[..., 1]].astype(np.uint64)
    shifts = np.arange(held.elements, dtype=np.uint64) * np.uint64(held.bits)
    return np.bitwise_or.reduce(raw << shifts, axis=-1).astype(np.uint32)


def unpacked(words: np.ndarray, held: Fragment) -> np.ndarray:
    """Matrices of elements' bits, of registers of shape (matrices, 32, registers)."""
    found = np.zeros((len(words), held.rows, held.columns), f"u{held.bits // 8}")
    shifts = np.arange(held.elements) * held.bits
    values = words[..., None] >> shifts.astype(np.uint32)
    found[:, held.positions[..., 0], held.positions[..., 1]] = values.astype(found.dtype)
    return found


# ---------------------------------------------------------------- the kernel


def program(kind: Kind) -> str:
    """One product a warp (or warpgroup): operands from global memory, D in place of C."""
    a, d = kind.held("a"), kind.held("d")
    group = kind.instruction == "wgmma"
    b_registers = 0 if group else kind.held("b").registers

    def names(letter: str, count: int) -> str:
        return ", ".join(f"%{letter}{k}" for k in range(count))

    def moves(letter: str, count: int, at: str) -> list[str]:
        return [f"ld.global.b32 %{letter}{k}, [{at}+{4 * k}];" for k in range(count)]

    types = f"{kind.d}.{kind.ab}.{kind.ab}"
    if group:  # B as eight columns of 32 bytes: two blocks of 8 x 16 bytes, 128 bytes apart
        tail = ", 1, 1, 0" if kind.ab in ("f16", "bf16") else ", 1, 1"
        body = [
            "mov.u32 %r4, %tid.x;", "setp.lt.u32 %p1, %r4, 64;", "mad.wide.u32 %rd6, %r1, 256, %rd2;",
            "mul.wide.u32 %rd7, %r4, 4;", "add.u64 %rd6, %rd6, %rd7;", "mov.u32 %r5, shared;",
            "shl.b32 %r6, %r4, 2;", "add.u32 %r6, %r6, %r5;",
            "@%p1 ld.global.b32 %r7, [%rd6];", "@%p1 st.shared.b32 [%r6], %r7;", "fence.proxy.async;", "bar.sync 0;",
            "shr.u32 %r5, %r5, 4;", "cvt.u64.u32 %rd8, %r5;", f"or.b64 %rd8, %rd8, {8 << 16 | 16 << 32};",
            "wgmma.fence.sync.aligned;", "setp.eq.u32 %p2, 0, 0;",
            f"wgmma.mma_async.sync.aligned.m64n8k{kind.k}.{types} "
            f"{{{names('d', d.registers)}}}, {{{names('a', a.registers)}}}, %rd8, %p2{tail};",
            "wgmma.commit_group.sync.aligned;", "wgmma.wait_group.sync.aligned 0;",
        ]  # fmt: skip
    else:
        body = [
            f"mad.wide.u32 %rd6, %r3, {4 * b_registers}, %rd2;", *moves("b", b_registers, "%rd6"),
            f"mma.sync.aligned.{kind.shape}.row.col.{types}.{kind.d} {{{names('d', d.registers)}}}, "
            f"{{{names('a', a.registers)}}}, {{{names('b', b_registers)}}}, {{{names('d', d.registers)}}};",
        ]  # fmt: skip
    lines = [
        "ld.param.u64 %rd1, [a];", "ld.param.u64 %rd2, [b];", "ld.param.u64 %rd3, [d];",
        "mov.u32 %r1, %ctaid.x;", "mov.u32 %r2, %tid.x;", "mov.u32 %r3, %ntid.x;", "mad.lo.u32 %r3, %r1, %r3, %r2;",
        f"mad.wide.u32 %rd4, %r3, {4 * a.registers}, %rd1;", f"mad.wide.u32 %rd5, %r3, {4 * d.registers}, %rd3;",
        *moves("a", a.registers, "%rd4"), *moves("d", d.registers, "%rd5"), *body,
        *(f"st.global.b32 [%rd5+{4 * k}], %d{k};" for k in range(d.registers)), "ret;",
    ]  # fmt: skip
    text = "\n    ".join(lines)
    return f"""
.version 8.0
.target sm_90a
.address_size 64
.shared .align 1024 .b8 shared[256];
.visible .entry k(.param .u64 a, .param .u64 b, .param .u64 d)
{{
    .reg .b32 %d<8>, %a<8>, %b<8>, %r<8>;
    .reg .b64 %rd<12>;
    .reg .pred %p<3>;
    {text}
}}
"""


def operands(kind: Kind, a: np.ndarray, b: np.ndarray, c: np.ndarray) -> list[np.ndarray]:
    """The kernel's three arrays; the last is the one it writes."""
    tiles = len(a)
    if kind.instruction == "mma":
        return [packed(x, kind.held(o)) for x, o in zip((a, b, c), "abd", strict=True)]
    warps = [packed(x.reshape(tiles * 4, 16, -1), kind.held(o)) for x, o in zip((a, c), "ad", strict=True)]
    columns = np.ascontiguousarray(b.swapaxes(1, 2)).view(np.uint8).reshape(tiles, 8, 2, 16).swapaxes(1, 2)
    return [warps[0], np.ascontiguousarray(columns).view(np.uint32), warps[1]]


def results(kind: Kind, words: np.ndarray) -> np.ndarray:
    """D's bits, shape (tiles, rows, 8)."""
    return unpacked(words.reshape(-1, 32, kind.held("d").registers), kind.held("d")).reshape(-1, kind.rows, 8)


def tiles_for(kind: Kind, vectors: int) -> int:
    per_tile = 8 * kind.rows
    return -(-vectors // per_tile // len(FAMILIES)) * len(FAMILIES)


def record(folder: Path, vectors: int) -> None:
    from hopper_gpu import Gpu

    gpu = Gpu()
    folder.mkdir(exist_ok=True)
    (folder / "chip.json").write_text(json.dumps({"chip": gpu.name, "driver": gpu.driver, "vectors": vectors}))
    for kind in KINDS:
        try:
            arrays = operands(kind, *inputs(kind, tiles_for(kind, vectors)))
            function = gpu.kernel(program(kind).encode(), "k")
            places = [gpu.array(x) for x in arrays]
            block = 128 if kind.instruction == "wgmma" else 32
            tiles = tiles_for(kind, vectors)
            gpu.launch(function, tiles, block, [bytes(p) for p in places])
            found = results(kind, gpu.get(places[2], arrays[2]))
            np.save(folder / f"{kind.name}.npy", found)
            print(kind.name, found.shape, flush=True)
            for place in places:
                gpu.free(place)
        except Exception as error:  # the next kind may work: what failed is told
            print(kind.name, "failed:", error, flush=True)


def compare(folder: Path) -> dict[str, object]:
    """How much of a record the model has to the bit, by kind and family of numbers; both zeros count as one."""
    found: dict[str, object] = dict(json.loads((folder / "chip.json").read_text()))
    for kind in KINDS:
        path = folder / f"{kind.name}.npy"
        if not path.exists():
            continue
        recorded = np.load(path)
        a, b, c = inputs(kind, len(recorded))
        types = (kind.ab, kind.ab, kind.d)
        pieces = [slice(k, k + 256) for k in range(0, len(a), 256)]  # a sum has many terms: not all at once
        model = np.concatenate(
            [silicon_sums.silicon_product(a[p], b[p], c[p], types, kind.instruction) for p in pieces]
        )
        zero = np.array(0x7FFF if kind.d == "f16" else 0x7FFFFFFF, model.dtype)
        alike = (model == recorded) | ((model & zero) == 0) & ((recorded & zero) == 0)
        families = {f: float(alike[k :: len(FAMILIES)].mean()) for k, f in enumerate(FAMILIES)}
        found[kind.name] = {"sums": alike.size, "equal": float(alike.mean()), "families": families}
        print(f"{kind.name:30} {alike.size:10,} sums, {alike.mean():.6%} equal", flush=True)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["record", "compare"])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--vectors", type=int, default=1 << 20, help="how many sums of each kind")
    parser.add_argument("--write", action="store_true", help=f"write what was compared to {RESULTS.name}")
    options = parser.parse_args()
    if options.what == "record":
        record(options.folder, options.vectors)
        return
    found = compare(options.folder)
    if options.write:
        RESULTS.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
