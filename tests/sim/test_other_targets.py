"""Generated code becomes machine code of other systems too: ARM on Linux and macOS, x86-64 on Windows and with AVX-512.

Nothing of it runs here. The intermediate code is what a machine of that kind would make: what the host's processor can
do is put in its place. A kernel's own code comes with the functions that it calls, those of tensor cores among them.
"""

from __future__ import annotations

import ctypes
import io
import re

import llvmlite.binding as llvm
import pytest
from elftools.elf.elffile import ELFFile

import ptxsim
from ptxsim.codegen import host, stencils
from ptxsim.codegen.bulk_memory import reduction
from ptxsim.codegen.emit import Helper, arg, module_text
from ptxsim.codegen.floating import canonical_nan, fma_wide
from ptxsim.codegen.runtime import rare_modules, usual_modules
from ptxsim.codegen.translation import Translation, translate
from ptxsim.codegen.unit import Options
from ptxsim.codegen.values import LLVM_TYPE
from ptxsim.tensormap import ELEMENTS
from warpschool.compile import compile_cuda
from warpschool.contract import parse_contract
from warpschool.course import Course, Step
from warpschool.inspect.profile import usual_sizes

TARGETS = {
    "Linux on ARM": ("aarch64-unknown-linux-gnu", "cortex-a76", b"\x7fELF"),
    "macOS on ARM": ("arm64-apple-macosx13.0", "apple-m1", b"\xcf\xfa\xed\xfe"),
    "Windows": ("x86_64-pc-windows-msvc", "x86-64-v3", b"\x64\x86"),
    "AVX-512": ("x86_64-unknown-linux-gnu", "sapphirerapids", b"\x7fELF"),
}
AVX512 = dict.fromkeys(("avx2", "fma", "f16c", "avx512f", "avx512bw", "avx512dq", "avx512vl"), True)
QUICK = ("lab00_first_kernels/03_block_sum", "lab07_tensor_cores/01_wmma_naive")
REFERENCES = [step for step in Course.find().kernels() if step.solution is not None]
HELPERS = {group: text for group, (text, _) in (usual_modules() | rare_modules()).items()}


@pytest.fixture(scope="module", autouse=True)
def _all_targets():
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()


written: dict[str, dict] = {}
"""target -> its stencils; this process has those of its own processor from other tests"""


@pytest.fixture(params=TARGETS)
def target(request, monkeypatch):
    """A target whose processor stands in the host's place."""
    monkeypatch.setattr(host, "features", lambda: AVX512 if request.param == "AVX-512" else {})
    monkeypatch.setattr(host, "has_halves", lambda: "ARM" in request.param)
    monkeypatch.setattr(stencils, "_known", written.setdefault(request.param, {}))
    return request.param


def objects(ir: str, target: str) -> bytes:
    """The object file of a module, as that system's compiler would name it by its first bytes."""
    triple, cpu, magic = TARGETS[target]
    machine = llvm.Target.from_triple(triple).create_target_machine(cpu=cpu, opt=0)
    module = llvm.parse_assembly(ir)
    module.triple, module.data_layout = triple, str(machine.target_data)
    code = machine.emit_object(module)
    assert code.startswith(magic) and ("x86" not in ir or target == "AVX-512")
    return code


def translations(step: Step, options: Options, *, wide: bool = False) -> list[Translation]:
    """A reference's kernels, for the shapes of block that its usual sizes launch; `wide`: with vectors of 64 bytes."""
    text = step.solution.read_text("utf-8")
    contract = parse_contract(text, name=step.file_name)
    program = ptxsim.parse(compile_cuda(text, name=step.file_name, arch=contract.arch).ptx)
    launches = {(launch.entry, launch.block) for launch in contract.bind(usual_sizes(contract)).launches}
    return [
        translate(program.kernel(entry).engine.kernel, block, options, wide_vectors=wide)
        for entry, block in sorted(launches)
    ]


@pytest.mark.parametrize(
    "step",
    [pytest.param(step, marks=() if step.name in QUICK else pytest.mark.slow, id=step.name) for step in REFERENCES],
)
@pytest.mark.thinned(3)
def test_references_become_machine_code(step, target):
    for made in translations(step, Options(), wide=target == "AVX-512"):
        for ir in (made.ir, *made.unit.library.values()):
            objects(ir, target)


generated: set[tuple[str, str]] = set()
"""(target, function) of instructions that a test before has made code of: references share most."""


@pytest.mark.parametrize("target", ["macOS on ARM", "AVX-512"], indirect=True)
@pytest.mark.parametrize("step", REFERENCES, ids=lambda step: step.name)
@pytest.mark.thinned(24)
def test_each_instruction_of_references_becomes_machine_code(step, target):
    """One by one, as they run first: quick enough for one reference in twelve, drawn from all labs, in each run."""
    for made in translations(step, Options(parted=True, outlined=True), wide=target == "AVX-512"):
        assert made.unit.library
        for name, ir in made.unit.library.items():
            if (target, name) not in generated:
                objects(ir, target)
                generated.add((target, name))


@pytest.mark.parametrize("name", HELPERS)
def test_what_kernels_call_becomes_machine_code(name, target):
    objects(HELPERS[name], target)


def test_multiplying_and_adding_halves_stays_short_where_arm_computes_none(monkeypatch):
    """Through f64, two to a register, a kernel of them took minutes to generate."""
    monkeypatch.setattr(host, "has_halves", lambda: False)
    machine = llvm.Target.from_triple("aarch64-unknown-linux-gnu").create_target_machine(cpu="cortex-a72", opt=0)
    b = Helper()
    b.label("entry")
    x, y, z = (arg("half", name, 64) for name in "xyz")
    b.ret(canonical_nan(b, fma_wide(b, x, y, z)))
    text = module_text([b.function(f"<64 x half> @f({x}, {y}, {z})")], b.declared)
    assembly = machine.emit_assembly(llvm.parse_assembly(text))
    assert len(re.findall(r"^\t[a-z]", assembly, re.MULTILINE)) < 1200


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
