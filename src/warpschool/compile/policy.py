"""Which files a kernel may include, and which compiler options it may be compiled with.

The rule must hold against hostile sources: an include of a foreign file shows that file's lines in the error log.
So the compiler never gets the student's text but a copy with comments blanked and line ends made uniform, and in that
copy every `#include`, wherever it stands (in a string, in a skipped group, under a digraph), must name a header that
exists in the CUDA folders. The worker process (`child.py`) closes the file system as well, where the kernel can.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from warpschool.compile.diagnostics import Diagnostic, render
from warpschool.compile.lexing import Spliced, blank, line_of, splice
from warpschool.errors import CompileError, PolicyError

_HASH = r"(?:\#|%:|\?\?=)"
_DIRECTIVE = re.compile(rf"{_HASH}\s*(?P<word>include_next|include|import|embed)(?!\w)(?P<rest>[^\n]*)")
_LINE = re.compile(rf"^[^\S\n]*{_HASH}[^\S\n]*(?P<word>line(?!\w)|\d)", re.MULTILINE)
_PROBE = re.compile(r"(?P<word>__has_include_next|__has_include|__has_embed)")
_TRIGRAPH = re.compile(r"(?P<word>\?\?[=/])")
_OPERAND = re.compile(r"\s*(?:<(?P<angled>[^>\n]*)>|\"(?P<quoted>[^\"\n]*)\")\s*(?:;|$)")
_PLAIN_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+-]*(?:/[A-Za-z0-9_][A-Za-z0-9_.+-]*)*")

_FORBIDDEN = (
    (_TRIGRAPH, ("trigraphs are not C++17", "Write the character itself.")),
    (_LINE, ("line numbers must stay those of the file", "Remove this #line: counters and messages name your lines.")),
    (_PROBE, ("asking whether a file exists is not allowed", "Include the CUDA header that you need directly.")),
)

_ADVICE = {
    "stdio.h": "printf needs no header in device code: remove this line.",
    "cstdio": "printf needs no header in device code: remove this line.",
    "assert.h": "assert needs no header in device code: remove this line.",
    "cassert": "assert needs no header in device code: remove this line.",
    "math.h": "The math functions need no header in device code: remove this line.",
    "cmath": "The math functions need no header in device code: remove this line.",
    "stdint.h": "Use <cuda/std/cstdint>.",
    "cstdint": "Use <cuda/std/cstdint>.",
    "float.h": "Use <cuda/std/cfloat>.",
    "cfloat": "Use <cuda/std/cfloat>.",
    "limits": "Use <cuda/std/limits>.",
    "limits.h": "Use <cuda/std/climits>.",
    "climits": "Use <cuda/std/climits>.",
    "iostream": "Streams do not exist on the device: use printf, which needs no header.",
}
_CUDA_ONLY = "A kernel file stands alone: only CUDA's own headers (such as <cuda_fp16.h> or <mma.h>) can be included."

_FREE_OPTIONS = re.compile(
    r"--?(?:use_fast_math|ftz=.+|prec-sqrt=.+|prec-div=.+|fmad=.+|restrict|extra-device-vectorization|device-int128"
    r"|disable-warnings|w|display-error-number|no-display-error-number|diag-suppress=[\d,]+|diag-warn=[\d,]+"
    r"|diag-error=[\d,]+|maxrregcount=\d+|std=c\+\+(?:11|14|17|20)|define-macro=.+|undefine-macro=.+"
    r"|device-debug|dopt=on|minimal|builtin-initializer-list=.+|Wno-.+)|-D\s?\w.*|-U\s?\w+"
)


def cleared_source(source: str, *, name: str, folders: Sequence[Path]) -> str:
    """The copy of a normalised source that the compiler may see: comments blanked, every include allowed.

    Raises PolicyError for an include that reaches outside `folders`, a computed include and `#line`; CompileError for a
    harmless header that does not exist on the device.
    """
    if "\0" in source:
        where = line_of(source, source.index("\0"))
        raise CompileError(f"{name}:{where}: the file holds a NUL byte, so it is not C++ source text")
    code = blank(source)
    # Looked at twice: as the compiler reads it, and unspliced as inside a raw string. Either must be clean.
    for view in (splice(code), Spliced(code, (0,), (0,))):
        for pattern, why in _FORBIDDEN:
            match = pattern.search(view.text)
            if match:
                raise _refusal(source, name, view.place(match.start("word")), match["word"], why)
        for match in _DIRECTIVE.finditer(view.text):
            _check_include(source, name, view.place(match.start("word")), match["word"], match["rest"], folders)
    return code


def _check_include(source: str, name: str, offset: int, word: str, rest: str, folders: Iterable[Path]) -> None:
    if word != "include":
        raise _refusal(source, name, offset, word, (f"#{word} is not allowed", _CUDA_ONLY))
    operand = _OPERAND.match(rest)
    if operand is None:
        why = ("#include must name its header itself, without a macro", 'Write #include <header.h> or "header.h".')
        raise _refusal(source, name, offset, word, why)
    header = operand["angled"] if operand["angled"] is not None else operand["quoted"]
    if not _PLAIN_NAME.fullmatch(header) or ".." in header.split("/"):
        raise _refusal(source, name, offset, word, (f'"{header}" is outside CUDA\'s include folders', _CUDA_ONLY))
    if not any((folder / header).is_file() for folder in folders):
        found = _diagnostic(source, name, offset, f'there is no header "{header}" for device code', word=header)
        raise CompileError(str(found), diagnostics=(found,), next_step=_ADVICE.get(header, _CUDA_ONLY))


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


def foreign_file(log: str, *, name: str, folders: Iterable[Path]) -> bool:
    """Whether a message in the log is about a file that is neither the source nor one of CUDA's headers."""
    known = tuple(f"{folder}/" for folder in folders)
    for match in re.finditer(r"^(\S[^\n]*?)\(\d+\): ", log, re.MULTILINE):
        if match[1] != name and not match[1].startswith(known):
            return True
    return False


def _refusal(source: str, name: str, offset: int, word: str, why: tuple[str, str]) -> PolicyError:
    found = _diagnostic(source, name, offset, f"not allowed: {why[0]}", word=word)
    return PolicyError(render((found,)), diagnostics=(found,), next_step=why[1])


def _diagnostic(source: str, name: str, offset: int, message: str, *, word: str) -> Diagnostic:
    line = line_of(source, offset)
    start = source.rfind("\n", 0, offset) + 1
    text = source[start:].split("\n", 1)[0]
    place = text.find(word, offset - start)
    return Diagnostic(name, line, (place if place >= 0 else offset - start) + 1, "error", message, text, (), len(word))
