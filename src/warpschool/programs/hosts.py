"""Places in host code: return addresses of the program as functions, files and lines."""

from __future__ import annotations

import os
import re
import shutil
import struct
import subprocess
from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from warpschool.programs.report import HostFrame
from warpschool.programs.tools import NAME

_MAP = re.compile(r"([0-9a-f]+)-([0-9a-f]+) \S+ ([0-9a-f]+) \S+ \S+\s+(/.*)")
_SYSTEM = ("/lib/", "/lib64/", "/usr/lib/", "/usr/lib64/")
_STUBS = re.compile(r"^__device_stub__|^__wrapper__device_stub_|\b__cudaLaunchKernel_helper\b|^cudaError\b")
_FIXED = 2  # ET_EXEC: a file that lies where it says, not wherever the loader puts it
Place = tuple[str, int]
"""A file that was loaded, and an address in it."""


@dataclass(frozen=True)
class Loaded:
    """What lay where in the program's process."""

    starts: tuple[int, ...]
    ends: tuple[int, ...]
    files: tuple[str, ...]

    @staticmethod
    def of(pid: int) -> Loaded:
        """Nothing, where the process is gone or may not be looked at."""
        try:
            text = Path(f"/proc/{pid}/maps").read_text("utf-8", "replace")
        except OSError:
            text = ""
        return Loaded.read(text)

    @staticmethod
    def read(text: str) -> Loaded:
        """Of the text of /proc/PID/maps."""
        found = [(int(m[1], 16), int(m[2], 16), m[4]) for m in _MAP.finditer(text)]
        return Loaded(*(tuple(column) for column in zip(*found, strict=True))) if found else Loaded((), (), ())

    @cached_property
    def bases(self) -> dict[str, int]:
        """File -> what is to be taken off an address to get the file's own."""
        first: dict[str, int] = {}
        for start, file in zip(self.starts, self.files, strict=True):
            first.setdefault(file, start)
        return {file: 0 if _is_fixed(file) else start for file, start in first.items()}

    def place(self, address: int) -> Place | None:
        """Where an address belongs, if that is the program or a library of its user's."""
        k = bisect_right(self.starts, address) - 1
        if k < 0 or address >= self.ends[k]:
            return None
        file = self.files[k]
        if file.startswith(_SYSTEM) or os.path.basename(file) == NAME:
            return None
        return file, address - self.bases[file]

    def places(self, callers: Iterable[int]) -> tuple[Place, ...]:
        """Of return addresses: the calls lie just before them."""
        return tuple(found for address in callers if (found := self.place(address - 1)) is not None)


def _is_fixed(file: str) -> bool:
    try:
        with open(file, "rb") as opened:
            head = opened.read(20)
        return struct.unpack_from("<H", head, 16)[0] == _FIXED
    except (OSError, struct.error):
        return False


def frames(places: Iterable[tuple[Place, ...]]) -> dict[tuple[Place, ...], tuple[HostFrame, ...]]:
    """Stacks of places as functions, files and lines, by addr2line; frames that nvcc made are left out."""
    wanted = dict.fromkeys(places)
    by_file: dict[str, set[int]] = {}
    for stack in wanted:
        for file, address in stack:
            by_file.setdefault(file, set()).add(address)
    known: dict[Place, list[HostFrame]] = {}
    for file, addresses in by_file.items():
        known |= {(file, address): found for address, found in _looked_up(file, sorted(addresses)).items()}
    return {stack: _shown([frame for place in stack for frame in known.get(place, [])]) for stack in wanted}


def _shown(stack: list[HostFrame]) -> tuple[HostFrame, ...]:
    kept: list[HostFrame] = []
    for frame in stack:
        if _STUBS.search(frame.function) or "tmpxft" in frame.file or frame.file.endswith(".cudafe1.stub.c"):
            continue
        if frame.file.endswith("cuda_runtime.h") or not frame.line:
            continue
        if not kept or kept[-1] != frame:
            kept.append(frame)
        if frame.function == "main":
            break
    return tuple(kept)


def _looked_up(file: str, addresses: list[int]) -> dict[int, list[HostFrame]]:
    tool = shutil.which("addr2line")
    if tool is None or not addresses:
        return {}
    text = "".join(f"{address:#x}\n" for address in addresses)
    try:
        said = subprocess.run(
            [tool, "-e", file, "-f", "-C", "-i", "-a"], input=text, capture_output=True, text=True, timeout=60
        ).stdout
    except (OSError, subprocess.TimeoutExpired):
        return {}
    found: dict[int, list[HostFrame]] = {}
    lines = iter(said.splitlines())
    current: list[HostFrame] = []
    for line in lines:
        if re.fullmatch(r"0x[0-9a-f]+", line):
            current = found.setdefault(int(line, 16), [])
            continue
        path, _, number = next(lines, "??:0").rpartition(":")
        number = number.split(" ")[0]
        name = line.partition("(")[0] if line != "??" else ""
        current.append(HostFrame(name, path if path != "??" else "", int(number) if number.isdigit() else 0))
    return found
