"""The device's part of a file that has host code too: `main`, `<<<...>>>`, `#include <vector>`, any `__global__`.

NVRTC compiles device code alone, and has no headers of the host's. So what belongs to the host is blanked before it
sees the file, character for character, so that every line stays; and a kernel whose name only C++ knows gets
`extern "C"`, so that it can be called by the name it was given. No C++ parser: declarations at file scope, by brackets
and words. A file without host code, whose kernels are extern "C", stays what it is.
"""

from __future__ import annotations

import functools
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from warpschool.compile.source import DRIVER, blank

_INCLUDE = re.compile(
    r"^[^\S\n]*#[^\S\n]*include[^\S\n]*(?:<(?P<angled>[^>\n]+)>|\"(?P<quoted>[^\"\n]+)\")[^\n]*", re.MULTILINE
)
_DIRECTIVE = re.compile(r"^[^\S\n]*#(?:[^\n\\]|\\.|\\\n)*", re.M | re.S)
_MACRO = re.compile(r"^[^\S\n]*#[^\S\n]*define[^\S\n]+(?P<name>\w+)(?P<text>(?:[^\n\\]|\\.|\\\n)*)", re.M | re.S)
_KERNEL = re.compile(r"\b__global__\b")
_HOST_SIGNS = re.compile(r"<<<|\bmain\s*\(")
_TRANSPARENT = re.compile(r"(?:inline\s+)?namespace\b[\w\s:]*$|\bextern\s*\"C\"\s*$|\bextern\s+\"\s*\"\s*$")
_TYPE = re.compile(r"\b(?:class|struct|union|enum)\b")
_FOR_DEVICE = {
    "__device__", "__global__", "__constant__", "__managed__", "__shared__", "constexpr", "consteval", "concept",
}  # fmt: skip
_FOR_HOST = re.compile(
    r"(?<![\w:])(?:::)?std\s*::|\bcuda(?!::)[A-Z]\w*|\bcu(?:blas|fft|rand|sparse|solver)[A-Z]\w*|<<<|\bFILE\b"
    r"|\b(?:ifstream|ofstream|ostream|istream|stringstream|cout|cerr|string|vector|chrono|time_t|timeval|clock_t)\b"
)
_WORD = re.compile(r"[A-Za-z_]\w*")
_NO_VARIABLE = re.compile(r"\b(?:const|using|typedef|template|namespace|static_assert|friend|enum|asm)\b")
_USING_STD = re.compile(r"\busing\s+(?:namespace\s+)?(?:::)?std\b")
HOST_RUNTIME = frozenset({
    "cuda.h", "cudaTypedefs.h", "cuda_runtime.h", "cuda_runtime_api.h", "cuda_profiler_api.h", "cublas_v2.h",
    "cublas.h", "cublasLt.h", "cufft.h", "curand.h", "cusparse.h", "cusolverDn.h", "nvToolsExt.h", "helper_cuda.h",
    "helper_functions.h", "helper_timer.h",
    "helper_string.h", "helper_image.h", "device_launch_parameters.h", "driver_types.h",
})  # fmt: skip
"""CUDA's headers for the host: a compiler of device code has what a kernel needs of them built in."""


@dataclass(frozen=True)
class _Piece:
    """A declaration at file scope: from `start` to `end`; `head` is its text before a body or the semicolon."""

    start: int
    end: int
    head: str
    has_body: bool
    scope: str
    """"C" inside extern "C" { }, "C++" inside a namespace, "" at file scope"""


@functools.lru_cache(maxsize=256)
def device_part(source: str, *, header: bool = False) -> str:
    """The source with everything of the host's blanked, and its kernels extern "C" where they have a plain name.

    A `header` may have host code without having kernels.
    """
    if not header and not _KERNEL.search(source):
        return source
    code = blank(source)
    plain = _DIRECTIVE.sub(lambda m: re.sub(r"[^\n]", " ", m[0]), blank(source, strings=True))
    has_host = has_host_code(source)
    pieces = tuple(_pieces(plain, code))
    cuts = _host_pieces(pieces, plain, code) if has_host else []
    cuts += [m.span() for m in _INCLUDE.finditer(code) if has_host and _is_left_out(m)]
    text = _blanked(source, cuts)
    return _with_linkage(text, [piece for piece in pieces if _KERNEL.search(piece.head)])


def shifts(source: str) -> dict[int, int]:
    """By how many characters a line of the device's part is longer than the source's: those of its `extern "C"`."""
    pairs = zip(source.split("\n"), device_part(source).split("\n"), strict=True)
    longer = ((line, len(after) - len(before)) for line, (before, after) in enumerate(pairs, 1))
    return {line: by for line, by in longer if by}


@functools.lru_cache(maxsize=256)
def has_host_code(source: str) -> bool:
    """Whether a file launches kernels itself, or includes what only a host has."""
    if _HOST_SIGNS.search(_DIRECTIVE.sub("", blank(source, strings=True))):
        return True
    return any(_is_host_header(include) for include in _INCLUDE.finditer(blank(source)))


def _is_host_header(include: re.Match[str]) -> bool:
    name = include["angled"] or include["quoted"]
    return name in HOST_RUNTIME or (include["angled"] is not None and name in HOST_HEADERS)


def _is_left_out(include: re.Match[str]) -> bool:
    return _is_host_header(include) and include["angled"] not in DRIVER and include["quoted"] not in DRIVER


def _blanked(source: str, cuts: list[tuple[int, int]]) -> str:
    parts, at = [], 0
    for start, end in sorted(cuts):
        if start >= at:
            parts += [source[at:start], re.sub(r"[^\n]", " ", source[start:end])]
            at = end
    return "".join([*parts, source[at:]])


# ---------------------------------------------------------------- declarations at file scope


def _pieces(plain: str, code: str) -> Iterator[_Piece]:
    """The declarations of a file; namespaces and `extern "C"` blocks are looked into. Strings are blank in `plain`."""
    start, at = 0, 0
    scopes: list[str] = []
    while at < len(plain):
        char = plain[at]
        if char in "([":
            at = _closing(plain, at)
        elif char == ";":
            yield _Piece(start, at + 1, plain[start:at], False, _scope(scopes))
            start = at + 1
        elif char == "}":
            start = at + 1
            if scopes:
                scopes.pop()
        elif char == "{":
            head = code[start:at]
            if opened := _TRANSPARENT.search(head.rstrip()):
                scopes.append("C" if opened[0].startswith("extern") else "C++")
                start = at + 1
            else:
                piece = _with_body(plain, start, at, _scope(scopes))
                yield piece
                at, start = piece.end - 1, piece.end
        at += 1


def _with_body(plain: str, start: int, opened: int, scope: str) -> _Piece:
    """A declaration with braces: a function's end with them, others with the semicolon behind."""
    head = plain[start:opened]
    last = _closing(plain, opened)
    words = r"\b(?:__launch_bounds__|__align__|alignas|__attribute__|_Pragma)\s*\([^()]*\)"
    is_function = "(" in re.sub(words, "", head)
    is_function = is_function and not re.search(r"=\s*$", head)
    if not is_function:
        behind = re.compile(r"[^;{}()]*;").match(plain, last + 1)
        last = behind.end() - 1 if behind else last
    return _Piece(start, last + 1, head, True, scope)


def _scope(scopes: list[str]) -> str:
    return "C++" if "C++" in scopes else "C" if scopes else ""


def _closing(text: str, opened: int) -> int:
    """Offset of the bracket that closes the one at `opened`; the last character where none does."""
    depth = 0
    for match in re.compile(r"[][{}()]").finditer(text, opened):
        depth += 1 if match[0] in "([{" else -1
        if not depth:
            return match.start()
    return len(text) - 1


# ---------------------------------------------------------------- whose declaration it is


def _host_pieces(pieces: tuple[_Piece, ...], plain: str, code: str) -> list[tuple[int, int]]:
    """What a compiler of device code must not see: host functions, and what speaks of the host and of no kernel."""
    device = _FOR_DEVICE | _device_macros(code)
    texts = [plain[piece.start : piece.end] for piece in pieces]
    are_device = [
        not device.isdisjoint(re.findall(r"\w+", text if _is_type(piece) else piece.head))
        for piece, text in zip(pieces, texts, strict=True)
    ]
    kept = (text for text, is_device in zip(texts, are_device, strict=True) if is_device)
    used = {word for text in kept for word in _WORD.findall(text)}
    cuts = []
    for piece, text, is_device in zip(pieces, texts, are_device, strict=True):
        is_function = piece.has_body and "(" in piece.head and not _is_type(piece)
        is_hosts = _is_variable(piece) or (_FOR_HOST.search(text) is not None and used.isdisjoint(_declared(piece)))
        if not is_device and (is_function or is_hosts or _USING_STD.search(text)):
            cuts.append((piece.end - len(text.lstrip()), piece.end))  # directives before it stay
    return cuts


def _is_type(piece: _Piece) -> bool:
    before = re.sub(r"template\s*<[^{}]*?>", " ", piece.head).split("(")[0]
    return _TYPE.search(before) is not None


def _is_variable(piece: _Piece) -> bool:
    """A variable of the host's; constants may be used by kernels too."""
    if _is_type(piece) or _NO_VARIABLE.search(piece.head) or "(" in piece.head.split("=")[0]:
        return False
    return len(_WORD.findall(piece.head.split("=")[0])) > 1


def _declared(piece: _Piece) -> list[str]:
    """The names that a type, an alias or a variable is known by."""
    if _is_type(piece):
        return re.findall(r"\b(?:class|struct|union|enum)\s+(?:class\s+)?(\w+)", piece.head)
    return _WORD.findall(piece.head.split("=")[0])[-1:]


def _device_macros(code: str) -> set[str]:
    """Names of macros that stand for `__device__` and its like, also by way of another one."""
    texts = {match["name"]: set(re.findall(r"\w+", match["text"])) for match in _MACRO.finditer(code)}
    found: set[str] = set()
    while more := {name for name, words in texts.items() if name not in found and words & (_FOR_DEVICE | found)}:
        found |= more
    return found


# ---------------------------------------------------------------- linkage

_NAMED = re.compile(r"(?P<name>[A-Za-z_]\w*)\s*\($")
_BOUNDS = re.compile(
    r"\b(?:__launch_bounds__|__cluster_dims__|__maxnreg__|__block_size__|__attribute__|alignas|_Pragma)\s*\("
)
_PRAGMAS = re.compile(r"(?:\s*_Pragma\s*\([^()]*\))*\s*")
"""What may stand before a declaration, and before its linkage."""


def _with_linkage(source: str, kernels: list[_Piece]) -> str:
    """Kernels with a name of their own, at file scope and no templates, become extern "C"; all their declarations."""
    named = [(piece, kernel_name(piece.head)) for piece in kernels]
    bodies = Counter(name for piece, name in named if piece.has_body)
    parts, at = [], 0
    for piece, name in named:
        is_plain = not piece.scope and not re.search(r"\b(?:template|extern)\b", piece.head)
        if not is_plain or bodies[name] != 1:
            continue
        before = _PRAGMAS.match(piece.head)
        place = piece.start + (before.end() if before is not None else 0)
        end = piece.start + len(piece.head)
        head = re.sub(r"\b(?:static|inline)\b", lambda m: " " * len(m[0]), source[place:end])
        parts += [source[at:place], 'extern "C" ', head]
        at = end
    return "".join([*parts, source[at:]])


def kernel_name(head: str) -> str:
    """The name that a kernel's declaration gives it; "" where none can be read."""
    text = head
    while bounds := _BOUNDS.search(text):
        end = _closing(text, bounds.end() - 1)
        text = text[: bounds.start()] + " " * (end + 1 - bounds.start()) + text[end + 1 :]
    opened = text.find("(")
    match = _NAMED.search(text[: opened + 1]) if opened >= 0 else None
    return match["name"] if match else ""


HOST_HEADERS = frozenset(  # names in quotes, each, would be harder to read
    """algorithm any array atomic bit bitset cassert ccomplex cctype cerrno cfenv charconv chrono cinttypes ciso646
    clocale codecvt compare complex concepts condition_variable coroutine csetjmp csignal cstdarg cstdbool
    ctime cuchar cwchar cwctype deque exception execution expected filesystem format forward_list fstream functional
    future initializer_list iomanip ios iosfwd iostream istream iterator latch list locale map memory
    memory_resource mutex new numbers numeric optional ostream queue random ranges ratio regex scoped_allocator
    semaphore set shared_mutex source_location span sstream stack stdexcept stop_token streambuf string string_view
    strstream syncstream system_error thread tuple type_traits typeindex typeinfo unordered_map unordered_set utility
    valarray variant vector version ctype.h errno.h fenv.h inttypes.h locale.h setjmp.h signal.h stdarg.h time.h
    wchar.h wctype.h complex.h unistd.h getopt.h malloc.h memory.h strings.h fcntl.h dirent.h pthread.h sched.h
    omp.h mpi.h sys/time.h sys/types.h sys/stat.h sys/mman.h sys/resource.h sys/times.h sys/wait.h sys/ioctl.h
    sys/timeb.h windows.h intrin.h immintrin.h x86intrin.h emmintrin.h xmmintrin.h""".split()  # noqa: SIM905 - as said
)
"""Standard and system headers that device code has no use for."""
