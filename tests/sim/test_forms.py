"""Every form of the PTX ISA: executed on both sides, or refused with its name and a reason.

`data/ptx_forms.txt` has a line of PTX for each form of PTX ISA 9.0 up to sm_90a, and what newer GPUs have besides.
Lines that begin with "- " are refused. ptxas, where it is there, has the last word on which of them exist.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from ptxsim import Memory, oracle, parse
from ptxsim.codegen.translation import Options, translate
from ptxsim.errors import KernelTrap, PtxSyntaxError, UnsupportedInstruction
from ptxsim.isa import INSTRUCTIONS, REFUSED
from ptxsim.tensormap import TensorMapError

DATA = Path(__file__).parent / "data" / "ptx_forms.txt"
NEWER = "What only newer GPUs have"
THREADS = 128
HEAD = """.version 9.0
.target sm_90a
.address_size 64
.global .align 16 .b32 global_words[1024];
.const .align 16 .b32 constant_words[64];
.func nothing() { ret; }
.func (.param .b32 r) twice(.param .b32 a)
{ .reg .b32 %r<3>; ld.param.b32 %r1, [a]; add.u32 %r2, %r1, %r1; st.param.b32 [r], %r2; ret; }
.visible .entry k(.param .u64 argument, .param .u64 more)
{
.shared .align 128 .b32 shared_words[1024];
.local .align 16 .b32 local_words[32];
.reg .pred %p<8>; .reg .b16 %h<12>; .reg .b32 %r<200>; .reg .b64 %d<40>; .reg .b128 %q<5>;
"""
BYTES = ".reg .b8 %b<8>;"


def _sections() -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for line in DATA.read_text(encoding="utf-8").splitlines():
        if line.startswith("# "):
            lines = found[line[2:]] = []
        elif line:
            lines.append(line)
    return found


SECTIONS = _sections()
IN_SECTIONS = pytest.mark.parametrize("section", SECTIONS)


def text(*lines: str) -> str:
    declared = BYTES if any("%b" in line for line in lines) else ""
    names = sorted(set(re.findall(r"%[rd]\d+", " ".join(lines))))  # counts and places of what is tried are zero
    zeros = "".join(f"mov.b{32 if name[1] == 'r' else 64} {name}, 0;\n" for name in names)
    return HEAD + declared + zeros + "\n".join(f"{{ {line} }}" for line in lines) + "\nret;\n}\n"


def execute(*lines: str) -> None:
    """Parses the lines as one kernel, makes IR of it for whole and for parted warps, and runs it on the oracle."""
    kernel, memory = parse(text(*lines)).kernel("k"), Memory()
    translate(kernel.body, (THREADS, 1, 1), Options()).masked()
    try:
        with np.errstate(all="ignore"):
            oracle.run(kernel, 1, THREADS, [memory.allocate(4096), np.uint64(0)], memory)
    except (KernelTrap, TensorMapError):  # its handle or its map is 0: it has been executed
        pass


@IN_SECTIONS
@pytest.mark.thinned(5)
def test_every_form_is_executed_or_refused_in_words(section):
    for line in SECTIONS[section]:
        if not line.startswith("- "):
            execute(line)
            continue
        with pytest.raises((UnsupportedInstruction, PtxSyntaxError)) as caught:
            execute(line[2:])
        message = caught.value.message
        assert "no handler" not in message, line
        named = re.search(r"[a-z]\w+\.[\w:.]+|%\w+|'\.b8'", message)
        assert named, message
        assert named[0].strip("'%.")[:20] in line or "%b" in line, message


@pytest.mark.skipif(shutil.which("ptxas") is None, reason="needs ptxas")
def test_ptxas_knows_every_form_and_none_of_the_newer_ones(tmp_path):
    lines = [line.removeprefix("- ") for name, own in SECTIONS.items() if name != NEWER for line in own]
    assert not _problems(tmp_path, lines)
    newer = [line.removeprefix("- ") for line in SECTIONS[NEWER]]
    assert all(line.startswith("- ") for line in SECTIONS[NEWER])
    assert len(_problems(tmp_path, newer)) >= len(newer)


def _problems(folder: Path, lines: list[str]) -> list[str]:
    (folder / "forms.ptx").write_text(text(*lines), encoding="utf-8")
    command = ["ptxas", "-arch", "sm_90a", "-o", str(folder / "forms.cubin"), str(folder / "forms.ptx")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return re.findall(r"line \d+; (?:error|fatal) .*", done.stdout + done.stderr)


def test_every_opcode_has_a_form():
    """Opcodes that are executed, and those that are refused."""
    written = {
        word.split(".")[0] for own in SECTIONS.values() for line in own for word in re.findall(r"[a-z]\w+", line)
    }
    assert INSTRUCTIONS.keys() | {name for name in REFUSED if "." not in name} <= written


def test_what_is_refused_says_why():
    for name, row in REFUSED.items():
        assert row.what and row.why, name
        opcode, *modifier = name.split(".")
        assert (opcode in INSTRUCTIONS) == bool(modifier), name


@pytest.mark.parametrize(
    "version, line, wanted",
    [
        ("8.3", "m64n8k32.s32.s8.u8", r"PTX ISA 8\.4"), ("8.3", "m64n8k32.s32.s8.s8", ""),
        ("8.4", "m64n8k32.s32.s8.u8", ""),
    ],
)  # fmt: skip
def test_mixed_bytes_of_wgmma_need_a_version(version, line, wanted):
    made = text(f"wgmma.mma_async.sync.aligned.{line} {{%r1, %r2, %r3, %r4}}, %d1, %d2, %p1;")
    made = made.replace(".version 9.0", f".version {version}")
    if not wanted:
        parse(made).kernel("k")
        return
    with pytest.raises(UnsupportedInstruction, match=wanted):
        parse(made).kernel("k")


@pytest.mark.parametrize("operation", ["load.store.a", "mma.load", "mma.store"])
def test_a_matrix_instruction_does_one_thing(operation):
    with pytest.raises(UnsupportedInstruction, match="this operation"):
        parse(text(f"wmma.{operation}.sync.aligned.row.row.m16n16k16.f32.f32 {{%r1}}, [%d1], %r2;")).kernel("k")


NO_BARRIERS = ("bar.sync 16;", "bar.sync 1, 7;", "barrier.arrive 99, 64;", "bar.red.popc.u32 %r1, 3, 33, %p1;")


@pytest.mark.parametrize("line", NO_BARRIERS)
def test_there_are_16_barriers_of_whole_warps(line):
    with pytest.raises(PtxSyntaxError, match=r"numbers 0 to 15|whole warps"):
        parse(text(line)).kernel("k")


@pytest.mark.skipif(shutil.which("ptxas") is None, reason="needs ptxas")
def test_ptxas_knows_no_such_barriers_either(tmp_path):
    assert len(_problems(tmp_path, list(NO_BARRIERS))) >= len(NO_BARRIERS)


def test_what_only_hopper_has_says_how_to_compile_for_it():
    text = ".version 8.3\n.target sm_80\n.address_size 64\n.visible .entry k()\n{\n    WHAT\n    ret;\n}\n"
    with pytest.raises(UnsupportedInstruction, match=r"sm_80 has no 'barrier\.cluster\.arrive'") as error:
        parse(text.replace("WHAT", "barrier.cluster.arrive;")).kernel("k")
    assert "Target: sm_90a" in error.value.next_step
    with pytest.raises(UnsupportedInstruction, match=r"does not execute 'multimem\.red") as error:
        parse(text.replace("WHAT", "multimem.red.add.u32 [0], 1;")).kernel("k")
    assert "Target" not in error.value.next_step
