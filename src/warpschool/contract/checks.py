"""Checks between the entries of a header, the header and the source below it, and a submission and its step."""

from __future__ import annotations

from collections.abc import Iterable

from warpschool.compile.host_code import has_host_code
from warpschool.contract.expressions import Expression, PlacedToken, names_in
from warpschool.contract.header import Header, line_of_keyword
from warpschool.contract.model import Contract, Entry, Parameter
from warpschool.contract.source import Declarations, Signature
from warpschool.errors import ContractError, EntryError, LaunchLineError
from warpschool.suggest import did_you_mean


def require_entries(header: Header, declarations: Declarations, source: str, *, file: str) -> None:
    """Raise EntryError or LaunchLineError when the header has no Entry or no Launch, with one to copy."""
    present = {entry.keyword for entry in header.entries}
    kernels = [kernel for kernel in declarations.kernels.values() if kernel.is_extern_c]
    if not kernels and "Entry" not in present:
        raise EntryError(
            "no kernel in this file: it has no __global__ function and no Entry line", file=file, line=1,
            next_step="Write the kernel as: __global__ void name(const float* A, float* C, int n) { ... }",
        )  # fmt: skip
    for keyword, error in (("Entry", EntryError), ("Launch", LaunchLineError)):
        if keyword in present:
            continue
        if stray := line_of_keyword(source, keyword, after_line=header.last_line):
            advice = f"Line {stray} has one, but the header is only the first block of // lines: move it up there."
        else:
            example = _example_entry(kernels) if keyword == "Entry" else _example_launch(header, kernels)
            advice = f"Write in the // lines at the top of the file: {example}"
            if has_host_code(source):
                advice = f"This is a program: `warpschool run --record {file}` takes them from its launches. {advice}"
        raise error(f"the header has no {keyword} line", file=file, line=max(1, header.last_line), next_step=advice)


def _example_entry(kernels: list[Signature]) -> str:
    if not kernels:
        return "// Entry: name(const float x[n] in, float y[n] out, int n)"
    shown = []
    for parameter in kernels[0].parameters:
        ctype = parameter.ctype.name if parameter.ctype else "float"
        if not parameter.is_pointer:
            shown.append(f"{ctype} {parameter.name}")
        else:
            const, direction = ("const ", "in") if parameter.is_const else ("", "out")
            shown.append(f"{const}{ctype} {parameter.name}[SHAPE] {direction}")
    return f"// Entry: {kernels[0].name}({', '.join(shown)})"


def _example_launch(header: Header, kernels: list[Signature]) -> str:
    entries = [entry.text.split("(")[0].strip() for entry in header.entries if entry.keyword == "Entry"]
    name = entries[0] if entries else kernels[0].name if kernels else "name"
    return f"// Launch: {name} block=(256) grid=(cdiv(n, 256))"


def verify(contract: Contract, lists: dict[str, list[PlacedToken]]) -> None:
    """Raise ContractError where the entries of the header contradict each other or the source.

    `lists` holds the names of the Scratch, Zeroed and Constant entries with their places.
    """
    _verify_names(contract)
    _verify_expressions(contract)
    _verify_launches(contract)
    _verify_array_lists(contract, lists)
    for entry in contract.entries:
        verify_signature(entry, contract.declarations, file=contract.name)


def _verify_names(contract: Contract) -> None:
    """One name means one thing: an array, a scalar, a derived size or a constexpr."""
    seen: dict[str, Parameter] = {}
    for parameter in contract.parameters():
        before = seen.setdefault(parameter.name, parameter)
        if (before.is_array, before.ctype) != (parameter.is_array, parameter.ctype):
            raise EntryError(
                f"'{parameter.name}' is '{parameter}' here and '{before}' in another Entry", file=contract.name,
                line=parameter.line, next_step="One name is one array or one scalar in the whole file: rename one.",
            )  # fmt: skip
        if parameter.name in contract.declarations.constexprs:
            raise EntryError(
                f"'{parameter.name}' is a parameter and a constexpr of the source", file=contract.name,
                line=parameter.line, next_step="Rename one of them: expressions could not tell them apart.",
            )  # fmt: skip
    derived: set[str] = set()
    for size in contract.sizes:
        is_array = size.name in seen and not seen[size.name].is_size
        if size.name in derived or is_array or size.name in contract.declarations.constexprs:
            raise ContractError(
                f"the name '{size.name}' is taken", file=contract.name, line=size.line,
                next_step="A derived size needs a name that no array, constexpr or other size has.",
            )  # fmt: skip
        derived.add(size.name)


def _verify_expressions(contract: Contract) -> None:
    derived = {size.name for size in contract.sizes}
    given = {parameter.name for parameter in contract.parameters() if parameter.is_size}
    known = (given - derived) | set(contract.declarations.constexprs)
    for size in contract.sizes:
        _verify_known(contract, size.tree, known, later=derived)
        known.add(size.name)
    for condition in contract.needs:
        _verify_known(contract, condition.tree, known)
    for parameter in contract.parameters():
        for tree in (*(parameter.dims or ()), *parameter.box, *parameter.window):
            _verify_known(contract, tree, known)
    for launch in contract.launches:
        for tree in (*launch.block, *launch.grid, launch.shared):
            _verify_known(contract, tree, known, error=LaunchLineError)


def _verify_known(
    contract: Contract, tree: Expression, known: set[str], *, later: Iterable[str] = (),
    error: type[ContractError] = ContractError,
) -> None:  # fmt: skip
    for name in names_in(tree):
        constant = contract.declarations.constexprs.get(name.name)
        if name.name in known and (constant is None or constant.tree is not None):
            continue
        line, column = (name.token.line, name.token.column) if name.token else (0, 0)
        if constant is not None:
            message = f"'{name.name}' is a constexpr whose value, '{constant.text}', the header cannot compute"
            advice = "Write it with integers, earlier constexprs and + - * / %."
        else:
            message = f"'{name.name}' is unknown"
            advice = _advice_for_unknown(contract, name.name, known, later)
        raise error(f"column {column}: {message}", file=contract.name, line=line, next_step=advice)


def _advice_for_unknown(contract: Contract, name: str, known: set[str], later: Iterable[str]) -> str:
    if name in later:
        return "Sizes are computed in order: move it above its first use."
    if name in contract.declarations.macros:
        value = contract.declarations.macros[name]
        return f"It is a #define; the header knows constexprs only: constexpr int {name} = {value};"
    advice = "Expressions know int parameters, sizes of the Sizes line, and top-level 'constexpr int's of this file."
    return f"{advice} {did_you_mean(name, sorted(known))}".strip()


def _verify_launches(contract: Contract) -> None:
    names = [entry.name for entry in contract.entries]
    for launch in contract.launches:
        if launch.entry not in names:
            raise LaunchLineError(
                f"Launch names '{launch.entry}', which has no Entry line", file=contract.name, line=launch.line,
                next_step=did_you_mean(launch.entry, names),
            )  # fmt: skip
    for entry in contract.entries:
        if entry.name not in {launch.entry for launch in contract.launches}:
            raise LaunchLineError(
                f"'{entry.name}' has an Entry line but no Launch line", file=contract.name, line=entry.line,
                next_step=f"Write: // Launch: {entry.name} block=(256) grid=(cdiv(n, 256))",
            )  # fmt: skip


def _verify_array_lists(contract: Contract, lists: dict[str, list[PlacedToken]]) -> None:
    arrays = {parameter.name for parameter in contract.parameters() if parameter.is_array}
    written = {p.name for p in contract.parameters() if p.is_array and p.direction != "in"}
    for keyword in ("Scratch", "Zeroed"):
        for token in lists[keyword]:
            if token.text not in arrays:
                raise ContractError(
                    f"{keyword} names '{token.text}', which is no array of an Entry", file=contract.name,
                    line=token.line, next_step=did_you_mean(token.text, sorted(arrays)),
                )  # fmt: skip
            if token.text not in written:
                raise ContractError(
                    f"{keyword} names '{token.text}', which no kernel writes", file=contract.name, line=token.line,
                    next_step="An array that is only read is an input: the caller brings it.",
                )  # fmt: skip
    directions = contract.array_directions()
    for token in lists["Zeroed"]:
        if directions[token.text] == "inout":
            raise ContractError(
                f"Zeroed names '{token.text}', which the caller brings (inout)", file=contract.name, line=token.line,
                next_step="Mark it out in the Entry line, or drop it from Zeroed.",
            )  # fmt: skip


def verify_signature(entry: Entry, declarations: Declarations, *, file: str) -> None:
    """Raise EntryError unless the source has this kernel, by this name alone, with these parameters in this order."""
    kernel = declarations.kernels.get(entry.name)
    if kernel is None:
        raise EntryError(
            f"the source has no __global__ function '{entry.name}' at file scope", file=file, line=entry.line,
            next_step=did_you_mean(entry.name, declarations.kernels)
            or f"Write it: __global__ void {entry.name}(...) {{ ... }}",
        )  # fmt: skip
    if not kernel.is_extern_c:
        raise EntryError(
            f"'{entry.name}' is {_what_is_several(entry.name, declarations)}: an Entry line names one kernel",
            file=file, line=kernel.line, next_step=f"Write one kernel: __global__ void {entry.name}(...)",
        )  # fmt: skip
    if len(entry.parameters) != len(kernel.parameters):
        raise EntryError(
            f"'{entry.name}' takes {len(kernel.parameters)} parameters in the source and {len(entry.parameters)} in "
            f"the Entry line {entry.line}", file=file, line=kernel.line, next_step=f"The Entry line says: {entry}",
        )  # fmt: skip
    names = {parameter.name for parameter in entry.parameters}
    for number, (promised, actual) in enumerate(zip(entry.parameters, kernel.parameters, strict=True), start=1):
        if promised.box:
            wanted = "const __grid_constant__ CUtensorMap"
            is_same_kind = not actual.is_pointer and "CUtensorMap" in actual.text.split()
        else:
            wanted = f"{promised.ctype.name}{'*' if promised.is_array else ''}"
            is_same_kind = promised.is_array == actual.is_pointer and promised.ctype == actual.ctype
        is_swapped = actual.name != promised.name and actual.name in names
        if is_swapped or not is_same_kind:
            raise EntryError(
                f"parameter {number} of '{entry.name}' is '{actual.text}' in the source, but the Entry line "
                f"{entry.line} says '{promised}'", file=file, line=kernel.line,
                next_step=f"Make both say the same: {wanted} {promised.name} in the source, or change the Entry line.",
            )  # fmt: skip


def _what_is_several(name: str, declarations: Declarations) -> str:
    return "a template" if name in declarations.templates else "the name of several kernels"


# ---------------------------------------------------------------- a submission and its step


def require_same_entries(submission: Contract, step: Contract) -> None:
    """Raise EntryError unless the submission has every entry of the step, unchanged.

    Compared are names, types, order, shapes and directions of the parameters, and which of their arrays start at zero.
    Further kernels, scratch arrays, constexprs and every Launch line are free.
    """
    if submission.target != step.target:
        raise EntryError(
            f"this step is written for {step.target or 'any GPU'}, this file for {submission.target or 'any GPU'}",
            file=submission.name, line=submission.entries[0].line,
            next_step=f"Restore the line: // Target: {step.target}" if step.target else "Remove the Target line.",
        )  # fmt: skip
    own = {entry.name: entry for entry in submission.entries}
    for entry in step.entries:
        if entry.name not in own:
            raise EntryError(
                f"this step asks for a kernel '{entry.name}', which has no Entry line here", file=submission.name,
                line=submission.entries[0].line,
                next_step=f"{did_you_mean(entry.name, own)} The step's line is: // Entry: {entry}".strip(),
            )  # fmt: skip
        if own[entry.name].parameters != entry.parameters:
            raise EntryError(
                _difference(own[entry.name], entry), file=submission.name, line=own[entry.name].line,
                next_step=f"Restore the step's line: // Entry: {entry}",
            )  # fmt: skip
        _require_same_zeros(submission, step, entry)
    _require_same_parts(submission, step)


def _require_same_parts(submission: Contract, step: Contract) -> None:
    """Raise EntryError where a Scratch line or a further kernel makes of the step's inputs or outputs something else.

    An input that a kernel of the file's own writes first would be one that nobody brings, and nobody checks.
    """
    own = submission.array_directions()
    for name, part in step.array_directions().items():
        if own.get(name, part) != part:
            line = next((e.line for e in submission.entries if any(p.name == name for p in e.parameters)), 0)
            raise EntryError(
                f"'{name}' is '{part}' in this step, and '{own[name]}' in the order of kernels here",
                file=submission.name, line=line,
                next_step=f"Give the array of your own kernel another name than '{name}'.",
            )  # fmt: skip


def _difference(own: Entry, wanted: Entry) -> str:
    if len(own.parameters) != len(wanted.parameters):
        return f"'{own.name}' has {len(own.parameters)} parameters; this step asks for {len(wanted.parameters)}"
    pairs = enumerate(zip(own.parameters, wanted.parameters, strict=True), start=1)
    number, mine, theirs = next((number, *pair) for number, pair in pairs if pair[0] != pair[1])
    return f"parameter {number} of '{own.name}' is '{mine}'; this step asks for '{theirs}'"


def _require_same_zeros(submission: Contract, step: Contract, entry: Entry) -> None:
    for parameter in entry.parameters:
        here, there = parameter.name in submission.zeroed, parameter.name in step.zeroed
        if here != there:
            what = "starts at zero here, but not in this step" if here else "starts at zero in this step, but not here"
            word = "Remove it from" if here else "Add it to"
            raise EntryError(
                f"'{parameter.name}' {what}", file=submission.name, line=submission.entry(entry.name).line,
                next_step=f"{word} the line: // Zeroed: {parameter.name}",
            )  # fmt: skip
