"""Writes the pages that are made of the course's own data and of recorded results: all of them, or those named.

    python -m scripts.pages [NAME ...] [--check]

A page's script stands beside this one under the page's name; its `files()` says what the page, and any picture of it,
should hold now. `--check` writes nothing and fails where something is out of date. The book's chapters run kernels,
and have a command of their own: `python -m scripts.book`.
"""

from __future__ import annotations

import argparse
import importlib
import re
import sys
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGES = (
    "calls_page", "clock_page", "cost_page", "estimate_page", "fidelity_page", "hostile_table", "house", "ladder_page",
    "misconceptions", "mutants_page", "platforms_page", "readme_tables", "result_schema", "route_page", "seeds_page",
    "stopwatch", "supported_ptx", "syllabus", "triton_page",
)  # fmt: skip


def stale(files: Mapping[Path, str]) -> dict[Path, str]:
    """Of files and what they should hold, those that hold something else or are not there."""
    held = {path: path.read_text(encoding="utf-8") if path.is_file() else None for path in files}
    return {path: text for path, text in files.items() if held[path] != text}


def files(page: str) -> dict[Path, str]:
    """What the files of one of `PAGES` should hold."""
    made: dict[Path, str] = importlib.import_module(f"scripts.{page}").files()
    return made


def settle(files: Mapping[Path, str], *, check: bool, command: str) -> int:
    """Write files that do not hold what they should, or with `check` only name them; an exit code."""
    old = stale(files)
    for path, text in old.items():
        if not check:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        print(f"{path.relative_to(ROOT)} is {f'out of date: run {command}' if check else 'written'}")
    return int(bool(old) and check)


def between(text: str, name: str, made: str) -> str:
    """The text with what was made between `<!-- begin NAME ... -->` and `<!-- end NAME -->`.

    Raises SystemExit where it does not have these markers once.
    """
    pattern = re.compile(rf"(<!-- begin {name}\b[^>]*-->\n).*?(<!-- end {name} -->)", re.DOTALL)
    found, count = pattern.subn(lambda match: f"{match[1]}{made}\n{match[2]}", text)
    if count != 1:
        raise SystemExit(f"a page lacks the markers <!-- begin {name} --> and <!-- end {name} -->")
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pages", nargs="*", metavar="NAME", help=f"which (default: all): {', '.join(PAGES)}")
    parser.add_argument("--check", action="store_true", help="write nothing; fail if something is out of date")
    options = parser.parse_args()
    if unknown := set(options.pages) - set(PAGES):
        parser.error(f"no page is called {', '.join(sorted(unknown))}; there are {', '.join(PAGES)}")
    made = {path: text for page in options.pages or PAGES for path, text in files(page).items()}
    return settle(made, check=options.check, command="make pages")


if __name__ == "__main__":
    sys.exit(main())
