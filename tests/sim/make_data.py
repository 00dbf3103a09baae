"""Compiles `data/*.cu` to the golden PTX: `python tests/sim/make_data.py`. NVRTC's release is named inside."""

from __future__ import annotations

import re
from pathlib import Path

from warpschool.compile import compile_cuda

DATA = Path(__file__).parent / "data"
ARCHITECTURES = ("compute_80", "compute_100")
"""One of each PTX dialect: NVVM 7 and NVVM 23."""


def main() -> None:
    for source in sorted(DATA.glob("*.cu")):
        for arch in ARCHITECTURES:
            ptx = compile_cuda(source.read_text(), name=source.name, arch=arch).ptx
            ptx = re.sub(r'"[^"\n]*/([^"/\n]*)"', r'"\1"', ptx)  # no folders of this machine
            (DATA / f"{source.stem}.{arch}.ptx").write_text(ptx)


if __name__ == "__main__":
    main()
