"""f64 operations rounded up, down or towards zero, by the host's own rounding modes.

Each function sets the mode, computes, and sets it back to nearest; a function of its own, so that no other operation
is scheduled in between.
"""

from __future__ import annotations

from ptxsim.codegen.emit import WARP, Value
from ptxsim.codegen.runtime.helper import I32, Helper, arg, i32

MODES = {"rz": 0, "rp": 2, "rm": 3}
"""PTX rounding modifier -> LLVM's number of the mode (llvm.set.rounding)."""
_NEAREST = 1
OPERANDS = {"fadd": 2, "fmul": 2, "fdiv": 2, "fma": 3, "sqrt": 1}


def directed(operation: str) -> str:
    """ws_directed_OPERATION(mode, operands...) for a warp of f64."""
    b = Helper()
    mode = arg(I32, "mode")
    operands = [arg("double", f"x{k}", WARP) for k in range(OPERANDS[operation])]
    b.label("entry")
    b.call("llvm.set.rounding", "void", mode)
    name = f"llvm.experimental.constrained.{operation}.v{WARP}f64"
    types = ", ".join(x.ir_type for x in operands)
    b.declared[name] = f"declare <{WARP} x double> @{name}({types}, metadata, metadata)"
    listed = ", ".join(str(x) for x in operands)
    flags = 'metadata !"round.dynamic", metadata !"fpexcept.ignore"'
    result: Value = b.let("double", WARP, f"call <{WARP} x double> @{name}({listed}, {flags}) strictfp")
    b.call("llvm.set.rounding", "void", i32(_NEAREST))
    b.ret(result)
    return b.define(f"ws_directed_{operation}", f"<{WARP} x double>", mode, *operands)
