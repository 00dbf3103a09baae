"""Machine code for the clock's measurements: compiled here by the pinned NVRTC, looked at, and packed to be carried.

What is timed on a GPU is the very cubin that was compiled and disassembled here: both sides name it by its digest.
"""

from __future__ import annotations

import hashlib
import os
import re
import struct
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
CARRIED = HERE / ".clock"
"""What travels to the machine with the GPU; git ignores it."""
INSTRUCTION = 16
_CODE = 1 << 12
"""Bits 0 to 11 of an instruction are its opcode."""
FFMA = 0x223
"""FFMA with three registers."""


class NotCompiled(RuntimeError):
    """NVRTC refused a source; the message is its log."""


def compile_cubin(source: str, name: str, options: Sequence[str]) -> bytes:
    """NVRTC's cubin of a source. Raises NotCompiled."""
    from cuda.bindings import nvrtc

    program = _checked(nvrtc.nvrtcCreateProgram(source.encode(), name.encode(), 0, [], []))
    status = nvrtc.nvrtcCompileProgram(program, len(options), [option.encode() for option in options])[0]
    if int(status):
        log = b" " * _checked(nvrtc.nvrtcGetProgramLogSize(program))
        nvrtc.nvrtcGetProgramLog(program, log)
        raise NotCompiled(log.decode(errors="replace").rstrip("\0 \n")[:2000])
    code = b" " * _checked(nvrtc.nvrtcGetCUBINSize(program))
    nvrtc.nvrtcGetCUBIN(program, code)
    nvrtc.nvrtcDestroyProgram(program)
    return code


def _checked(answer: tuple) -> Any:
    if int(answer[0]):
        raise RuntimeError(str(answer[0]))
    return answer[1]


def include_options() -> list[str]:
    """-I for CUDA's headers and our own."""
    from warpschool.compile import find_toolchain

    return [f"-I{folder}" for folder in find_toolchain().folders]


def sections(code: bytes) -> Iterator[tuple[str, int, int]]:
    """Name, offset and size of each section of an ELF file of 64 bits."""
    table, entry_size, count, names_at = (
        *struct.unpack_from("<Q", code, 0x28), *struct.unpack_from("<HHH", code, 0x3A)
    )  # fmt: skip
    rows = [struct.unpack_from("<IIQQQQ", code, table + k * entry_size) for k in range(count)]
    names = rows[names_at][4]
    for name, _, _, _, offset, size in rows:
        text = code[names + name : code.index(b"\0", names + name)].decode()
        yield text, offset, size


def text_digest(code: bytes) -> str:
    """SHA-256 of the machine code alone, kernels in the order of their names."""
    parts = sorted((name, code[at : at + size]) for name, at, size in sections(code) if name.startswith(".text."))
    return hashlib.sha256(b"".join(name.encode() + body for name, body in parts)).hexdigest()


def nvdisasm() -> str:
    """The disassembler of the pip package, or that of a toolkit. Raises FileNotFoundError."""
    for folder in (*map(Path, sys.path), Path("/")):
        for place in ("nvidia/cu13/bin/nvdisasm", "usr/local/cuda/bin/nvdisasm"):
            if os.access(folder / place, os.X_OK):
                return str(folder / place)
    raise FileNotFoundError("nvdisasm is missing: pip install nvidia-cuda-nvdisasm")


_LINE = re.compile(r"/\*([0-9a-f]{4,})\*/\s+(@!?U?P\w+\s+)?([A-Z][\w.]*)(.*?);")


@dataclass(frozen=True)
class Sass:
    """One instruction as nvdisasm prints it; `target` is where a branch leads to, -1 for none."""

    offset: int
    opcode: str
    operands: str
    guarded: bool
    target: int = -1


def disassemble(cubin: Path) -> dict[str, list[Sass]]:
    """The instructions of each kernel."""
    text = subprocess.run([nvdisasm(), "-c", str(cubin)], capture_output=True, text=True, check=True).stdout
    found: dict[str, list[Sass]] = {}
    labels: dict[str, int] = {}
    kernel, waiting = "", list[str]()
    for line in map(str.strip, text.splitlines()):
        if match := re.match(r"\.text\.(\w+):", line):
            kernel = match[1]
            found[kernel] = []
        elif match := re.match(r"(\.L_\w+):", line):
            waiting.append(match[1])
        elif kernel and (match := _LINE.search(line)):
            offset = int(match[1], 16)
            labels |= dict.fromkeys(waiting, offset)
            waiting.clear()
            found[kernel].append(Sass(offset, match[3], match[4].strip(), bool(match[2])))
    return {name: [_with_target(i, labels) for i in code] for name, code in found.items()}


def _with_target(i: Sass, labels: Mapping[str, int]) -> Sass:
    match = re.search(r"(\.L_\w+)", i.operands)
    return replace(i, target=labels.get(match[1], -1)) if match and i.opcode.startswith("BRA") else i


def largest_loop(code: Sequence[Sass]) -> list[Sass]:
    """The largest loop that has no other loop in it."""
    ends = {i.offset: i.target for i in code if 0 <= i.target < i.offset}
    innermost = [
        (first, last) for last, first in ends.items()
        if not any(first <= other < last for other in ends)
    ]  # fmt: skip
    if not innermost:
        return []
    first, last = max(innermost, key=lambda span: span[1] - span[0])
    return [i for i in code if first <= i.offset <= last]


def opcodes(code: Sequence[Sass]) -> Counter[str]:
    """How often each opcode stands there, modifiers left out."""
    return Counter(i.opcode.partition(".")[0] for i in code)


def patch_ffma(
    code: bytes, kernel: str, choose: Sequence[tuple[int, int, int, int, int]], *, stays: bool = True
) -> bytes:
    """The cubin with the registers of the kernel's FFMAs chosen anew: target, three sources, reuse mask, in turns.

    `stays`: whether the scheduler may go on with the same warp behind each, as the compiler lets it. Fields (as
    nvdisasm shows them): target in bits 16 to 23, sources in bits 24, 32 and 64, that hint in bit 109, reuse from 122.
    """
    out = bytearray(code)
    at, size = next((at, size) for name, at, size in sections(code) if name == f".text.{kernel}")
    n = 0
    for place in range(at, at + size, INSTRUCTION):
        low, high = struct.unpack_from("<QQ", out, place)
        if low % _CODE != FFMA:
            continue
        target, a, b, c, reuse = choose[n % len(choose)]
        low = low & ~(0xFFFFFF << 16) | target << 16 | a << 24 | b << 32
        high = high & ~0xFF | c
        high = high & ~(0xF << 58 | 1 << 45) | reuse << 58 | stays << 45
        struct.pack_into("<QQ", out, place, low, high)
        n += 1
    if not n:
        raise ValueError(f"{kernel} has no FFMA of three registers")
    return bytes(out)


def ffma_registers(code: bytes, kernel: str) -> tuple[list[int], list[int]]:
    """Registers of a kernel's FFMAs: those of sums (targets), and those of factors alone."""
    at, size = next((at, size) for name, at, size in sections(code) if name == f".text.{kernel}")
    sums, factors = set(), set()
    for place in range(at, at + size, INSTRUCTION):
        low, _ = struct.unpack_from("<QQ", code, place)
        if low % _CODE == FFMA:
            sums.add(low >> 16 & 0xFF)
            factors |= {low >> 24 & 0xFF, low >> 32 & 0xFF}
    return sorted(sums), sorted(factors - sums)
