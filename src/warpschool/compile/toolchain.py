"""Where NVRTC and CUDA's headers are on this machine, and which versions they have."""

from __future__ import annotations

import functools
import hashlib
import os
import platform
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from warpschool.errors import CompilerMissing

_HOW = (
    "Install it with: pip install nvidia-cuda-nvrtc nvidia-cuda-runtime nvidia-cuda-crt nvidia-cuda-cccl cuda-bindings"
)


STANDARD = Path(__file__).with_name("include")
"""Our own headers: harmless parts of C++'s standard ones, of which NVRTC has none."""


@dataclass(frozen=True)
class Toolchain:
    """One NVRTC with the headers that belong to it.

    `nvrtc` is its version as "13.5", `headers` that of the CUDA and CCCL headers, `build` is the library's size in
    bytes: patch releases share a version, and a cache must still tell them apart.
    """

    library: Path
    includes: tuple[Path, ...]
    nvrtc: str
    headers: str
    build: int
    origin: str

    name = "nvrtc"
    allowed = ""
    """What a source may include, in words, where that is less than all of CUDA's headers."""

    @property
    def identity(self) -> str:
        """What a cached result depends on, besides source, options and architecture."""
        return f"nvrtc {self.nvrtc} build {self.build} headers {self.headers} standard {_standard_version()}"

    @property
    def folders(self) -> tuple[Path, ...]:
        """The folders of all headers that a source may include: CUDA's, then our own."""
        return (*self.includes, STANDARD)

    @property
    def readable(self) -> tuple[Path, ...]:
        """The folders that a compilation has to read."""
        return (*dict.fromkeys(p.resolve() for p in (self.library.parent, *self.folders)),)


@functools.cache
def find_toolchain() -> Toolchain:
    """The first NVRTC with headers: $WARPSCHOOL_CUDA, the pip packages, $CUDA_PATH, $CUDA_HOME,
    $CONDA_PREFIX, /usr/local/cuda.

    Raises CompilerMissing, which says what was looked at.
    """
    if sys.platform == "darwin":
        raise CompilerMissing(
            "NVIDIA's compiler library NVRTC does not run on macOS",
            next_step="Take another compiler, pip install 'warpschool[clang]' (97 MB); or a Linux container.",
        )
    tried: list[str] = []
    for root, origin in _roots():
        found = _toolchain_in(root, origin)
        if isinstance(found, Toolchain):
            return found
        tried.append(f"  {root}: {found}")
    raise CompilerMissing("no NVRTC with CUDA headers found; looked at\n" + "\n".join(tried), next_step=_HOW)


def _roots() -> Iterator[tuple[Path, str]]:
    """Folders that may be a CUDA root, best first."""
    if os.environ.get("WARPSCHOOL_CUDA"):
        yield Path(os.environ["WARPSCHOOL_CUDA"]), "WARPSCHOOL_CUDA"
        return
    for entry in sys.path:
        nvidia = Path(entry) / "nvidia"
        if entry and nvidia.is_dir():
            for folder in sorted(nvidia.glob("cu[0-9][0-9]"), reverse=True):
                yield folder, "pip packages"
            if (nvidia / "cuda_nvrtc").is_dir():
                yield nvidia, "pip packages"
    for variable in ("CUDA_PATH", "CUDA_HOME", "CONDA_PREFIX"):
        if os.environ.get(variable):
            yield Path(os.environ[variable]), variable
    yield Path("/usr/local/cuda"), "toolkit"
    yield from ((p, "toolkit") for p in sorted(Path("/usr/local").glob("cuda-[0-9]*"), reverse=True))


def _toolchain_in(root: Path, origin: str) -> Toolchain | str:
    """The toolchain below `root`, or why there is none.

    Three layouts: the CUDA 13 pip packages (`cu13/lib`), the CUDA 12 ones (one folder per package), a toolkit; on
    Windows `bin/x86_64` or `bin/arm64` of the first, and a toolkit's `bin` or `bin/x64`.
    """
    if not root.is_dir():
        return "no such folder"
    library = _first(root, _LIBRARIES.get(sys.platform, _LIBRARIES["linux"]))
    if library is None:
        return "no nvrtc64_*.dll" if sys.platform == "win32" else "no libnvrtc.so"
    folders = [root / "include", *root.glob("targets/*/include"),
               *(root / part / "include" for part in ("cuda_runtime", "cuda_nvcc", "cuda_crt", "cuda_cccl", "curand")),
               root / "include/cccl", root / "cuda_cccl/include/cccl"]  # fmt: skip
    once = {f.resolve(): f for f in reversed(folders) if f.is_dir()}  # a toolkit has links to some
    includes = tuple(f for f in dict.fromkeys(folders) if f in once.values())
    for header, package in (("cuda_fp16.h", "nvidia-cuda-runtime"), ("crt/mma.h", "nvidia-cuda-crt"),
                            ("cuda/std/cstdint", "nvidia-cuda-cccl")):  # fmt: skip
        if not any((folder / header).is_file() for folder in includes):
            return f"{header} is missing (package {package})"
    return Toolchain(
        library=library,
        includes=includes,
        nvrtc=_nvrtc_version(library),
        headers=_header_version(includes),
        build=library.stat().st_size,
        origin=origin,
    )


def _windows_libraries(*, arm: bool) -> tuple[str, ...]:
    toolkit = ("bin/arm64",) if arm else ("bin/x86_64", "bin/x64", "bin", "Library/bin")
    return tuple(f"{folder}/nvrtc64_[0-9]*[0-9].dll" for folder in (*toolkit, "cuda_nvrtc/bin"))


_LIBRARIES = {
    "linux": ("lib/libnvrtc.so.1*", "lib64/libnvrtc.so.1*", "cuda_nvrtc/lib/libnvrtc.so.1*",
              "targets/*/lib/libnvrtc.so.1*"),
    "win32": _windows_libraries(arm=platform.machine().lower() in ("arm64", "aarch64")),
}  # fmt: skip
"""Where NVRTC lies below a root, best first, by `sys.platform`."""


def _first(root: Path, patterns: tuple[str, ...]) -> Path | None:
    found = (sorted(root.glob(pattern), key=lambda p: (len(p.name), p.name)) for pattern in patterns)
    return next((paths[0] for paths in found if paths), None)


def _nvrtc_version(library: Path) -> str:
    """The version as "13.5", from the built-ins library beside NVRTC; "13" if there is none."""
    for beside in sorted(library.parent.glob("*nvrtc-builtins*")):
        if match := re.search(r"\.so\.(\d+)\.(\d+)|64_(\d+)(\d)\.dll$", beside.name):
            return ".".join(filter(None, match.groups()))
    return library.name.rpartition(".")[2]


@functools.cache
def _standard_version() -> str:
    """A hash of our own headers."""
    texts = (path.name.encode() + path.read_bytes() for path in sorted(STANDARD.iterdir()))
    return hashlib.sha256(b"\0".join(texts)).hexdigest()[:12]


def _header_version(includes: tuple[Path, ...]) -> str:
    wanted = {"cuda.h": r"#define CUDA_VERSION (\d+)", "cuda/std/__cccl/version.h": r"#define CCCL_VERSION (\d+)"}
    versions = []
    for header, pattern in wanted.items():
        text = next((p.read_text(errors="replace") for f in includes if (p := f / header).is_file()), "")
        match = re.search(pattern, text)
        versions.append(match[1] if match else "?")
    return "/".join(versions)
