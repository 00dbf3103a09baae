"""Generated code becomes machine code of other systems too: ARM on Linux and macOS, x86-64 on Windows.

Nothing of it runs here. The intermediate code is what a machine of that kind would make: what the host's processor can
do is put in its place.
"""

from __future__ import annotations

import ctypes
import io

import llvmlite.binding as llvm
import pytest
from elftools.elf.elffile import ELFFile

import ptxsim
from ptxsim.codegen import host
from ptxsim.codegen.bulk_memory import reduction
from ptxsim.codegen.emit import Helper, arg, module_text
from ptxsim.codegen.values import LLVM_TYPE
from ptxsim.tensormap import ELEMENTS
from warpschool.compile import compile_cuda
from warpschool.contract import parse_contract
from warpschool.course import Course
from warpschool.inspect.profile import usual_sizes

TARGETS = {
    "Linux on ARM": ("aarch64-unknown-linux-gnu", "cortex-a76", b"\x7fELF"),
    "macOS on ARM": ("arm64-apple-macosx13.0", "apple-m1", b"\xcf\xfa\xed\xfe"),
    "Windows": ("x86_64-pc-windows-msvc", "x86-64-v3", b"\x64\x86"),
}
QUICK = ("lab00_first_kernels/03_block_sum", "lab06_half_precision/02_half2", "lab07_tensor_cores/01_wmma_naive")
STEPS = [
    pytest.param(step, marks=() if step.name in QUICK else pytest.mark.slow, id=step.name)
    for step in Course.find().kernels()
    if step.solution is not None
]


@pytest.fixture(scope="module", autouse=True)
def _all_targets():
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()


def objects(ir: str, target: str) -> bytes:
    triple, cpu, _ = TARGETS[target]
    machine = llvm.Target.from_triple(triple).create_target_machine(cpu=cpu, opt=0)
    module = llvm.parse_assembly(ir)
    module.triple, module.data_layout = triple, str(machine.target_data)
    return machine.emit_object(module)


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.thinned(3)
def test_references_become_machine_code(step, target, monkeypatch):
    monkeypatch.setattr(host, "features", dict)
    monkeypatch.setattr(host, "has_halves", lambda: "ARM" in target)
    text = step.solution.read_text("utf-8")
    contract = parse_contract(text, name=step.file_name)
    program = ptxsim.parse(compile_cuda(text, name=step.file_name, arch=contract.arch).ptx)
    for entry, block in {(launch.entry, launch.block) for launch in contract.bind(usual_sizes(contract)).launches}:
        ir = program.kernel(entry).listing("ir", block)
        assert objects(ir, target).startswith(TARGETS[target][2]) and "x86" not in ir


@pytest.mark.parametrize(("cpu", "has"), [("apple-m1", True), ("cortex-a76", True), ("cortex-a72", False)])
def test_which_arm_processors_compute_with_halves(cpu, has):
    assert host._arm_has_halves(cpu, "", "aarch64-unknown-linux-gnu") is has


def missing(code: bytes) -> set[str]:
    """What an ELF object asks others for that no C library has."""
    table = ELFFile(io.BytesIO(code)).get_section_by_name(".symtab")
    wanted = {symbol.name for symbol in table.iter_symbols() if symbol["st_shndx"] == "SHN_UNDEF"} - {""}
    return {name for name in wanted if not hasattr(ctypes.CDLL(None), name)}


@pytest.mark.parametrize("type_", sorted(ELEMENTS))
@pytest.mark.parametrize("cpu", ["x86-64-v3", "cortex-a76"])
def test_reductions_of_bulk_copies_ask_for_no_routine_that_is_not_there(cpu, type_):
    """Where one is missing, LLVM's linker leaves zeros for all that a function calls."""
    triple = "aarch64-unknown-linux-gnu" if "cortex" in cpu else "x86_64-unknown-linux-gnu"
    machine = llvm.Target.from_triple(triple).create_target_machine(cpu=cpu, opt=2)
    kind = LLVM_TYPE.get(type_.removesuffix(".ftz"), f"i{8 * ELEMENTS[type_].nbytes}")
    for operation in ("add", "min", "max", "inc", "dec", "and", "or", "xor"):
        combine = reduction(operation, type_)
        if combine is None:
            continue
        b = Helper()
        b.label("entry")
        b.ret(combine(b, arg(kind, "x"), arg(kind, "y")))
        text = module_text([b.function(f"{kind} @f({kind} %x, {kind} %y)")], b.declared)
        assert not missing(machine.emit_object(llvm.parse_assembly(text))), operation
