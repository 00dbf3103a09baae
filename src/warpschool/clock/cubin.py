"""A kernel's source to its machine code: NVRTC makes the cubin, NVIDIA's disassembler the listing."""

from __future__ import annotations

import base64
import functools
import importlib.metadata
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from ptxsim import cache
from ptxsim.limits import LIMITS
from warpschool.clock.sass import Function, read_functions
from warpschool.compile import compile_cuda
from warpschool.errors import CompilerMissing

_PACKAGE = "nvidia-cuda-nvdisasm"


def machine_code(
    source: str, *, name: str, arch: str, constants: Mapping[str, int] | None = None, options: Sequence[str] = ()
) -> dict[str, Function]:
    """The kernels of a source as machine code of a real architecture ("sm_90"), by name.

    Raises what compiling raises, and CompilerMissing where there is no disassembler.
    """
    compiled = compile_cuda(source, name=name, arch=arch, constants=constants, options=options)
    capability = int("".join(c for c in arch if c.isdigit()))
    reserved = LIMITS[capability // 10, capability % 10].reserved_shared_bytes
    return read_functions(compiled.cubin, listing(compiled.cubin), file=compiled.name, reserved=reserved)


def listing(cubin: bytes) -> str:
    """What the disassembler prints of a cubin, with encodings and source lines."""
    tool = disassembler()
    key = cache.content_key(base64.b64encode(cubin).decode(), tool.version)
    found = cache.load("sass", key)
    if found is None:
        with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
            file.write(cubin)
            file.flush()
            command = [str(tool.path), "-hex", "-gi", "-c", file.name]
            text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        found = {"text": text}
        cache.store("sass", key, found)
    return str(found["text"])


class _Tool:
    def __init__(self, path: Path, version: str) -> None:
        self.path, self.version = path, version


def has_disassembler() -> bool:
    """Whether machine code can be read here."""
    try:
        disassembler()
    except CompilerMissing:
        return False
    return True


@functools.cache
def disassembler() -> _Tool:
    """`nvdisasm` of the package nvidia-cuda-nvdisasm. Raises CompilerMissing."""
    try:
        files = importlib.metadata.files(_PACKAGE) or []
        version = importlib.metadata.version(_PACKAGE)
    except importlib.metadata.PackageNotFoundError:
        files, version = [], ""
    for file in files:
        if file.name in ("nvdisasm", "nvdisasm.exe") and Path(file.locate()).is_file():
            return _Tool(Path(file.locate()), version)
    raise CompilerMissing(
        "the clock reads machine code with NVIDIA's disassembler, which is not installed",
        next_step="Install it: pip install 'warpschool[clock]'. It needs no GPU.",
    )
