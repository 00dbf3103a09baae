"""The worker process: runs NVRTC, and nothing else. Started as a script by `processes.py`, never imported by it.

It compiles, or forks compilers that inherit a loaded NVRTC: nothing of a source ever reaches the one that forks. A
compiler speaks frames on its standard input and output, and may read CUDA's headers only (Landlock, where the kernel
has it). It ends when its parent ends. What it imports besides the standard library is found once `main` has its
arguments.

NVRTC does some things in the order of addresses: the same source had other PTX, now and then. So each request is
compiled by a fork, which applies its limits to itself, in a thread, whose memory begins empty: whatever was compiled
before, and whatever this process has read, NVRTC finds the same addresses (`system.start`, `system.apart`); and it
finds those of every other installation, whichever Python this is (`system.line_up`). It keeps the names of headers,
too, and what comes behind a longer one lies elsewhere: so folders have other names here, the same everywhere, which
the parent takes back in the log and the PTX.
"""

from __future__ import annotations

import ctypes
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:  # typing takes milliseconds to import, and every one of them is waited for
    from typing import Any, BinaryIO
_PR_SET_NO_NEW_PRIVS = 38
_LANDLOCK_CREATE_RULESET, _LANDLOCK_ADD_RULE, _LANDLOCK_RESTRICT_SELF = 444, 445, 446
_LANDLOCK_READ = 1 << 0 | 1 << 2 | 1 << 3  # execute, read a file, list a folder
_LANDLOCK_ALL = (1 << 13) - 1  # everything that the first version of Landlock knows
_FIRST_FOLDER = 100  # above all numbers that files of a compilation get


def read_frame(source: BinaryIO) -> list[bytes] | None:
    """The next five fields, or None at the end of input."""
    head = source.read(20)
    sizes = [int.from_bytes(head[at : at + 4], "little") for at in range(0, 20, 4)]
    return [source.read(size) for size in sizes] if head else None


def write_frame(target: BinaryIO, fields: list[bytes]) -> None:
    """Send five fields: first their sizes, 4 bytes little-endian each."""
    target.write(b"".join(len(field).to_bytes(4, "little") for field in fields) + b"".join(fields))
    target.flush()


def close_file_system(readable: list[str]) -> bool:
    """Let this process open nothing but files below `readable` from now on; False where the kernel has no Landlock."""
    if sys.platform != "linux":
        return False
    libc = ctypes.CDLL(None, use_errno=True)
    rights = ctypes.c_uint64(_LANDLOCK_ALL)
    ruleset = libc.syscall(_LANDLOCK_CREATE_RULESET, ctypes.byref(rights), ctypes.c_size_t(8), 0)
    if ruleset < 0:
        return False
    for folder in readable:
        handle = os.open(folder, os.O_PATH | os.O_CLOEXEC)
        rule = _LANDLOCK_READ.to_bytes(8, "little") + handle.to_bytes(4, "little")
        failed = libc.syscall(_LANDLOCK_ADD_RULE, ruleset, 1, rule, 0)
        os.close(handle)
        if failed:
            return False
    return libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 and libc.syscall(_LANDLOCK_RESTRICT_SELF, ruleset, 0) == 0


def fixed_names(folders: list[str]) -> dict[str, str]:
    """Open folders, and give each a name that does not depend on where it is; nothing where there are no such names."""
    if sys.platform != "linux":
        return {}
    names = {}
    for number, folder in enumerate(folders, _FIRST_FOLDER):
        try:
            handle = os.open(folder, os.O_PATH | os.O_DIRECTORY)
            os.dup2(handle, number, inheritable=False)
            os.close(handle)
            names[folder] = f"/proc/self/fd/{number}"
            if not os.path.samefile(folder, names[folder]):
                return {}
        except OSError:  # no /proc, or not as many files as that
            return {}
    return names


def load_builtins(folder: str) -> None:
    """Load what NVRTC opens by name at its first compilation: a toolkit's NVRTC does not look beside itself."""
    for entry in os.listdir(folder):
        if entry.startswith(("libnvrtc-builtins.so.", "nvrtc-builtins64_")):
            ctypes.CDLL(os.path.join(folder, entry), mode=ctypes.RTLD_GLOBAL)


def compile_program(
    nvrtc: Any, source: bytes, name: bytes, options: list[bytes], more: More, most_log: int, most_ptx: int
) -> list[bytes]:
    """Run NVRTC once: the result's name, the log (cut at `most_log`), the PTX, its full size, and the symbols' names.

    For a real architecture the code is the cubin's, in hexadecimal digits.
    """
    error, program = nvrtc.nvrtcCreateProgram(source, name, len(more.headers), more.headers, more.names)
    if error:
        return [error.name.encode(), b"", b"", b"0", b""]
    for expression in more.expressions:
        nvrtc.nvrtcAddNameExpression(program, expression)
    (result,) = nvrtc.nvrtcCompileProgram(program, len(options), options)
    log = _text(nvrtc.nvrtcGetProgramLogSize, nvrtc.nvrtcGetProgramLog, program)[:most_log]
    ptx, size, symbols = b"", 0, b""
    if not result:
        is_real = any(option.startswith(b"-arch=sm_") for option in options)
        kinds = ("CUBINSize", "CUBIN") if is_real else ("PTXSize", "PTX")
        get_size, get_code = (getattr(nvrtc, f"nvrtcGet{kind}") for kind in kinds)
        size = get_size(program)[1]
        if size <= most_ptx >> is_real:
            ptx = _code(get_size, get_code, program) if is_real else _text(get_size, get_code, program)
        symbols = b"\n".join(nvrtc.nvrtcGetLoweredName(program, one)[1] for one in more.expressions)
    nvrtc.nvrtcDestroyProgram(program)
    return [result.name.encode(), log, ptx, str(size).encode(), symbols]


class More:
    """What few compilations have: headers beside the source, and kernels of templates, asked for by name."""

    def __init__(self, data: bytes) -> None:
        """`data`: count of headers, then each one's name and text, then the expressions; NUL between."""
        count, *fields = data.split(b"\0") if data else (b"0",)
        both = 2 * int(count)
        self.names, self.headers, self.expressions = fields[:both:2], fields[1:both:2], fields[both:]


def _text(get_size: Any, get_text: Any, program: Any) -> bytes:
    """NVRTC's text of one kind; the bindings fill a bytes object, which must not be one that Python shares."""
    size = get_size(program)[1]
    if size <= 1:
        return b""
    buffer = b" " * size
    get_text(program, buffer)
    return buffer.rstrip(b"\0")


def _code(get_size: Any, get_code: Any, program: Any) -> bytes:
    """Binary code of one kind, in hexadecimal digits."""
    buffer = b" " * get_size(program)[1]
    get_code(program, buffer)
    return buffer.hex().encode()


class Nvrtc:
    """NVRTC, loaded into this process."""

    def __init__(self, library: str, folders: list[str]) -> None:
        """Raises whatever stands in the way."""
        from cuda.bindings import nvrtc

        from ptxsim import system

        at, name = os.path.split(library)
        self.readable = [at, *folders]
        self.names = fixed_names(self.readable)
        folder = self.names.get(at, at)
        system.line_up(library)
        try:
            ctypes.CDLL(os.path.join(folder, name), mode=ctypes.RTLD_GLOBAL)
        except OSError as problem:
            raise OSError(str(problem).replace(folder, at)) from None
        load_builtins(folder)
        self.calls = nvrtc
        _, major, minor = nvrtc.nvrtcVersion()
        self.version, self.archs = f"{major}.{minor}", nvrtc.nvrtcGetSupportedArchs()[1]

    def serve(self, stdin: BinaryIO, stdout: BinaryIO) -> None:
        """Compile what comes, until nothing does; only files in the folders can be opened from here on."""
        from ptxsim import system

        closed = close_file_system(self.readable)
        known = " ".join(map(str, self.archs)).encode()
        names = b"\0".join(os.fsencode(text) for pair in self.names.items() for text in pair)
        write_frame(stdout, [b"ready", self.version.encode(), known, b"%d" % closed, names])
        while (request := read_frame(stdin)) is not None:
            system.apart(stdin.fileno(), self._answer, request, stdout)

    def _answer(self, request: list[bytes], stdout: BinaryIO) -> None:
        """Answer a request, within its limits."""
        from ptxsim import system

        limits, source, name, options, more = request
        cpu_s, memory_bytes, most_log, most_ptx = limits.split()
        system.limit_next(float(cpu_s), int(memory_bytes) + system.APART_STACK_BYTES)
        try:
            answer = compile_program(
                self.calls, source, name, options.split(b"\n"), More(more), int(most_log), int(most_ptx)
            )
        except MemoryError:
            answer = [b"NVRTC_ERROR_OUT_OF_MEMORY", b"", b"", b"0", b""]
        system.limit_next(0)
        write_frame(stdout, answer)


def taken_streams() -> tuple[BinaryIO, BinaryIO]:
    """Standard input and output, for frames: NVRTC must not be able to write into them."""
    stdin, stdout = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    nothing = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(nothing, fd)
    return stdin, stdout


def compile_for(parent: int, by_signal: bool, library: str, folders: list[str]) -> None:
    """Compile for the process that has started this one."""
    from ptxsim import system

    stdin, stdout = taken_streams()
    system.limit(file_bytes=0)
    try:
        nvrtc = Nvrtc(library, folders)
    except BaseException as problem:  # whatever it is, the parent has to be told
        write_frame(stdout, [b"missing", f"{type(problem).__name__}: {problem}".encode(), b"", b"", b""])
        return
    if by_signal:  # else the end of its input tells; a thread that watches would take memory of its own
        system.die_with_parent(parent)
    nvrtc.serve(stdin, stdout)


def fork_for(parent: int, by_signal: bool, library: str, folders: list[str]) -> None:
    """Fork a compiler for each pair of pipes that comes through the socket that is standard input. Linux only."""
    import socket

    from ptxsim import system

    requests = socket.socket(fileno=os.dup(0))
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    system.limit(file_bytes=0)
    nvrtc, me = Nvrtc(library, folders), os.getpid()
    if by_signal:
        system.die_with_parent(parent)
    while True:
        data, pipes, _, _ = socket.recv_fds(requests, 1, 2)
        _reap(os.WNOHANG if data else 0)
        if not data:
            return
        if os.fork() == 0:
            requests.close()
            os.setsid()
            for number, pipe in enumerate(pipes):
                os.dup2(pipe, number)
                os.close(pipe)
            stdin, stdout = taken_streams()
            system.die_with_parent(me)
            nvrtc.serve(stdin, stdout)
            os._exit(0)
        for pipe in pipes:
            os.close(pipe)


def _reap(how: int) -> None:
    try:
        while os.waitpid(-1, how)[0]:
            pass
    except ChildProcessError:
        pass


def main() -> None:
    """Arguments: what to do, parent's process id, 1 if its main thread started us, path of libnvrtc, folders of
    headers (joined as in PATH), entries of the parent's import path."""
    what, parent, by_signal, library, folders, *import_path = sys.argv[1:]
    sys.path.extend(import_path)
    from ptxsim import system

    system.usual_layout()
    work = {"compile": compile_for, "fork": fork_for}[what]
    work(int(parent), by_signal == "1", library, folders.split(os.pathsep))


if __name__ == "__main__":
    main()
