"""Shared loads that machine code makes together: what ptxas does, what a GPU counts, and both simulators alike."""

from __future__ import annotations

import json
import random
from pathlib import Path

import numpy as np
import pytest

from ptxsim.analysis.merging import shared_requests
from ptxsim.kernel.cfg import build_kernel
from ptxsim.syntax.parse import parse
from ptxsim.syntax.program import Vector, bytes_of
from warpschool.contract import parse_contract
from warpschool.harness.launcher import Program, random_inputs
from warpschool.inspect.profile import usual_sizes

from . import engine_launch, oracle_launch

ROOT = Path(__file__).parents[2]
KERNEL = """.version 8.3
.target sm_80
.address_size 64
.visible .entry k(.param .u64 k_param_0) {{
    .shared .align 4 .b8 s[8192];
    .shared .align 4 .b8 odd[20];
    .shared .align 4 .b8 after[4096];
    .reg .pred %p<9>;
    .reg .b16 %h<99>;
    .reg .b32 %r<99>;
    .reg .f32 %f<99>;
    .reg .b64 %d<99>;
    ld.param.u64 %d0, [k_param_0];
    mov.u32 %r0, %tid.x;
    mov.u32 %r1, s;
    shl.b32 %r2, %r0, 8;
    add.s32 %r2, %r1, %r2;
{body}
    ret;
}}
"""


def _loads(text: str, first: int = 0, base: str = "%r2") -> str:
    """`0 4 v2@8 v4@16` as loads from `base`, with a reader for every register."""
    lines = []
    for item in text.split():
        kind, _, offset = item.rpartition("@")
        kind = kind or "f32"
        count = int(kind[1]) if kind[0] == "v" else 1
        bank = {"u16": "%h", "f64": "%d"}.get(kind, "%f")
        names = [f"{bank}{first + n + 1}" for n in range(count)]
        target = f"{{{', '.join(names)}}}" if count > 1 else names[0]
        type_ = f"{kind}.f32" if count > 1 else kind
        lines.append(f"ld.shared.{type_} {target}, [{base}+{offset}];")
        lines += [_reader(name) for name in names]
        first += count
    return "\n".join(lines)


def _reader(name: str) -> str:
    return f"st.global.b{ {'%h': 16, '%d': 64}.get(name[:2], 32) } [%d0], {name};"


def _requests(body: str) -> str:
    """The requests of a kernel's shared loads in their order: "width@offset" by the PTX load's own offset."""
    kernel = build_kernel(parse(KERNEL.format(body=body)), "k")
    merged, found = shared_requests(kernel), []
    for block in kernel.blocks:
        for i in block.instructions:
            if i.opcode == "ld" and i.space == "shared":
                count = len(i.operands[0].elements) if isinstance(i.operands[0], Vector) else 1
                own = [(0, bytes_of(i.type) * count)]
                for shift, nbytes in [(r.shift, r.nbytes) for r in merged[id(i)]] if id(i) in merged else own:
                    found.append(f"{nbytes}@{i.operands[1].offset + shift}")
    return " ".join(found)


LOADS = {
    "0 4 8 12": "16@0", "12 8 4 0": "16@0", "0 4": "8@0", "8 12": "8@8", "4 8": "4@4 4@8", "0 8": "4@0 4@8",
    "0 4 8": "16@0", "4 8 12": "16@0", "4 8 12 16": "16@0 4@16", "8 12 16 20": "8@8 8@16", "0 4 8 12 16": "16@0 4@16",
    "v2@0 v2@8": "16@0", "v2@8 v2@16": "8@8 8@16", "v2@0 8": "16@0", "0 4 v2@8": "16@0", "0 0 4 8 12": "16@0",
    "v4@0 12 16": "16@0 4@16", "v2@8 v4@0": "16@0", "v4@0 v4@0": "16@0", "v2@0 0 4": "8@0",
    "f64@0 f64@8": "16@0", "f64@8 f64@16": "8@8 8@16", "f64@0 8 12": "8@0 8@8",
    "u16@0 u16@2": "4@0", "u16@0 u16@2 u16@4": "8@0", "u16@0 u16@2 4": "4@0 4@4",
    "u16@0 u16@2 u16@4 u16@6 u16@8 u16@10 u16@12 u16@14": "8@0 8@8",
}  # fmt: skip
"""Loads from a base that is a multiple of 16 -> the machine's loads, read off ptxas 13.5's code for sm_80 and sm_90."""


@pytest.mark.parametrize("text", LOADS)
def test_neighbours_are_loaded_together(text):
    assert _requests(_loads(text)) == LOADS[text]


ADDRESSES = {
    "mad.lo.s32 %r9, %r0, 48, %r1;": 16,
    "mad.lo.s32 %r9, %r0, 136, %r1;": 8,
    "mad.lo.s32 %r9, %r0, 4, %r1;": 4,
    "and.b32 %r8, %r0, -4; mad.lo.s32 %r9, %r8, 4, %r1;": 16,
    "shr.u32 %r7, %r0, 2; shl.b32 %r8, %r7, 4; add.s32 %r9, %r8, %r1;": 16,
    "mov.u32 %r6, %ntid.x; mul.lo.s32 %r7, %r6, %r0; shl.b32 %r8, %r7, 2; add.s32 %r9, %r8, %r1;": 4,
    "shl.b32 %r7, %r0, 8; xor.b32 %r8, %r7, 48; add.s32 %r9, %r8, %r1;": 16,
    "shl.b32 %r8, %r0, 8; sub.s32 %r9, %r1, %r8;": 16,
    "mul.wide.u32 %d9, %r0, 16; cvt.u32.u64 %r8, %d9; add.s32 %r9, %r8, %r1;": 16,
    "shl.b32 %r7, %r0, 8; min.s32 %r8, %r7, 4096; add.s32 %r9, %r8, %r1;": 4,
    "ld.global.u32 %r8, [%d0]; add.s32 %r9, %r8, %r1;": 4,
    "mov.u32 %r8, after; mad.lo.s32 %r9, %r0, 16, %r8;": 4,  # behind 20 bytes of another array
    "shl.b32 %r7, %r0, 8; add.s32 %r8, %r7, 4; add.s32 %r9, %r8, %r1;": 4,
}
"""Address arithmetic -> the alignment that ptxas sees in it."""


@pytest.mark.parametrize("text", ADDRESSES)
def test_the_alignment_is_what_address_arithmetic_shows(text):
    seen = {16: "16@0", 8: "8@0 8@8", 4: "4@0 4@4 4@8 4@12"}[ADDRESSES[text]]
    assert _requests(text + _loads("0 4 8 12", base="%r9")) == seen


BETWEEN = {
    "st.global.u32 [%d0+64], %r0;": True,
    "shfl.sync.bfly.b32 %r8, %r0, 1, 31, -1;": True,
    "ld.volatile.shared.u32 %r8, [%r2+128];": True,
    "red.global.add.u32 [%d0], 1;": True,
    "cp.async.commit_group;": True,
    "st.shared.u32 [%r2+64], %r0;": False,
    "bar.sync 0;": False,
    "bar.warp.sync -1;": False,
    "membar.cta;": False,
    "fence.acq_rel.cta;": False,
    "atom.shared.add.u32 %r8, [%r1], 1;": False,
    "st.u32 [%d0], %r0;": False,
    "cp.async.ca.shared.global [%r1+4096], [%d0], 16;": False,
    "cp.async.wait_all;": False,
    "bar.arrive 1, 64;": False,
    "nanosleep.u32 20;": False,
}
"""What may stand between loads that become one."""


@pytest.mark.parametrize("text", BETWEEN)
def test_what_keeps_loads_apart(text):
    found = _requests(_loads("0 4") + text + _loads("8 12", first=2))
    assert found.replace(" 4@128", "") == ("16@0" if BETWEEN[text] else "8@0 8@8")


def test_addresses_are_followed_through_sums_with_constants():
    moved = "add.s32 %r9, %r2, 8; mov.u32 %r8, %r9;"
    assert _requests(moved + _loads("0 4") + _loads("0 4", first=2, base="%r8")) == "16@0"
    other = "add.s32 %r9, %r2, 8; add.s32 %r9, %r9, 16;"  # another value of the register
    assert _requests("add.s32 %r9, %r2, 8;" + _loads("0", base="%r9") + other + _loads("0", 1, "%r9")) == "4@0 4@0"


def test_a_loop_keeps_the_alignment_of_its_steps():
    for start, step, expected in ((16, 32, "16@-16"), (8, 16, "8@-16 8@-8"), (16, 4, "4@-16 4@-12 4@-8 4@-4")):
        loop = f"add.s32 %r9, %r2, {start}; L1: {_loads('-16 -12 -8 -4', base='%r9')} add.s32 %r9, %r9, {step};"
        loop += "setp.lt.s32 %p1, %r9, 4000; @%p1 bra L1;"
        assert _requests(loop) == expected


@pytest.mark.parametrize(
    ("load", "used", "others", "expected"),
    [
        ("v4", (1, 2), "", "8@0"), ("v4", (3, 4), "", "8@8"), ("v4", (1,), "", "4@0"), ("v4", (2, 3), "", "4@4 4@8"),
        ("v4", (1, 2, 3), "", "16@0"), ("v4", (1, 2, 3), "12", "16@0 4@12"), ("v4", (1, 2), "v2@8", "16@0"),
        ("v4", (1, 2), "8", "8@0 4@8"), ("v2", (1,), "4", "8@0"), ("v2", (1,), "4 8 12", "4@0 16@0"),
    ],
)  # fmt: skip
def test_what_nobody_reads_is_not_loaded(load, used, others, expected):
    """NVVM marks such loads, and ptxas leaves the others of their bytes alone."""
    body = f"ld.shared.{load}.f32 {{{', '.join(f'%f{n + 1}' for n in range(int(load[1])))}}}, [%r2];"
    assert _requests(body + "".join(_reader(f"%f{n}") for n in used) + _loads(others, first=8)) == expected


def test_equal_loads_of_which_one_word_is_read_are_one():
    twice = "ld.shared.v2.f32 {%f1, %f2}, [%r2+8]; ld.shared.v2.f32 {%f3, %f4}, [%r2+8];"
    assert _requests(twice + _reader("%f1") + _reader("%f3")) == "4@8"


def test_copies_that_go_in_a_circle_end():
    assert _requests("L1: mov.u32 %r8, %r9; mov.u32 %r9, %r8; ld.shared.f32 %f1, [%r9+4]; bra L1;") == "4@4"


# ---------------------------------------------------------------- a GPU's counters

RECORD = json.loads((ROOT / "benchmarks" / "results" / "fidelity_h200.json").read_text("utf-8"))["launches"]
COUNTED = ("shared_load_requests", "shared_load_wavefronts", "shared_load_bank_conflicts")
RAGGED = {"M": 100, "N": 75, "K": 50}
REFERENCES = ["lab02_tiling/01_tiled", "lab03_coalescing/04_gemm_bt", "lab04_bank_conflicts/03_gemm_padded",
              "lab05_work_per_thread/03_rectangular", "lab09_winograd/06_three_channels"]  # fmt: skip


@pytest.mark.parametrize("step", REFERENCES)
def test_references_count_what_a_gpu_counted(step):
    lab, name = step.split("/")
    ragged = not lab.startswith("lab09")
    case = f"{lab.split('_')[0]}/{name}{', ragged' if ragged else ''}"
    rows = [row["counters"] for row in RECORD if row["case"] == case]
    contract = parse_contract((ROOT / "solutions" / f"{step}.cu").read_text("utf-8"))
    sizes = usual_sizes(contract) | (RAGGED if ragged else {})
    run = Program(contract, device="sim").run(sizes, random_inputs(contract.bind(sizes), np.random.default_rng(3)))
    for launch, row in zip(run.launches, rows, strict=True):
        noise = row["shared_load_bank_conflicts"][1] if not ragged else 0  # arbitration: see docs/reference/fidelity.md
        assert noise < 0.01 * row["shared_load_wavefronts"][1]
        counted = [launch.counters[counter] for counter in COUNTED]
        assert counted == [row[COUNTED[0]][1], row[COUNTED[1]][1] - noise, row[COUNTED[2]][1] - noise]


# ---------------------------------------------------------------- both simulators

BASES = {
    "shl.b32 {0}, %r0, 4; and.b32 {0}, {0}, 496;": 16,
    "and.b32 {0}, %r0, 3; mul.lo.s32 {0}, {0}, 256;": 16,
    "and.b32 {0}, %r0, 7; mul.lo.s32 {0}, {0}, 136;": 8,
    "and.b32 {0}, %r0, 31; shl.b32 {0}, {0}, 2;": 4,
    "ld.global.u32 {0}, [%d1]; and.b32 {0}, {0}, 496;": 16,
    "ld.global.u32 {0}, [%d1]; and.b32 {0}, {0}, 508;": 4,
    "mov.u32 {0}, 0;": 16,
}
"""Offsets below 1,000, and by what they can be divided."""


class _Random:
    """Writes a random kernel of loads that may become one, stores among them, branches and loops around them."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.lines: list[str] = []
        self.registers = 10

    def register(self) -> str:
        self.registers += 1
        return f"%r{self.registers}"

    def base(self) -> tuple[str, int]:
        text, align = self.random.choice(list(BASES.items()))
        name = self.register()
        self.lines += [text.format(name), f"add.s32 {name}, {name}, %r1;"]
        return name, align

    def load(self, base: str, align: int) -> None:
        kind, size = self.random.choice([("u32", 4)] * 4 + [("v2.u32", 8)] * 2 + [("v4.u32", 16)])
        if size > align:
            kind, size = "u32", 4
        names = [self.register() for _ in range(size // 4)]
        target = f"{{{', '.join(names)}}}" if len(names) > 1 else names[0]
        self.lines.append(f"ld.shared.{kind} {target}, [{base}+{size * self.random.randrange(48 // size)}];")
        read = names if self.random.random() < 0.8 else names[: len(names) // 2 or 1]
        self.lines += [f"xor.b32 %r5, %r5, {name};" for name in read]

    def stretch(self, base: str, align: int) -> None:
        for _ in range(self.random.randint(2, 9)):
            self.load(base, align)
            if self.random.random() < 0.15:
                own = "st.shared.u32 [%r6], %r5;"
                self.lines.append(self.random.choice([own, "st.global.u32 [%d1], %r0;", "membar.cta;"]))

    def ptx(self, threads: int) -> str:
        for number in range(4):
            base, align = self.base()
            shape = self.random.choice(["plain", "branch", "loop"])
            if shape == "branch":
                bit = self.random.choice([1, 4, 32])
                self.lines += [f"and.b32 %r7, %r0, {bit};", "setp.eq.s32 %p1, %r7, 0;", f"@%p1 bra L{number};"]
            elif shape == "loop":
                self.lines += ["mov.u32 %r8, 0;", f"L{number}:"]
            self.stretch(base, align)
            if shape == "branch":
                self.lines.append(f"L{number}:")
            elif shape == "loop":
                self.lines += [f"add.s32 {base}, {base}, 16;", "add.s32 %r8, %r8, 1;", "setp.lt.s32 %p2, %r8, 3;"]
                self.lines.append(f"@%p2 bra L{number};")
        body = "\n    ".join(self.lines)
        fill = "\n    ".join(f"st.shared.u32 [%r9+{4 * threads * n}], %r9;" for n in range(-(-2048 // (4 * threads))))
        return f""".version 8.3
.target sm_80
.address_size 64
.visible .entry k(.param .u64 k_param_0) {{
    .shared .align 4 .b8 s[8192];
    .reg .pred %p<4>;
    .reg .b32 %r<{self.registers + 1}>;
    .reg .b64 %d<4>;
    ld.param.u64 %d0, [k_param_0];
    mov.u32 %r0, %tid.x;
    mov.u32 %r1, s;
    mul.wide.u32 %d1, %r0, 4;
    add.u64 %d1, %d0, %d1;
    mov.u32 %r5, 0;
    mad.lo.s32 %r9, %r0, 4, %r1;
    add.s32 %r6, %r9, 4096;
    {fill}
    bar.sync 0;
    {body}
    st.global.u32 [%d1], %r5;
    ret;
}}
"""


@pytest.mark.parametrize("seed", [*range(12), *(pytest.param(s, marks=pytest.mark.slow) for s in range(12, 300))])
@pytest.mark.thinned(3)
def test_both_simulators_count_the_same(seed):
    threads = (32, 64, 50)[seed % 3]
    ptx = _Random(seed).ptx(threads)
    x = np.random.default_rng(seed).integers(0, 1 << 20, threads).astype(np.uint32)
    expected = oracle_launch.launch(ptx, "k", (1,), (threads,), x)
    counted = {n: c for n, c in expected.counters.items() if n.startswith("shared")}
    assert counted["shared_load_requests"]
    for options in ({}, {"parted": True}, {"check": False}):
        ours = engine_launch.launch(ptx, "k", (1,), (threads,), x, **options)
        assert (ours.arrays[0] == expected.arrays[0]).all()
        assert {n: ours.counters.get(n, 0) for n in counted} == counted, f"{options}\n{ptx}"
