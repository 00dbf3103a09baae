"""What the simulator does not execute, and which GPU would."""

from __future__ import annotations

import re

from ptxsim.errors import PtxSyntaxError, UnsupportedInstruction
from ptxsim.isa import INSTRUCTIONS
from ptxsim.syntax.program import Instruction, PtxFile, SourceLine

_HOPPER = "an sm_90a GPU (Hopper: H100, H200)"
_CLUSTERS = "an sm_90 or newer GPU (Hopper, Blackwell)"
_BLACKWELL = "an sm_100a GPU (Blackwell: B200)"
_BLACKWELL_GEFORCE = "an sm_120a GPU (Blackwell: GeForce RTX 50)"
_ADA = "an sm_89 or newer GPU (Ada, Hopper and later)"
_AMPERE = "an sm_80 or newer GPU (Ampere and later)"
_ANY = "any CUDA GPU"

_BY_OPCODE = {
    "tcgen05": ("tensor-memory matrix instruction", _BLACKWELL),
    "clusterlaunchcontrol": ("thread-block cluster instruction", _BLACKWELL),
    "tensormap": ("change of a tensor map in the kernel", _HOPPER),
    "multimem": ("multi-GPU memory instruction", _CLUSTERS),
    "cp": ("asynchronous copy", _AMPERE),
    "istypep": ("texture query", _ANY),
    "sured": ("surface reduction", _ANY),
    "alloca": ("run-time stack allocation", _ANY),
    "stacksave": ("run-time stack allocation", _ANY),
    "stackrestore": ("run-time stack allocation", _ANY),
}
_BY_MODIFIER = {
    **dict.fromkeys((("tex", m) for m in ("level", "grad")), ("texture fetch from a mipmap", _ANY)),
    **dict.fromkeys(((op, m) for op in ("tex", "tld4") for m in ("cube", "acube")), ("fetch from a cubemap", _ANY)),
    ("tld4", "a2d"): ("gather from a layered texture", _ANY),
    **dict.fromkeys((("tex", m) for m in ("2dms", "a2dms")), ("fetch from a multisampled texture", _ANY)),
    **dict.fromkeys(((op, "p") for op in ("suld", "sust")), ("formatted surface access", _ANY)),
    ("mma", "sp"): ("sparse tensor-core product", _AMPERE),
    ("mma", "sp::ordered_metadata"): ("sparse tensor-core product", _AMPERE),
    ("mma", "kind::f8f6f4"): ("tensor-core product of 4- to 8-bit floats", _BLACKWELL_GEFORCE),
    ("mma", "kind::mxf8f6f4"): ("tensor-core product of 4- to 8-bit floats", _BLACKWELL_GEFORCE),
    ("mma", "kind::mxf4"): ("tensor-core product of 4- to 8-bit floats", _BLACKWELL_GEFORCE),
    ("mma", "kind::mxf4nvf4"): ("tensor-core product of 4- to 8-bit floats", _BLACKWELL_GEFORCE),
    ("ldmatrix", "m16n16"): ("load of 8-bit matrices", _BLACKWELL),
    ("ldmatrix", "m8n16"): ("load of 8-bit matrices", _BLACKWELL),
    ("stmatrix", "m16n8"): ("store of 8-bit matrices", _BLACKWELL),
}


_HOPPERS = {
    ("mbarrier", "expect_tx"): ("transaction count of a bulk copy (TMA)", _CLUSTERS),
    ("mbarrier", "complete_tx"): ("transaction count of a bulk copy (TMA)", _CLUSTERS),
    ("prefetch", "tensormap"): ("tensor memory access (TMA)", _CLUSTERS),
    ("cp", "bulk"): ("bulk asynchronous copy (TMA)", _CLUSTERS),
    ("barrier", "cluster"): ("thread-block cluster barrier", _CLUSTERS),
    ("wgmma", ""): ("warp-group matrix product", _HOPPER),
    ("setmaxnreg", ""): ("register reallocation between warps", _HOPPER),
    ("mapa", ""): ("thread-block cluster instruction", _CLUSTERS),
    ("getctarank", ""): ("thread-block cluster instruction", _CLUSTERS),
}
"""What earlier GPUs have not, by opcode and modifier ("" for all forms)."""


def too_new(instruction: Instruction, target: str) -> tuple[str, str] | None:
    """What an instruction is and which GPU runs it, if those of a target do not; else None."""
    digits = re.match(r"sm_(\d+)(a?)", target)
    number, specific = (int(digits[1]), bool(digits[2])) if digits else (0, False)
    for modifier in ("", *instruction.modifiers):
        found = _HOPPERS.get((instruction.opcode, modifier))
        if modifier == "shared::cluster":
            found = found or ("thread-block cluster memory access", _CLUSTERS)
        if found and (number < 90 or (found[1] is _HOPPER and not (number == 90 and specific))):
            return found
    return None


def refusal(instruction: Instruction) -> tuple[str, str] | None:
    """What an instruction is and which GPU runs it, if the simulator does not; else None."""
    for modifier in instruction.modifiers:
        found = _BY_MODIFIER.get((instruction.opcode, modifier))
        if found:
            return found
    if instruction.opcode in INSTRUCTIONS:
        return None
    return _BY_OPCODE.get(instruction.opcode, ("", ""))


def unsupported(
    module: PtxFile, instruction: Instruction, what: str = "", *, next_step: str = ""
) -> UnsupportedInstruction:
    """The error for `instruction`; `what` replaces the usual text."""
    name, gpu = refusal(instruction) or too_new(instruction, module.target) or ("", "")
    if not what:
        described = f", a {name}" if name else ""
        described = described.replace(", a asynchronous", ", an asynchronous")
        what = f"the simulator does not execute '{instruction.full_name[:60]}'{described}"
    if not next_step:
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
