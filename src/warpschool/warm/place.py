"""Where a warm process listens. The socket's name says what is loaded there: another version is another name.

Whoever asks has just been started and wants to be quick: this module needs the standard library's small modules only.
"""

from __future__ import annotations

import hashlib
import os
import site
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

SWITCH = "WARPSCHOOL_WARM"
_PACKAGES = ("ptxsim", "warpschool", "warpcourse")
_SOURCES = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
_NOT_LOADED = ("__pycache__", "_content")
_READ_ONCE = (
    "PYTHON", "LD_", "LC_", "LANG", "TMPDIR", "HOME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "WARPSCHOOL_", "CUDA_",
    "CONDA_PREFIX", "OPENBLAS_", "GOTO_", "OMP_", "MKL_", "NPY_", "MALLOC_", "GLIBC_", "TERMINAL_WIDTH", "FORCE_COLOR",
    "PY_COLORS", "GITHUB_ACTIONS", "TYPER_",
)  # fmt: skip
"""How the environment's variables begin that Python, its libraries or this one read once, when they are loaded."""
_NOT_READ = (SWITCH, "PYTHONSTARTUP", "PYTHON_", "PYTHONDONTWRITEBYTECODE", "PYTHONUNBUFFERED")
_FLAGS = ("optimize", "isolated", "ignore_environment", "no_site", "no_user_site", "utf8_mode", "dev_mode")
_NAMESPACES = ("mnt", "user", "pid", "net", "ipc", "cgroup")
_LONGEST_PATH = 100  # bytes of a socket's address, of which Linux takes 107


def is_wanted() -> bool:
    """Whether checks may use a warm process: on Linux, unless WARPSCHOOL_WARM=0 or CI says that nobody waits."""
    return sys.platform == "linux" and os.environ.get(SWITCH) != "0" and not os.environ.get("CI")


def socket_path() -> str | None:
    """Where the process that fits this one listens, whether it runs or not; None where there is no private folder."""
    folder = private_folder()
    path = f"{folder}/{_fingerprint()}" if folder else ""
    return path if path and len(os.fsencode(path)) <= _LONGEST_PATH else None


def private_folder() -> str | None:
    """A folder that only this user may enter, made if need be; None where it belongs to another or is open to them."""
    user, runtime = os.getuid(), os.environ.get("XDG_RUNTIME_DIR", "")
    if _is_private(runtime, user):
        return _made(f"{runtime}/warpschool", user)
    base = _made(f"{os.environ.get('TMPDIR') or '/tmp'}/warpschool-{user}", user, inside=True)
    return _made(f"{base}/warm", user) if base else None


def _made(folder: str, user: int, *, inside: bool = False) -> str | None:
    try:
        os.mkdir(folder, 0o700)
    except FileExistsError:
        pass
    except OSError:
        return None
    return folder if _is_private(folder, user, forbidden=0o022 if inside else 0o077) else None


def _is_private(folder: str, user: int, *, forbidden: int = 0o077) -> bool:
    """Whether it is a folder of this user's, no link, and others have none of the forbidden rights."""
    try:
        state = os.lstat(folder)
    except OSError:
        return False
    return os.path.isabs(folder) and state.st_mode & 0o170000 == 0o040000 and (
        state.st_uid == user and not state.st_mode & forbidden
    )  # fmt: skip


def import_path() -> str:
    """PYTHONPATH as a process in another folder has to see it."""
    given = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    return os.pathsep.join(os.path.realpath(path) for path in given if path)


def _fingerprint() -> str:
    """Names all that a forked check takes over from the process: interpreter, packages, rights, environment."""
    settings = {key: value for key, value in os.environ.items() if key.startswith(_READ_ONCE)}
    settings = {key: value for key, value in settings.items() if not key.startswith(_NOT_READ)}
    settings["PYTHONPATH"] = import_path()
    about = (
        sys.executable, sys.prefix, sys.version, [getattr(sys.flags, name) for name in _FLAGS],
        os.getresuid(), os.getresgid(), os.getgroups(), [_link(f"/proc/self/ns/{name}") for name in _NAMESPACES],
        sorted(settings.items()), [(path, _changed(path)) for path in _installed()], sorted(_files()),
    )  # fmt: skip
    return hashlib.blake2b(repr(about).encode("utf-8", "surrogateescape"), digest_size=12).hexdigest()


def _installed() -> list[str]:
    """Folders of installed packages, whose time changes when something is installed."""
    own = site.getusersitepackages() if site.ENABLE_USER_SITE else ""
    return [*site.getsitepackages(), *([own] if own else [])]


def _files() -> Iterator[tuple[str, int, int]]:
    """Every file of the three packages but the course's content: path, last change, bytes."""
    left = [os.path.join(_SOURCES, name) for name in _PACKAGES]
    while left:
        try:
            entries = list(os.scandir(left.pop()))
        except OSError:
            continue
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                left += [entry.path] if entry.name not in _NOT_LOADED else []
            else:
                state = entry.stat()
                yield entry.path, state.st_mtime_ns, state.st_size


def _changed(path: str) -> int:
    try:
        return os.stat(path).st_mtime_ns
    except OSError:
        return 0


def _link(path: str) -> str:
    try:
        return os.readlink(path)
    except OSError:
        return ""
