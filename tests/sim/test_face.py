"""The simulator as a library of its own: what it needs, what it shows, and the example of its README."""

from __future__ import annotations

import re
import struct
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest

import ptxsim
from ptxsim.errors import LaunchError, UnsupportedInstruction

from .oracle_launch import entry

SOURCE = Path(ptxsim.__file__).parents[1]
README = (SOURCE / "ptxsim" / "README.md").read_text("utf-8")
EXAMPLE = re.search(r"```python\n(.*?)```", README, re.DOTALL)[1]
PTX = re.search(r'PTX = """\n(.*?)"""', EXAMPLE, re.DOTALL)[1]
FORBID = """
import sys
from importlib.abc import MetaPathFinder

class Forbidden(MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {forbidden!r}:
            raise ImportError(f"{{name}} is forbidden here")

sys.meta_path.insert(0, Forbidden())
sys.path.insert(0, {source!r})
"""


def run_without(forbidden: set[str], code: str, tmp_path: Path) -> str:
    """What a program prints in a fresh process in which these packages cannot be imported."""
    text = FORBID.format(forbidden=forbidden, source=str(SOURCE)) + textwrap.dedent(code)
    environment = {"WARPSCHOOL_CACHE": str(tmp_path), "PATH": ""}
    done = subprocess.run(
        [sys.executable, "-P", "-c", text], capture_output=True, text=True, cwd=tmp_path, env=environment
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


OURS = {"warpschool", "warpcourse"}


def test_the_example_of_the_readme_does_what_it_says(tmp_path):
    printed = run_without(OURS, EXAMPLE, tmp_path).splitlines()
    said = [text.removesuffix("...").strip() for text in re.findall(r"\)\s+# (.+)", EXAMPLE)]
    assert len(printed) == len(said) == 3
    for line, beginning in zip(printed, said, strict=True):
        assert line.startswith(beginning)


def test_importing_it_loads_nothing_heavy(tmp_path):
    code = """
    import ptxsim
    assert not {"numpy", "llvmlite", "ctypes"} & sys.modules.keys(), "loaded early"
    print(*sorted(name for name in sys.modules if name.startswith("ptxsim")))
    """
    assert run_without(OURS, code, tmp_path).split() == ["ptxsim", "ptxsim.lazy"]


def test_parsing_and_the_oracle_need_numpy_alone(tmp_path):
    """And know nothing of the translator."""
    code = f"""
    import numpy as np
    import ptxsim
    module, memory = ptxsim.parse({PTX!r}), ptxsim.Memory()
    x = memory.allocate(4000, "x")
    x.view().view(np.float32)[:] = 3
    kernel = module.kernel("scale")
    result = ptxsim.oracle.run(kernel, 4, 256, (x, np.float32(2), np.uint32(999)), memory)
    print(x.view().view(np.float32).sum(), result.counters["global_load_sectors"])
    print(*(name for name in sys.modules if name.startswith(("ptxsim.codegen", "ptxsim.run"))))
    try:
        kernel.launch(4, 256, (x, np.float32(2), np.uint32(999)), memory)
    except ImportError as error:
        print(error)
    """
    printed = run_without({*OURS, "llvmlite"}, code, tmp_path).splitlines()
    assert printed == ["6000.0 125", "", "llvmlite is forbidden here"]


def test_every_public_name_is_there():
    for name in ptxsim.__all__:
        assert getattr(ptxsim, name) is not None
    assert {"Memory", "Module", "SimKernel", "errors", "oracle", "parse", "trace"} <= set(ptxsim.__all__)
    with pytest.raises(AttributeError, match="nothing_of_this_name"):
        _ = ptxsim.nothing_of_this_name


# ---------------------------------------------------------------- a launch


@pytest.fixture
def memory():
    return ptxsim.Memory()


def words(memory: ptxsim.Memory, count: int, name: str = "out") -> ptxsim.Allocation:
    found = memory.allocate(4 * count, name)
    found.view()[:] = 0
    return found


GAPS = entry(
    ".reg .b64 %rd<3>; .reg .b32 %r<3>; .reg .b16 %h<2>;\n"
    "ld.param.u64 %rd1, [out]; ld.param.u8 %h1, [small]; ld.param.f64 %rd2, [wide]; ld.param.u32 %r2, [pair+4];\n"
    "cvt.u32.u16 %r1, %h1; st.global.u32 [%rd1], %r1; st.global.b64 [%rd1+8], %rd2; st.global.u32 [%rd1+4], %r2; ret;",
    params=".param .u64 out, .param .u8 small, .param .f64 wide, .param .align 4 .b8 pair[8]",
)


def test_parameters_are_packed_as_declared(memory):
    kernel = ptxsim.parse(GAPS).kernel("k")
    out = words(memory, 4)
    given = (out, np.uint8(3), np.float64(0.5), struct.pack("<ii", 7, -2))
    assert kernel.packed(given) == struct.pack("<QB7xdii", out.address, 3, 0.5, 7, -2)
    assert kernel.packed(kernel.packed(given)) == kernel.packed(given)
    for run in (kernel.launch, lambda *a: ptxsim.oracle.run(kernel, *a)):
        out.view()[:] = 0
        run((1,), (1, 1), given, memory)
        assert struct.unpack("<Iid", out.view().tobytes()) == (3, -2, 0.5)


@pytest.mark.parametrize(
    ("position", "value", "says"),
    [
        (0, np.uint32(1), "parameter out is .u64 of 8 bytes; uint32 of 4 bytes was given"),
        (1, np.int16(1), "parameter small is .u8 of 1 bytes; int16 of 2 bytes was given"),
        (2, np.int64(1), "parameter wide is .f64 of 8 bytes; int64 of 8 bytes was given"),
        (2, 0.5, "parameter wide is .f64 of 8 bytes; float was given"),
        (3, b"1234", "parameter pair is .b8 of 8 bytes; bytes of 4 bytes was given"),
    ],
)
def test_parameters_that_do_not_fit_are_refused(memory, position, value, says):
    kernel = ptxsim.parse(GAPS).kernel("k")
    given = [words(memory, 4), np.uint8(3), np.float64(0.5), bytes(8)]
    given[position] = value
    with pytest.raises(LaunchError, match=re.escape(says)):
        kernel.launch(1, 1, given, memory)


def test_the_number_of_parameters_and_of_lengths_is_checked(memory):
    kernel = ptxsim.parse(GAPS).kernel("k")
    with pytest.raises(LaunchError, match=r"2 parameters were given, the kernel takes \.u64 out, \.u8 small, "):
        kernel.launch(1, 1, (words(memory, 4), np.uint8(3)), memory)
    with pytest.raises(LaunchError, match="the parameter block has 3 bytes, the kernel takes 32"):
        kernel.launch(1, 1, b"123", memory)
    with pytest.raises(LaunchError, match="one to three lengths, not 4"):
        kernel.launch((1, 1, 1, 1), 1, bytes(32), memory)


COUNTED = """
.version 8.0
.target sm_80
.address_size 64
.visible .global .u32 total = 5;
.visible .entry more(.param .u64 out)
{
    .reg .b64 %rd<3>;
    .reg .b32 %r<2>;
    ld.param.u64 %rd1, [out];
    mov.u64 %rd2, total;
    ld.global.u32 %r1, [%rd2];
    add.u32 %r1, %r1, 1;
    st.global.u32 [%rd2], %r1;
    st.global.u32 [%rd1], %r1;
    ret;
}
.visible .entry again(.param .u64 out)
{
    .reg .b64 %rd<3>;
    .reg .b32 %r<2>;
    ld.param.u64 %rd1, [out];
    mov.u64 %rd2, total;
    ld.global.u32 %r1, [%rd2];
    st.global.u32 [%rd1], %r1;
    ret;
}
.visible .entry strange()
{
    .reg .b32 %r<2>;
    frobnicate.b32 %r1, %r1;
    ret;
}
"""


def test_variables_belong_to_a_module_and_a_memory():
    module, other = ptxsim.parse(COUNTED), ptxsim.parse(COUNTED)
    assert module.entries == ("more", "again", "strange") and module.variables == {"total": 4}
    memories = [ptxsim.Memory(), ptxsim.Memory()]
    seen = []
    for parsed, memory, name in [
        (module, memories[0], "more"), (module, memories[0], "more"), (module, memories[0], "again"),
        (module, memories[1], "again"), (other, memories[0], "again"),
    ]:  # fmt: skip
        out = words(memory, 1)
        parsed.kernel(name).launch(1, 1, (out,), memory)
        seen.append(int(out.view().view(np.uint32)[0]))
    assert seen == [6, 7, 7, 5, 5]
    assert module.place(memories[0])["total"] is module.place(memories[0])["total"]


def test_a_module_with_an_unknown_instruction_still_tells_its_parameters():
    module = ptxsim.parse(COUNTED)
    assert module.params("strange") == () and [p.name for p in module.params("more")] == ["out"]
    with pytest.raises(UnsupportedInstruction, match="frobnicate"):
        module.kernel("strange")


def test_a_kernel_shows_its_stages():
    kernel = ptxsim.parse(PTX).kernel("scale", file="scale.ptx")
    assert kernel.file == "scale.ptx" and [p.type for p in kernel.params] == ["u64", "f32", "u32"]
    assert sum(i.opcode == "mul" for block in kernel.blocks for i in block.instructions) == 1
    assert "mul.f32" in kernel.listing("lanes", 64) and "define" in kernel.listing("ir", (64,))
    assert "run_blocks:" in kernel.listing("asm", (8, 8))
    with pytest.raises(ValueError, match="lanes, ir or asm"):
        kernel.listing("sass", 64)


# ---------------------------------------------------------------- watching

SHARED = entry(
    ".reg .b64 %rd<3>; .reg .b32 %r<6>; .shared .align 4 .b8 before[8]; .shared .align 4 .b8 tile[256];\n"
    "ld.param.u64 %rd1, [out]; mov.u32 %r1, %tid.x; shl.b32 %r2, %r1, 2; mov.u32 %r3, tile; add.u32 %r3, %r3, %r2;\n"
    "st.shared.u32 [%r3], %r1; bar.sync 0; ld.shared.u32 %r4, [%r3];\n"
    "cvt.u64.u32 %rd2, %r2; add.u64 %rd1, %rd1, %rd2; st.global.u32 [%rd1], %r4; ret;"
)


class Notes(ptxsim.Watcher):
    """Keeps what it hears."""

    def __init__(self) -> None:
        self.steps, self.requests, self.stored = [], [], None

    def step(self, state, instruction, active) -> None:
        self.steps.append((instruction.opcode, active.sum(axis=1).tolist()))
        if instruction.opcode == "bar":
            self.stored = state.shared[8:].view(np.uint32).copy(), state.registers["%r1"][1].copy()

    def request(self, request) -> None:
        self.requests.append(request)


@pytest.mark.parametrize("count", [True, False])
def test_a_watcher_hears_every_instruction_and_request(memory, count):
    kernel, notes, out = ptxsim.parse(SHARED).kernel("k"), Notes(), words(memory, 48)
    result = ptxsim.trace(kernel, 2, 48, (out,), memory, notes, number=1, count=count)
    assert out.view().view(np.uint32).tolist() == list(range(48))
    assert [opcode for opcode, _ in notes.steps][-4:] == ["cvt", "add", "st", "ret"]
    assert {tuple(active) for _, active in notes.steps} == {(32, 16)}
    tile, lanes = notes.stored
    assert tile[:48].tolist() == list(range(48)) and lanes[:16].tolist() == list(range(32, 48))
    told = [(r.space, r.kind, r.array, r.warp, r.start, r.nbytes) for r in notes.requests]
    assert told == [
        ("shared", "store", "tile", 0, 8, 4), ("shared", "store", "tile", 1, 8, 4),
        ("shared", "load", "tile", 0, 8, 4), ("shared", "load", "tile", 1, 8, 4),
        ("global", "store", "out", 0, 0, 4), ("global", "store", "out", 1, 0, 4),
    ]  # fmt: skip
    assert notes.requests[-1].offsets.tolist() == [*range(128, 192, 4), *([-1] * 16)]
    assert result.counters["barriers"] == 2
    assert result.counters.get("global_store_sectors", 0) == (6 if count else 0)


def test_what_a_watcher_raises_ends_the_run(memory):
    class Enough(Exception):
        pass

    class Stopper(ptxsim.Watcher):
        def step(self, state, instruction, active) -> None:
            if instruction.opcode == "bar":
                raise Enough

    with pytest.raises(Enough):
        ptxsim.trace(ptxsim.parse(SHARED).kernel("k"), 1, 48, (words(memory, 48),), memory, Stopper())
