"""Imports every module of the three packages, then anew where a stub plays a system; prints which are refused there.

    python all_modules.py [macos_stub]
"""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

SOURCES = Path(__file__).resolve().parents[3] / "src"
OURS = ("ptxsim", "warpschool", "warpcourse")


def modules() -> list[str]:
    found = []
    for package in OURS:
        for path in sorted((SOURCES / package).rglob("*.py")):
            parts = path.relative_to(SOURCES).with_suffix("").parts
            if all(part.isidentifier() for part in parts):
                found.append(".".join(parts[: -1 if parts[-1] == "__init__" else None]))
    return [name for name in found if name != "ptxsim.system.windows"]


def importable(names: list[str]) -> dict[str, str]:
    said = {}
    for name in names:
        try:
            importlib.import_module(name)
            said[name] = ""
        except Exception as error:
            said[name] = f"{type(error).__name__}: {error}"
    return said


def main() -> None:
    names = modules()
    here = importable(names)
    for name in [name for name in sys.modules if name.split(".")[0] in OURS]:
        del sys.modules[name]
    stub = importlib.import_module(sys.argv[1] if len(sys.argv) > 1 else "windows_stub")
    stub.pretend()
    system = {"win32": "windows"}.get(sys.platform, "posix")
    there = importable([name for name in names if name != "ptxsim.system.posix"])
    there |= importable([f"ptxsim.system.{system}"])
    for name, said in there.items():
        if said and not here.get(name):
            print(name, said)
    print(f"{sum(not said for said in there.values())} of {len(there)}")


main()
