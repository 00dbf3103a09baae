"""What the simulator does not execute, and which GPU would."""

from __future__ import annotations

from ptxsim.errors import PtxSyntaxError, UnsupportedInstruction
from ptxsim.isa import INSTRUCTIONS
from ptxsim.syntax.program import Instruction, PtxFile, SourceLine

_HOPPER = "an sm_90a GPU (Hopper: H100, H200)"
_CLUSTERS = "an sm_90 or newer GPU (Hopper, Blackwell)"
_BLACKWELL = "an sm_100a GPU (Blackwell: B200)"
_BLACKWELL_GEFORCE = "an sm_120a GPU (Blackwell: GeForce RTX 50)"
_ADA = "an sm_89 or newer GPU (Ada, Hopper and later)"
_AMPERE = "an sm_80 or newer GPU (Ampere and later)"
_TURING = "an sm_75 or newer GPU (Turing and later)"
_ANY = "any CUDA GPU"

_BY_OPCODE = {
    "wgmma": ("warp-group matrix product", _HOPPER),
    "setmaxnreg": ("register reallocation between warps", _HOPPER),
    "tcgen05": ("tensor-memory matrix instruction", _BLACKWELL),
    "mapa": ("thread-block cluster instruction", _CLUSTERS),
    "getctarank": ("thread-block cluster instruction", _CLUSTERS),
    "clusterlaunchcontrol": ("thread-block cluster instruction", _BLACKWELL),
    "tensormap": ("tensor memory access (TMA)", _CLUSTERS),
    "multimem": ("multi-GPU memory instruction", _CLUSTERS),
    "cp": ("asynchronous copy", _AMPERE),
    "tex": ("texture fetch", _ANY),
    "tld4": ("texture fetch", _ANY),
    "txq": ("texture query", _ANY),
    "istypep": ("texture query", _ANY),
    "suld": ("surface access", _ANY),
    "sust": ("surface access", _ANY),
    "sured": ("surface access", _ANY),
    "suq": ("surface query", _ANY),
    "alloca": ("run-time stack allocation", _ANY),
    "stacksave": ("run-time stack allocation", _ANY),
    "stackrestore": ("run-time stack allocation", _ANY),
}
_BY_MODIFIER = {
    **dict.fromkeys(
        (("mbarrier", m) for m in ("expect_tx", "complete_tx")), ("transaction count of a bulk copy (TMA)", _CLUSTERS)
    ),
    ("prefetch", "tensormap"): ("tensor memory access (TMA)", _CLUSTERS),
    ("cp", "bulk"): ("bulk asynchronous copy (TMA)", _CLUSTERS),
    ("cp", "reduce"): ("bulk asynchronous reduction (TMA)", _CLUSTERS),
    ("st", "async"): ("thread-block cluster store", _CLUSTERS),
    ("red", "async"): ("thread-block cluster reduction", _CLUSTERS),
    ("barrier", "cluster"): ("thread-block cluster barrier", _CLUSTERS),
    ("mma", "sp"): ("sparse tensor-core product", _AMPERE),
    ("mma", "sp::ordered_metadata"): ("sparse tensor-core product", _AMPERE),
    ("mma", "kind::f8f6f4"): ("tensor-core product of 4- to 8-bit floats", _BLACKWELL_GEFORCE),
    ("mma", "kind::mxf8f6f4"): ("tensor-core product of 4- to 8-bit floats", _BLACKWELL_GEFORCE),
    ("mma", "kind::mxf4"): ("tensor-core product of 4- to 8-bit floats", _BLACKWELL_GEFORCE),
    ("mma", "kind::mxf4nvf4"): ("tensor-core product of 4- to 8-bit floats", _BLACKWELL_GEFORCE),
    ("mma", "e4m3"): ("tensor-core product of 8-bit floats", _ADA),
    ("mma", "e5m2"): ("tensor-core product of 8-bit floats", _ADA),
    ("ldmatrix", "m16n16"): ("load of 8-bit matrices", _BLACKWELL),
    ("ldmatrix", "m8n16"): ("load of 8-bit matrices", _BLACKWELL),
    ("stmatrix", "m16n8"): ("store of 8-bit matrices", _BLACKWELL),
}


def refusal(instruction: Instruction) -> tuple[str, str] | None:
    """What an instruction is and which GPU runs it, if the simulator does not; else None."""
    for modifier in instruction.modifiers:
        found = _BY_MODIFIER.get((instruction.opcode, modifier))
        if found:
            return found
        if modifier.endswith("::cluster"):
            return "thread-block cluster memory access", _CLUSTERS
    if instruction.opcode in INSTRUCTIONS:
        return None
    return _BY_OPCODE.get(instruction.opcode, ("", ""))


def unsupported(
    module: PtxFile, instruction: Instruction, what: str = "", *, next_step: str = ""
) -> UnsupportedInstruction:
    """The error for `instruction`; `what` replaces the usual text."""
    name, gpu = refusal(instruction) or ("", "")
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
