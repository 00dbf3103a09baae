"""What the simulator does not execute, and which GPU would."""

from __future__ import annotations

import re

from ptxsim.errors import PtxSyntaxError, UnsupportedInstruction
from ptxsim.isa import CLUSTERS, HOPPER, INSTRUCTIONS, REFUSED, Refused
from ptxsim.syntax.program import Instruction, PtxFile, SourceLine

_NEWEST = "an sm_100 or newer GPU (Blackwell)"

_COMPILE_FOR_HOPPER = (
    "Compile for sm_90a, which the simulator executes: `// Target: sm_90a` in the file's header, or arch=\"sm_90a\"."
)

_HOPPERS = {
    ("mbarrier", "expect_tx"): ("transaction count of a bulk copy (TMA)", CLUSTERS),
    ("mbarrier", "complete_tx"): ("transaction count of a bulk copy (TMA)", CLUSTERS),
    ("prefetch", "tensormap"): ("tensor memory access (TMA)", CLUSTERS),
    ("tensormap", "replace"): ("change of a tensor map", HOPPER),
    ("tensormap", "cp_fenceproxy"): ("change of a tensor map", CLUSTERS),
    ("cp", "bulk"): ("bulk asynchronous copy (TMA)", CLUSTERS),
    ("barrier", "cluster"): ("thread-block cluster barrier", CLUSTERS),
    ("wgmma", ""): ("warp-group matrix product", HOPPER),
    ("setmaxnreg", ""): ("register reallocation between warps", HOPPER),
    ("mapa", ""): ("thread-block cluster instruction", CLUSTERS),
    ("getctarank", ""): ("thread-block cluster instruction", CLUSTERS),
}
"""What earlier GPUs have not, by opcode and modifier ("" for all forms)."""


def too_new(instruction: Instruction, target: str, version: str = "") -> Refused | None:
    """What an instruction is and which GPU or PTX version has it, if those of a module do not; else None."""
    digits = re.match(r"sm_(\d+)(a?)", target)
    number, specific = (int(digits[1]), bool(digits[2])) if digits else (0, False)
    for modifier in ("", *instruction.modifiers):
        found = _HOPPERS.get((instruction.opcode, modifier))
        if modifier == "shared::cluster":
            found = found or ("thread-block cluster memory access", CLUSTERS)
        if found and (number < 90 or (found[1] is HOPPER and not (number == 90 and specific))):
            return Refused(found[0], "", found[1])
    if instruction.opcode in ("min", "max") and len(instruction.operands) == 4 and number < 100:
        return Refused(f"{instruction.opcode}imum of three", "", _NEWEST)
    if instruction.opcode == "wgmma" and {"s8", "u8"} <= set(instruction.modifiers) and _older(version, (8, 4)):
        return Refused("product of signed and unsigned bytes", "the file says an earlier version", "PTX ISA 8.4")
    return None


def _older(version: str, than: tuple[int, int]) -> bool:
    numbers = re.match(r"(\d+)\.(\d+)", version)
    return numbers is not None and (int(numbers[1]), int(numbers[2])) < than


def refusal(instruction: Instruction) -> Refused | None:
    """What an instruction is, why the simulator does not execute it, and which GPU does; None if it does."""
    for modifier in instruction.modifiers:
        found = REFUSED.get(f"{instruction.opcode}.{modifier}")
        if found:
            return found
    if instruction.opcode in INSTRUCTIONS:
        return None
    return REFUSED.get(instruction.opcode, Refused("", ""))


def unsupported(
    module: PtxFile, instruction: Instruction, what: str = "", *, next_step: str = ""
) -> UnsupportedInstruction:
    """The error for `instruction`; `what` replaces the usual text."""
    known = refusal(instruction) or too_new(instruction, module.target, module.version) or Refused("", "")
    article = "an" if known.what[:1] in "aeiou" else "a"
    described = f", {article} {known.what}" if known.what else ""
    if not what and known.gpu in (HOPPER, CLUSTERS) and not known.why:
        what = f"{module.target} has no '{instruction.full_name[:60]}'{described}"
        next_step = next_step or _COMPILE_FOR_HOPPER
    if not what:
        reason = f": {known.why}" if known.why else ""
        what = f"the simulator does not execute '{instruction.full_name[:60]}'{described}{reason}"
    if not next_step:
        gpu = known.gpu or ("any CUDA GPU" if known.what else "")
        next_step = f"It needs {gpu}." if gpu else "Write it without this instruction, or run it on a GPU."
    return refused(module, instruction.source, what, next_step)


def refused(module: PtxFile, source: SourceLine, what: str, next_step: str = "") -> UnsupportedInstruction:
    return UnsupportedInstruction(what, file=module.files.get(source.file, ""), line=source.line, next_step=next_step)


def misformed(module: PtxFile, i: Instruction, why: str) -> PtxSyntaxError:
    return PtxSyntaxError(
        f"PTX line {i.ptx_line}: cannot read '{i.full_name[:60]}': {why}",
        file=module.files.get(i.source.file, ""),
        line=i.source.line,
        next_step="The simulator reads the PTX that NVRTC writes; look at inline assembly on this line.",
    )
