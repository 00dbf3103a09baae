"""What is done to a source before it is compiled: comments and strings found, constants put in, includes checked.

The include rules must hold against hostile sources: an include of a foreign file shows that file's lines in the error
log. So the compiler never gets the student's text but a copy with comments blanked and line ends made uniform, and in
that copy every `#include`, wherever it stands (in a string, in a skipped group, under a digraph), must name a header
that exists in the CUDA folders. The worker process (`child.py`) closes the file system as well, where the kernel can.
"""

from __future__ import annotations

import functools
import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path

from warpschool.compile.result import Diagnostic, render
from warpschool.errors import CompileError, PolicyError
from warpschool.suggest import closest

# ---------------------------------------------------------------- comments, strings, line splices

_TOKEN = re.compile(
    r"""
      (?P<comment> //[^\n]* | /\*.*?(?:\*/|\Z) )
    | (?P<raw>     (?:u8|[uUL])?R"(?P<delimiter>[^()\\\s"]{0,16})\(.*?(?:\)(?P=delimiter)"|\Z) )
    | (?P<string>  "(?:\\.|[^"\\\n])*"? )
    | (?P<number>  \.?\d(?:'[\w]|[eEpP][+-]|[\w.])* )
    | (?P<word>    \w+ )
    | (?P<char>    '(?:\\.|[^'\\\n])*'? )
    """,
    re.VERBOSE | re.DOTALL,
)


@dataclass(frozen=True)
class Spliced:
    """A source after line splicing: `text` holds no backslash-newline; `place` maps an offset back to the source."""

    text: str
    _starts: tuple[int, ...]
    """where in the text each piece begins that a splice was taken out between"""

    def place(self, offset: int) -> int:
        """The offset in the unspliced source of the character at `offset`."""
        return offset + len("\\\n") * (bisect_right(self._starts, offset) - 1)


def normalise(source: str) -> str:
    """One kind of line end, no byte order mark, no form feeds: what is scanned is then what is compiled."""
    text = source.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
    return text.replace("\f", " ").replace("\v", " ")


def splice(source: str) -> Spliced:
    """Join lines that end in a backslash."""
    pieces = source.split("\\\n")
    return Spliced("".join(pieces), tuple(accumulate(map(len, pieces[:-1]), initial=0)))


@functools.lru_cache(maxsize=64)
def blank(source: str, *, strings: bool = False) -> str:
    """Replace comments, and with `strings` what stands in quotes too, by blanks; lines and columns stay.

    Comments that a line splice continues are followed; a splice outside of them stays as it is.
    """
    spliced = splice(source)
    chars = list(source)
    for match in _TOKEN.finditer(spliced.text):
        kind = match.lastgroup if match.lastgroup != "delimiter" else "raw"
        if kind == "comment" or (strings and kind in ("raw", "string", "char")):
            start, end = spliced.place(match.start()), spliced.place(match.end() - 1) + 1
            chars[start:end] = ["\n" if c == "\n" else " " for c in chars[start:end]]
    return "".join(chars)


def line_of(text: str, offset: int) -> int:
    """The line, from 1, on which the character at `offset` stands."""
    return text.count("\n", 0, offset) + 1


# ---------------------------------------------------------------- constants

_DECLARATION = re.compile(
    r"\b(?:(?:static|inline|__device__|const)\s+)*constexpr\s+(?:(?:static|inline|const)\s+)*"
    r"(?:unsigned\s+int|int|unsigned|size_t)\s+(?P<name>[A-Za-z_]\w*)\s*(?P<equals>=|\{)"
)
_INT_RANGE = (-(2**31), 2**31 - 1)


def find_constants(source: str) -> dict[str, tuple[int, int]]:
    """Name -> (start, end) of the initialiser of every top-level `constexpr int NAME = expression;`."""
    code = blank(source, strings=True)
    depth = _depths(code)
    found: dict[str, tuple[int, int]] = {}
    for match in _DECLARATION.finditer(code):
        if depth(match.start()) or match["name"] in found:
            continue
        start = match.end()
        end = _end_of_initialiser(code, start, closing="}" if match["equals"] == "{" else ";")
        if end > start:
            found[match["name"]] = (start, end)
    return found


def override_constants(source: str, constants: Mapping[str, int] | None, *, name: str = "kernel.cu") -> str:
    """Put new values into top-level `constexpr int`s; line numbers stay.

    Raises CompileError for a name that the source does not declare and for a value that is no 32-bit integer.
    """
    if not constants:
        return source
    places = find_constants(source)
    for key, value in constants.items():
        _check_constant(name, key, value, places)
    text = source
    for key in sorted(constants, key=lambda k: places[k][0], reverse=True):
        start, end = places[key]
        lines = "\n" * source.count("\n", start, end)
        text = f"{text[:start]} {int(constants[key])}{lines}{text[end:]}"
    return text


def _check_constant(name: str, key: str, value: int, places: Mapping[str, object]) -> None:
    if key not in places:
        near = closest(key, places)
        raise CompileError(
            f"{name} declares no top-level `constexpr int {key}`; it declares: {', '.join(places) or 'none'}",
            next_step=f"Did you mean {near}?" if near else "Only top-level `constexpr int`s can be given a value.",
        )
    try:
        number = value.__index__()
    except AttributeError:
        raise CompileError(f"{name}: the value of constant {key} must be an integer, not {value!r}") from None
    if not _INT_RANGE[0] <= number <= _INT_RANGE[1]:
        raise CompileError(f"{name}: {key} = {number} does not fit into a 32-bit int")


def _depths(code: str) -> Callable[[int], int]:
    """A function that gives the number of open brackets at an offset; strings and comments are blank already."""
    offsets, levels = [-1], [0]
    for match in re.finditer(r"[][{}()]", code):
        offsets.append(match.start())
        levels.append(levels[-1] + (1 if match[0] in "{([" else -1))
    return lambda offset: levels[bisect_left(offsets, offset) - 1]


def _end_of_initialiser(code: str, start: int, *, closing: str) -> int:
    """Offset of the `;` (or of a lone `,`: two declarators in one line) that ends an initialiser; -1 if none does."""
    level = 0
    for offset in range(start, len(code)):
        char = code[offset]
        if level == 0 and char in (closing, ",", ";"):
            return offset if char == closing else -1
        level += (char in "([{") - (char in ")]}")
    return -1


# ---------------------------------------------------------------- includes and options

_HASH = r"(?:\#|%:|\?\?=)"
_DIRECTIVE = re.compile(rf"{_HASH}\s*(?P<word>include_next|include|import|embed)(?!\w)(?P<rest>[^\n]*)")
_LINE = re.compile(rf"^[^\S\n]*{_HASH}[^\S\n]*(?P<word>line(?!\w)|\d)", re.MULTILINE)
_PROBE = re.compile(r"(?P<word>__has_include_next|__has_include|__has_embed)")
_DEPENDENCY = re.compile(r"pragma\b[\s\S]*?\b(?P<word>dependency)\b", re.IGNORECASE)
_TRIGRAPH = re.compile(r"(?P<word>\?\?[=/])")
_OPERAND = re.compile(r"\s*(?:<(?P<angled>[^>\n]*)>|\"(?P<quoted>[^\"\n]*)\")\s*(?:;|$)")
_PLAIN_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+-]*(?:/[A-Za-z0-9_][A-Za-z0-9_.+-]*)*")

_HOURS = ("__TIME__", "__DATE__")
_CLOCK = re.compile(rf"\b(?P<word>{'|'.join(_HOURS)})\b")
_NO_CLOCK = ("a kernel that knows when it was compiled", "Leave it out: a kernel is the same one at every hour.")
_PASTE = re.compile(r"(?P<word>##|%:%:)")
_FORBIDDEN = (
    (_TRIGRAPH, ("trigraphs are not C++17", "Write the character itself.")),
    (_LINE, ("line numbers must stay those of the file", "Remove this #line: counters and messages name your lines.")),
    (_CLOCK, _NO_CLOCK),
    (_DEPENDENCY, ("asking how old a file is is not allowed", "Leave this pragma out.")),
    (_PROBE, ("asking whether a file exists is not allowed", "Include the CUDA header that you need directly.")),
)

_CURAND = "cuRAND's headers come with a package of their own: pip install 'warpschool[curand]' (nvidia-curand, 75 MB)."
_ADVICE = {
    **dict.fromkeys(("curand_kernel.h", "curand.h"), _CURAND),
    "iostream": "Streams do not exist on the device: use printf, which needs no header.",
    "vector": "Containers do not exist on the device: use an array whose size is known, in registers or shared memory.",
    "algorithm": "min and max need no header in device code; other algorithms are in <cuda/std/algorithm>.",
    "utility": "Use <cuda/std/utility>.",
    "type_traits": "Use <cuda/std/type_traits>.",
    "array": "Use <cuda/std/array>.",
}
_CUDA_ONLY = "A kernel file stands alone: only CUDA's own headers (such as <cuda_fp16.h> or <mma.h>) can be included."

_FREE_OPTIONS = re.compile(
    r"--?(?:use_fast_math|ftz=.+|prec-sqrt=.+|prec-div=.+|fmad=.+|restrict|extra-device-vectorization|device-int128"
    r"|disable-warnings|w|display-error-number|no-display-error-number|diag-suppress=[\d,]+|diag-warn=[\d,]+"
    r"|diag-error=[\d,]+|maxrregcount=\d+|std=c\+\+(?:11|14|17|20)|define-macro=.+|undefine-macro=.+"
    r"|device-debug|dopt=on|minimal|builtin-initializer-list=.+|Wno-.+)|-D\s?\w.*|-U\s?\w+"
)


def cleared_source(
    source: str, *, name: str, folders: Sequence[Path], headers: Container[str] = (), allowed: str = ""
) -> str:
    """The copy of a normalised source that the compiler may see: comments blanked, every include allowed.

    `headers` are names that may be included as well: the compiler is given their texts. `allowed` says in words what
    the folders have.

    Raises PolicyError for an include that reaches outside `folders`, a computed include, `#line` and the time of day;
    CompileError for a harmless header that does not exist on the device.
    """
    if "\0" in source:
        where = line_of(source, source.index("\0"))
        raise CompileError(f"{name}:{where}: the file holds a NUL byte, so it is not C++ source text")
    code = blank(source)
    # Looked at twice: as the compiler reads it, and unspliced as inside a raw string. Either must be clean.
    for view in (splice(code), Spliced(code, (0,))):
        for pattern, why in _FORBIDDEN:
            if match := pattern.search(view.text):
                raise _refusal(source, name, view.place(match.start("word")), match["word"], why)
        if (match := _PASTE.search(view.text)) and _can_paste_the_hour(view.text):
            raise _refusal(source, name, view.place(match.start("word")), match["word"], _NO_CLOCK)
        for match in _DIRECTIVE.finditer(view.text):
            where = view.place(match.start("word"))
            _check_include(source, name, where, match["word"], match["rest"], folders, headers, allowed)
    return code


def _can_paste_the_hour(code: str) -> bool:
    """Whether words of the source, one behind the other, make the name of a macro that tells the time."""
    words = set(re.findall(r"\w+", code))
    for name in _HOURS:
        reached = {0}
        for start in range(len(name)):
            if start in reached:
                reached |= {end for end in range(start + 1, len(name) + 1) if name[start:end] in words}
        if len(name) in reached:
            return True
    return False


def _check_include(
    source: str, name: str, offset: int, word: str, rest: str, folders: Iterable[Path], headers: Container[str],
    allowed: str,
) -> None:  # fmt: skip
    if word != "include":
        raise _refusal(source, name, offset, word, (f"#{word} is not allowed", _CUDA_ONLY))
    operand = _OPERAND.match(rest)
    if operand is None:
        why = ("#include must name its header itself, without a macro", 'Write #include <header.h> or "header.h".')
        raise _refusal(source, name, offset, word, why)
    header = operand["angled"] if operand["angled"] is not None else operand["quoted"]
    if operand["quoted"] is not None and header in headers:
        return
    if not _PLAIN_NAME.fullmatch(header) or ".." in header.split("/"):
        raise _refusal(source, name, offset, word, (f'"{header}" is outside CUDA\'s include folders', _CUDA_ONLY))
    if not any((folder / header).is_file() for folder in folders):
        found = _diagnostic(source, name, offset, f'there is no header "{header}" for device code', word=header)
        raise CompileError(str(found), diagnostics=(found,), next_step=_ADVICE.get(header, allowed or _CUDA_ONLY))


# ---------------------------------------------------------------- names of standard headers

_GUARDED = re.compile(r"defined\(WARPSCHOOL_(?!ALL\b|HAS_)(\w+)\)")
_OWN_NAME = r"#\s*define\s+{0}\b|\busing\s+{0}\b|\btypedef\b[^;]*\b{0}\s*;|\b(?:class|struct|enum|typename)\s+{0}\b"
_INCLUDED = re.compile(r"#\s*include\s*[<\"]([^>\"\n]+)[>\"]")


def standard_options(code: str, *, folder: Path) -> list[str]:
    """What the compiler must be told so that `INFINITY`, `uint32_t` and their like are there where a source uses them.

    Names that the source declares itself stay its own. `code` has no comments. Nothing is told to most sources, whose
    PTX stays what it was.
    """
    header = folder / "warpschool_standard.h"
    words = set(re.findall(r"[A-Za-z_]\w*", code))
    known = _GUARDED.findall(header.read_text("utf-8"))
    used = [name for name in known if name in words and not re.search(_OWN_NAME.format(name), code)]
    includes = any((folder / name).is_file() for name in _INCLUDED.findall(code))
    if not used and not includes:
        return []
    early = [f"--pre-include={header}", *(f"-DWARPSCHOOL_{name}" for name in used)] if used else []
    return [f"-I{folder}", "-diag-suppress=47", *early]  # 47: CUDA's own headers define some once more


DRIVER = frozenset({"cuda.h", "cudaTypedefs.h"})
"""The driver's headers, of which a kernel needs some types: ours are read in their place (include/cuda.h)."""


def first_folders(code: str, *, folder: Path) -> list[str]:
    """What puts our headers before NVIDIA's for a source that includes one of the driver's, which needs a host's."""
    return [f"-I{folder}"] if DRIVER.intersection(_INCLUDED.findall(code)) else []


_LIBCUDACXX = ("cuda/", "cub/", "thrust/", "cooperative_groups", "curand")
_UNROLLED = "_CCCL_META_UNROLL_LIMIT"
"""How many cases of some templates libcu++ writes out by nested macros: 10 for nvcc, 16 for NVRTC, which takes longer
for that than for all the rest. All other cases follow from these, and so no program depends on it."""


def library_options(code: str) -> list[str]:
    """What makes libcu++ quick to read, for a source that includes it or one of the libraries that do."""
    includes = any(name.startswith(_LIBCUDACXX) for name in _INCLUDED.findall(code))
    return [f"-D{_UNROLLED}=10"] if includes and _UNROLLED not in code else []


def own_options(code: str, *, folder: Path) -> list[str]:
    """What we tell the compiler of a source without comments besides what its author does."""
    return [*standard_options(code, folder=folder), *library_options(code)]


def advice_on_headers(source: str) -> str:
    """What to use in place of those headers of the host that a source includes; "" where none has an equivalent."""
    found = (_ADVICE.get(name, "") for name in _INCLUDED.findall(blank(source)))
    return " ".join(dict.fromkeys(filter(None, found)))


def check_options(options: Sequence[str]) -> tuple[str, ...]:
    """The caller's options, each one that cannot read files or change what warpschool relies on.

    Raises PolicyError for any other option, and names it.
    """
    if isinstance(options, str):
        raise PolicyError(f"options must be a list such as ['-DN=4'], not the text {options!r}")
    for option in options:
        if not isinstance(option, str) or not _FREE_OPTIONS.fullmatch(option) or "\n" in option:
            raise PolicyError(
                f"the compiler option {option!r} is not allowed",
                next_step="Allowed are -D, -U, -std=, --use_fast_math, --fmad=, --ftz=, --prec-div=, --prec-sqrt=, "
                "--maxrregcount=, --restrict, --device-debug, --dopt=on and the options about warnings. "
                "The architecture is the argument `arch`; line information and CUDA's include folders are always on.",
            )
    return tuple(options)


def foreign_file(log: str, *, names: Sequence[str], folders: Iterable[Path]) -> bool:
    """Whether a message in the log is about a file that is neither of the sources nor one of CUDA's headers."""
    known = tuple(f"{folder}/" for folder in folders)
    files = re.findall(r"^(?:warning: |error: )?(\S[^\n]*?)\(\d+\): ", log, re.MULTILINE)
    return any(file not in (*names, *_BUILT_IN) and not file.startswith(known) for file in files)


_BUILT_IN = ("__nv_nvrtc_builtin_header.h", "builtin_types.h", "__nv_name_map")
"""What NVRTC calls the header that it has built in (`__shfl_sync` without its mask is told there), and the list of the
expressions that were asked for."""


def _refusal(source: str, name: str, offset: int, word: str, why: tuple[str, str]) -> PolicyError:
    found = _diagnostic(source, name, offset, f"not allowed: {why[0]}", word=word)
    return PolicyError(render((found,)), diagnostics=(found,), next_step=why[1])


def _diagnostic(source: str, name: str, offset: int, message: str, *, word: str) -> Diagnostic:
    line = line_of(source, offset)
    start = source.rfind("\n", 0, offset) + 1
    text = source[start:].split("\n", 1)[0]
    place = text.find(word, offset - start)
    return Diagnostic(name, line, (place if place >= 0 else offset - start) + 1, "error", message, text, (), len(word))
