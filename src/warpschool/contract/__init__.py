r"""The kernel file's header: what the file computes, with which sizes, and how it is launched.

    contract = parse_contract(source, name="01_tiled.cu")
    plan = contract.bind({"M": 33, "N": 17, "K": 65})

The header is the first block of `//` lines of the file. The grammar ('x' literal, [x] optional, {x} repeated):

    header     = [ title ] { entry | remark }
    title      = FILENAME ".cu:" TEXT                               on the first line
    entry      = prose | formal                                     each starts on a line of its own
    prose      = ("Idea:" | "From:" | "Limits:") TEXT               may share a line, two spaces apart
    formal     = "Target:"   "sm_90a"                               the one architecture that the file is written for
               | "Entry:"    name "(" [ parameter { "," parameter } ] ")"
               | "Sizes:"    name "=" condition { "," name "=" condition }
               | "Needs:"    condition { "," condition }
               | "Launch:"   launch { ";" launch }
               | "Scratch:"  name { "," name }
               | "Zeroed:"   name { "," name }
               | "Constant:" name "<-" name { "," name "<-" name }
               | "Usual:"    name "=" NUMBER { "," name "=" NUMBER }
    parameter  = scalar | array
    scalar     = type name
    array      = [ "const" ] type name "[" condition { "," condition } "]" ("in" | "out" | "inout") [ map ]
    map        = "map" "=" [ "im2col" ] "(" condition { "," condition } ")"
    launch     = name { "block" "=" dims | "grid" "=" dims | "shared" "=" condition }
    dims       = "(" condition [ "," condition [ "," condition ] ] ")"
    condition    (and all below it: see `warpschool.contract.expressions`)
    type       = "float" | "double" | "half" | "int" | "unsigned" | "signed char" | ... | "float4" | "half2" | ...

A line without a keyword continues the entry above it; an empty `//` line ends that entry, and prose may follow.
Names in expressions are the int parameters, the derived sizes and the file's top-level `constexpr int`s. Arrays are
declared in elements: `float4 A[M,K]` is a float array of M x K that the kernel takes as `float4*`. `shared` is dynamic
shared memory in bytes. Every kernel with an Entry line has a Launch line; launches run in order. Arrays that share a
name are one array, so the second kernel of a file reads what the first one wrote. `Usual` says what scalars are in
reports of a kernel where nobody says anything else.

An array with a `map` reaches the kernel as a tensor map, `const __grid_constant__ CUtensorMap`, that describes it to
the tensor memory accelerator in boxes with these sides, last axis last; where there are fewer sides than axes, the
first axes count as one. Images in NHWC can have a map for windows instead, `map=im2col(places, channels, R, S, STRIDE,
PAD)`: a box holds so many channels of one element of so many windows. Boxes 128, 64 or 32 bytes wide are swizzled.
"""

from __future__ import annotations

from warpschool.compile.source import normalise
from warpschool.contract.checks import require_entries, require_same_entries, verify
from warpschool.contract.expressions import PlacedToken
from warpschool.contract.header import LAUNCHES, read_entries, read_header
from warpschool.contract.model import (
    ArrayPlan,
    ConstantFill,
    Contract,
    Entry,
    LaunchLine,
    LaunchPlan,
    Parameter,
    Plan,
    launch_problem,
)
from warpschool.contract.source import CType, Declarations, scan_source
from warpschool.errors import ContractError
from warpschool.suggest import did_you_mean

__all__ = [
    "LAUNCHES", "ArrayPlan", "CType", "ConstantFill", "Contract", "Entry", "LaunchLine", "LaunchPlan", "Parameter",
    "Plan", "launch_problem", "parse_contract", "require_same_entries", "scan_source",
]  # fmt: skip


def parse_contract(source: str, *, name: str = "kernel.cu") -> Contract:
    """Read the header of a kernel file and check it against the source below it.

    Raises EntryError (no kernel, or other parameters than promised), LaunchLineError (Launch missing or nonsense) and
    otherwise ContractError, each with file and line, what was found and what to write instead.
    """
    if not source.strip():
        raise ContractError("the file is empty", file=name, next_step="Start from the step's starter.")
    text = normalise(source)
    declarations = scan_source(text, name=name)
    header = read_header(text, file=name)
    require_entries(header, declarations, text, file=name)
    found = read_entries(header, file=name)
    entries = tuple(found["Entry"])
    contract = Contract(
        name=name, source=source, title=header.title, entries=entries, sizes=tuple(found["Sizes"]),
        needs=tuple(found["Needs"]), launches=tuple(found["Launch"]),
        scratch=tuple(dict.fromkeys(token.text for token in found["Scratch"])),
        zeroed=tuple(dict.fromkeys(token.text for token in found["Zeroed"])),
        constants=tuple(_fill(symbol, array, entries, declarations, name) for symbol, array in found["Constant"]),
        declarations=declarations, usual=_usual(found["Usual"], entries, name), target="".join(found["Target"][-1:]),
    )  # fmt: skip
    verify(contract, found)
    return contract


def _usual(given: list[tuple[str, int | float, int]], entries: tuple[Entry, ...], file: str) -> dict[str, float]:
    """The values of a Usual line, each for a scalar of an Entry."""
    scalars = {p.name: p for entry in entries for p in entry.parameters if not p.is_array}
    for key, value, line in given:
        if key not in scalars:
            raise ContractError(
                f"'{key}' is no scalar of an Entry", file=file, line=line, next_step=did_you_mean(key, sorted(scalars))
            )
        if scalars[key].ctype.is_integer and not isinstance(value, int):
            raise ContractError(f"'{scalars[key]}' needs an integer, not {value!r}", file=file, line=line)
    return {key: value for key, value, _ in given}


def _fill(
    symbol: PlacedToken, array: PlacedToken, entries: tuple[Entry, ...], declarations: Declarations, file: str
) -> ConstantFill:
    """Match a Constant entry with the source's symbol and the array's type."""
    found = declarations.constants.get(symbol.text)
    if found is None:
        raise ContractError(
            f"the source has no __constant__ symbol '{symbol.text}' at file scope", file=file, line=symbol.line,
            next_step=did_you_mean(symbol.text, declarations.constants)
            or f"Write: __constant__ float {symbol.text}[SIZE];",
        )  # fmt: skip
    parameter = next((p for entry in entries for p in entry.parameters if p.name == array.text), None)
    if parameter is not None and not parameter.is_array:
        raise ContractError(f"'{array.text}' is a scalar, not an array", file=file, line=array.line)
    ctype = parameter.ctype if parameter is not None else found.ctype
    if ctype is None or (found.ctype is not None and found.ctype.dtype != ctype.dtype):
        raise ContractError(
            f"'{symbol.text}' (line {found.line}) and '{array.text}' are not of one type", file=file, line=array.line,
            next_step="A symbol is filled with an array of its own element type.",
        )  # fmt: skip
    return ConstantFill(symbol.text, array.text, ctype, symbol.line)
