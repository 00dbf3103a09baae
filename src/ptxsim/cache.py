"""The compile cache: small files, named by a hash of all that they depend on.

Nothing here ever raises for what the disk does: an entry that cannot be read is a miss, one that cannot be written is
written elsewhere or not at all.
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from ptxsim import system

_FORMAT = 1
_MOST_ENTRIES = 4096
_STALE_S = 3600.0


class _Place:
    """Where this process writes, if that is not the user's cache folder; see `write_only_to`."""

    is_elsewhere = False
    folder: Path | None = None


def write_only_to(folder: Path | None) -> None:
    """Read the user's cache from now on, but write into this folder, or nowhere.

    For a process whose work may turn against it: what it leaves is read by nobody who was not told this folder.
    """
    _Place.is_elsewhere, _Place.folder = True, folder


def content_key(*parts: str) -> str:
    """A hash of several texts that no other list of texts shares."""
    digest = hashlib.sha256(f"warpschool compile {_FORMAT}".encode())
    for part in parts:
        data = part.encode("utf-8", "surrogatepass")
        digest.update(len(data).to_bytes(8, "little") + data)
    return digest.hexdigest()[:40]


def cache_root() -> Path:
    """$WARPSCHOOL_CACHE, else $XDG_CACHE_HOME/warpschool, else ~/.cache/warpschool."""
    if os.environ.get("WARPSCHOOL_CACHE"):
        return Path(os.environ["WARPSCHOOL_CACHE"])
    if os.path.isabs(os.environ.get("XDG_CACHE_HOME", "")):
        return Path(os.environ["XDG_CACHE_HOME"]) / "warpschool"
    return Path(os.path.expanduser("~")) / ".cache" / "warpschool"


def load(kind: str, key: str) -> dict[str, Any] | None:
    """The entry `key`, or None if no whole, unharmed one can be read."""
    for folder in (*_folders(kind), *_own_folder(kind)):
        try:
            checksum, body = (folder / f"{key}.json").read_bytes().split(b"\n", 1)
            if checksum.decode() == hashlib.sha256(body).hexdigest():
                entry = json.loads(body)
                if isinstance(entry, dict):
                    return entry
        except (OSError, ValueError):
            continue
    return None


def store(kind: str, key: str, entry: dict[str, Any]) -> bool:
    """Write an entry so that other processes see all of it or nothing; False where no folder takes it."""
    body = json.dumps(entry, sort_keys=True).encode()
    data = hashlib.sha256(body).hexdigest().encode() + b"\n" + body
    places = _own_folder(kind) if _Place.is_elsewhere else _folders(kind)
    return any(_write(folder, f"{key}.json", data) for folder in places)


def writable_folder(kind: str) -> Path | None:
    """The first folder for entries of this kind that can be made and written to; None where there is none."""
    for folder in _folders(kind):
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError:
            continue
        if os.access(folder, os.W_OK | os.X_OK):
            return folder
    return None


def folders() -> list[Path]:
    """The folders in which entries of all kinds may be."""
    return [folder.parent for folder in _folders("any")]


def _folders(kind: str) -> Iterator[Path]:
    """Where entries may be: the user's cache folder, then a private temporary one."""
    yield cache_root() / kind
    fallback = _private_temporary(tempfile.gettempdir())
    if fallback is not None:
        yield Path(fallback) / kind


def _own_folder(kind: str) -> list[Path]:
    return [_Place.folder / kind] if _Place.folder is not None else []


@functools.cache
def _private_temporary(base: str) -> str | None:
    """A folder below the temporary one that only this user can write: others must not plant entries there."""
    return system.private_folder(base, "warpschool")


def _write(folder: Path, name: str, data: bytes) -> bool:
    temporary = ""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(prefix=".part-", dir=folder)
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        os.replace(temporary, folder / name)
    except OSError:
        if temporary:
            _remove(temporary)
        return False
    _prune(folder)
    return True


@functools.cache
def _prune(folder: Path) -> None:
    """Once per process: drop what killed writers left behind, and the older half of too many entries."""
    with suppress(OSError):
        found = [(entry.stat().st_mtime, entry.path, entry.name) for entry in os.scandir(folder)]
        stale = time.time() - _STALE_S
        for modified, path, name in found:
            if name.startswith(".part-") and modified < stale:
                _remove(path)
        entries = sorted((m, path) for m, path, name in found if name.endswith(".json"))
        if len(entries) > _MOST_ENTRIES:
            for _, path in entries[: len(entries) // 2]:
                _remove(path)


def _remove(path: str) -> None:
    with suppress(OSError):
        os.unlink(path)
