"""What a compilation takes and gives: limits, the program, the resources of its kernels, the compiler's messages."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from ptxsim import system

DEFAULT_ARCH = "compute_80"
"""The one virtual architecture that grading pins: the labs need `cp.async` and `mma.sync`."""


@dataclass(frozen=True, kw_only=True)
class CompileLimits:
    """What one compilation may use; past any of these it ends in `CompileLimitError`.

    `memory_bytes` is address space; `cpu_s` is processor time, so that the verdict does not depend on how busy
    the machine is. `wall_s`, past which it ends in `CompilerMissing`, is for a compiler that hangs: 30 times `cpu_s`,
    which a compiler uses up even where it gets a tenth of a core.
    """

    wall_s: float = 540.0
    cpu_s: float = 18.0
    memory_bytes: int = 1 << 30
    source_bytes: int = 256 << 10
    log_bytes: int = 64 << 10
    ptx_bytes: int = 4 << 20

    def here(self) -> CompileLimits:
        """These limits on this machine: where its processor is emulated, times are longer."""
        return replace(self, wall_s=self.wall_s * system.slowness(), cpu_s=self.cpu_s * system.slowness())


@dataclass(frozen=True, kw_only=True)
class Compiled:
    """PTX, or for a real architecture the cubin, and where it came from.

    `source` is the text that was compiled, with `constants` put in; `compiler` is its name and version ("NVRTC 13.5",
    "clang 22.1.8"); `key` names source, options, architecture and compiler versions, so equal keys mean equal PTX.
    """

    ptx: str
    arch: str
    compiler: str
    name: str
    source: str
    log: str
    key: str
    cached: bool = field(default=False, compare=False)
    cubin: bytes = field(default=b"", repr=False)
    symbols: Mapping[str, str] = field(default_factory=dict)
    """name in the code of each kernel that was asked for by an expression"""

    @property
    def nvrtc(self) -> str:
        """NVRTC's version ("13.5"); "none" for what another compiler made."""
        name, _, version = self.compiler.partition(" ")
        return version if name == "NVRTC" else "none"

    @property
    def warnings(self) -> tuple[Diagnostic, ...]:
        """The compiler's warnings, on the student's own lines."""
        return tuple(d for d in parse_log(self.log, name=self.name, source=self.source) if d.severity == "warning")

    @property
    def unset(self) -> tuple[tuple[int, str], ...]:
        """Line and name of each variable that the compiler saw read before it has a value."""
        found = ((d.line, _UNSET.match(d.message)) for d in self.warnings)
        return tuple((line, match[1]) for line, match in found if match is not None)


@dataclass(frozen=True, kw_only=True)
class Resources:
    """What ptxas gave one kernel on one real architecture.

    `registers` per thread; `shared_bytes` static, per block; `local_bytes` is the stack frame per thread, spills
    included; `constant_bytes` over the banks that ptxas reports (before sm_90 that includes the parameters'); spills
    are per thread.
    """

    arch: str
    registers: int
    shared_bytes: int
    local_bytes: int
    constant_bytes: int
    spill_load_bytes: int
    spill_store_bytes: int
    barriers: int


# --------------------------------------------------------------- a compiler's log, as diagnostics on the source's lines

MAX_SHOWN = 20
MAX_NOTES = 6

_HEAD = re.compile(
    r"^(?P<file>[^\n()]+)\((?P<line>\d+)\): "
    r"(?P<severity>catastrophic error|internal error|error|warning|remark)(?: #[\d]+(?:-D)?)?: (?P<message>.*)$"
)
_PTXAS = re.compile(
    r"^ptxas application (?P<file>ptx input), line (?P<line>\d+)\s*; "
    r"(?P<severity>error|warning)\s*: (?P<message>.*)$"
)
_BARE = re.compile(r"^(?P<tool>nvrtc|ptxas|nvlink)(?: | *: *)(?P<severity>error|fatal|warning)\s*: (?P<message>.*)$")
_NOISE = re.compile(
    r"^(Remark: The warnings can be suppressed|\d+ errors? detected| and \d+ catastrophic|\d+ catastrophic|"
    r"Compilation terminated|Error limit reached|At end of source)"
)
_END = re.compile(r"^At end of source: error: (.*)$")
_OPENED = re.compile(r'^\S+\((\d+)\): note #\d+-D: to match this ("\S+")')
_CARET = re.compile(r"^\s+\^\s*$")
_NO_SHIFTS: Mapping[int, int] = MappingProxyType({})
_CANDIDATE = re.compile(r"(?i)\bnote #\d+-D: ")
_UNSET = re.compile(r"""variable ["'](\w+)["'] is (?:used before its value is set|uninitialized when used here)""")
_INCLUDE = re.compile(r"\s*#\s*include\s*[<\"](?P<header>[^>\"\n]+)[>\"]")
_QUOTED = re.compile(r"""["']([^"'\n]+)["']""")
_ADVICE = (
    (re.compile(r'^namespace "std" has no member "(?:min|max)"'),
     'namespace "std" has none here: min and max need neither std:: nor a header in device code'),
    (re.compile(r"^A function without execution space annotations"),
     "a function needs __device__ (a helper) or __global__ (a kernel) in front of it"),
    (re.compile(r"^A namespace scope variable without memory space annotations"),
     "a variable outside of functions needs constexpr, __constant__ or __device__ in front of it"),
    (re.compile(r"^reference to __host__ function '\w*' in __(?:device|global)__ function"),
     "a function needs __device__ (a helper) or __global__ (a kernel) in front of it"),
    (re.compile(r"^reference to __host__ variable '\w+' in __(?:device|global)__ function"),
     "a variable outside of functions needs constexpr, __constant__ or __device__ in front of it"),
)  # fmt: skip


@dataclass(frozen=True)
class Diagnostic:
    """One message of the compiler.

    `line` and `column` count from 1; a line of 0 means that the message has no place, a column of 0 that only the line
    is known. `text` is the line in question, `notes` holds further lines of the message (template instantiations).
    """

    file: str
    line: int
    column: int
    severity: str
    message: str
    text: str = ""
    notes: tuple[str, ...] = ()
    width: int = 1

    def __str__(self) -> str:
        where = f"{self.file}:{self.line}: " if self.line else f"{self.file}: " if self.file else ""
        head = f"{where}{self.severity}: {self.message}"
        return "\n".join([head, *self._quote(), *(f"      | {note}" for note in self.notes)])

    def _quote(self) -> list[str]:
        if not self.text.strip():
            return []
        text = self.text.rstrip().expandtabs(4)
        if self.column:
            start = len(self.text[: self.column - 1].expandtabs(4))
            mark = "^" + "~" * (self.width - 1)
        else:
            start = len(text) - len(text.lstrip())
            mark = "~" * (len(text) - start)
        return [f"{self.line:5} | {text}", f"      | {' ' * start}{mark}"]


def parse_log(log: str, *, name: str, source: str, shifts: Mapping[int, int] = _NO_SHIFTS) -> tuple[Diagnostic, ...]:
    """Split NVRTC's log into diagnostics; messages in file `name` are quoted from `source`.

    `shifts`: by how many characters a line is longer in what was compiled, at its beginning.
    """
    lines = source.split("\n")
    found: list[tuple[Diagnostic, list[str]]] = []
    for row in log.split("\n"):
        if head := _head(row.removeprefix(" "), name):
            found.append((head, []))
        elif found and row.strip() and not _NOISE.match(row):
            found[-1][1].append(row)
    finished = (_finish(head, tail, name, lines, shifts) for head, tail in found)
    return tuple(dict.fromkeys(finished))  # the same message at the same place once


def at_include(found: tuple[Diagnostic, ...], *, name: str, source: str) -> tuple[Diagnostic, ...]:
    """The diagnostics; where the first error is in one of CUDA's headers, behind one for the line that includes it."""
    first = next((one for one in found if one.severity != "warning"), None)
    is_instance = first is not None and any("instantiation" in note for note in first.notes)  # of the file's own code
    if first is None or not first.file.startswith("<") or is_instance:
        return found
    folder = first.file[1:].split("/")[0].rstrip(">")
    lines = source.split("\n")
    for number, text in enumerate(lines, start=1):
        if (match := _INCLUDE.match(text)) and match["header"].split("/")[0] == folder:
            said = f"<{match['header']}> does not compile in a kernel file, which is compiled for the device alone"
            above = re.findall(r"^\s*#\s*define\s+(\w+)", "\n".join(lines[: number - 1]), re.MULTILINE)
            if above:
                said += f", or not with its names defined as something else: {', '.join(above[:MAX_NOTES])}"
            return (Diagnostic(name, number, text.find("#") + 1, "error", said, text), *found)
    return found


def render(diagnostics: tuple[Diagnostic, ...]) -> str:
    """All errors first, then warnings; at most `MAX_SHOWN` of them."""
    ordered = sorted(diagnostics, key=lambda d: d.severity in ("warning", "remark"))
    shown = [str(d) for d in ordered[:MAX_SHOWN]]
    if len(ordered) > MAX_SHOWN:
        shown.append(f"... and {len(ordered) - MAX_SHOWN} more messages")
    return "\n".join(shown)


def _head(row: str, name: str) -> Diagnostic | None:
    if match := _HEAD.match(row) or _PTXAS.match(row):
        severity = "warning" if match["severity"] in ("warning", "remark") else "error"
        message = next((plain for pattern, plain in _ADVICE if pattern.match(match["message"])), match["message"])
        if match["file"] == "ptx input":
            return Diagnostic(name, 0, 0, severity, f"ptxas, line {match['line']} of the PTX: {message}")
        return Diagnostic(match["file"], int(match["line"]), 0, severity, message)
    if end := _END.match(row):
        return Diagnostic(name, 0, 0, "error", end[1])
    if bare := _BARE.match(row):
        severity = "warning" if bare["severity"] == "warning" else "error"
        return Diagnostic(name if bare["tool"] == "ptxas" else "", 0, 0, severity, bare["message"])
    return None


def _finish(head: Diagnostic, tail: list[str], name: str, lines: list[str], shifts: Mapping[int, int]) -> Diagnostic:
    """Take the quoted line and its caret out of the rows after a message; what is left are notes."""
    opened = next(((k, found) for k, row in enumerate(tail) if (found := _OPENED.match(row))), None)
    if opened is not None and not head.line:  # a missing bracket is told where the other one stands
        line, what = opened[1].groups()
        message = f"{head.message} to match this {what}, and the file ends without one"
        head, tail = replace(head, line=int(line), message=message), tail[opened[0] + 1 :]
    quoted, column, notes = "", 0, list(tail)
    for index, row in enumerate(tail):
        if index and _CARET.match(row):
            quoted, bytes_before = tail[index - 1][2:], row.index("^") - 2  # NVRTC counts bytes
            column = 1 + len(quoted.encode()[:bytes_before].decode(errors="ignore"))
            column += max(0, bytes_before - len(quoted.encode()))
            notes = tail[: index - 1] + tail[index + 1 :]
            break
    text = lines[head.line - 1] if head.file == name and 0 < head.line <= len(lines) else quoted
    if head.file == name:
        column = max(column - shifts.get(head.line, 0), min(column, 1))
    column, width = _place(head.message, text, column)
    return replace(head, column=column, text=text, notes=_notes(notes), width=width)


def _notes(rows: list[str]) -> tuple[str, ...]:
    """The compiler's further lines, without those that quote and explain each overload that does not fit."""
    first = next((index for index, row in enumerate(rows) if _CANDIDATE.search(row)), len(rows))
    kept = [row.strip() for row in rows[:first]]
    kept += [row.strip() for row in rows[first:] if row.lstrip().startswith("detected during")]
    return tuple(kept[:MAX_NOTES])


def _place(message: str, text: str, column: int) -> tuple[int, int]:
    """Column and width of the underlined part: the caret's identifier, else a quoted one that stands in the line."""
    if 0 < column <= len(text):
        word = re.match(r"\w+", text[column - 1 :])
        return column, len(word[0]) if word else 1
    for quoted in _QUOTED.findall(message):
        if match := re.search(rf"(?<!\w){re.escape(quoted)}(?!\w)", text):
            return match.start() + 1, len(quoted)
    return (len(text.rstrip()) or 1, 1) if column else (0, 1)
