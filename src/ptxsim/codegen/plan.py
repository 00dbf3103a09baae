"""The classes and counters under which instructions are counted."""

from __future__ import annotations


def instruction_class(opcode: str, modifiers: tuple[str, ...]) -> str:
    """The class under which an instruction is counted."""
    if opcode == "cp":
        return "memory_global"
    if opcode == "mma" or (opcode == "wmma" and "mma" in modifiers):
        return "tensor"
    if opcode in ("ld", "ldu", "st", "atom", "red", "ldmatrix", "stmatrix", "wmma"):
        spaces = {m.split("::")[0] for m in modifiers}
        if "shared" in spaces:
            return "memory_shared"
        return "other" if spaces & {"param", "local", "const"} else "memory_global"
    if opcode in ("bra", "brx", "call", "ret", "exit", "bar", "barrier", "mbarrier", "trap"):
        return "control"
    if opcode in ("cvt", "cvta"):
        return "conversion"
    if opcode in ("ex2", "lg2", "sin", "cos", "rcp", "sqrt", "rsqrt", "tanh"):
        return "special"
    if opcode in ("dp4a", "dp2a"):
        return "dot"
    types = set(modifiers)
    if opcode in ("mov", "shfl", "vote", "membar", "fence", "activemask", "match", "movmatrix"):
        return "other"
    for name, members in (("fp64", {"f64"}), ("fp32", {"f32"}), ("fp16", {"f16", "f16x2", "bf16", "bf16x2"})):
        if types & members:
            return name
    return "integer"


_FLOAT_COUNTERS = {
    "fma": "fma_instructions",
    "mad": "fma_instructions",
    "add": "fadd_instructions",
    "sub": "fadd_instructions",
    "mul": "fmul_instructions",
}


def arithmetic_counter(opcode: str, type_name: str) -> str | None:
    """The counter, per thread, of an arithmetic instruction on operands of that type; None for one without."""
    if type_name == "f32":
        return _FLOAT_COUNTERS.get(opcode)
    if opcode == "fma" and type_name in ("f16x2", "bf16x2"):
        return "packed_fma_instructions"
    return "dot_instructions" if opcode == "dp4a" else None
