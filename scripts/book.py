"""Writes the tables of the book's chapters between their markers, and draws its pictures.

    python -m scripts.book [CHAPTER ...] [--check]

A chapter is a page of docs/learn (`gpu`, `lab05`). Its figures come from records in benchmarks/results/, from the
constants in src/warpschool, and from the simulator, which runs the course's references and the kernels that the chapter
itself prints. `--check` writes nothing and exits with 1 where a page or a picture is out of date.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable
from pathlib import Path

from scripts import book_gpu, book_labs, book_measuring
from scripts.pages import between, settle

ROOT = Path(__file__).resolve().parents[1]
PAGES = ROOT / "docs" / "learn"
PICTURES = ROOT / "docs" / "images" / "learn"

Part = Callable[[], str]

TABLES: dict[str, dict[str, Part]] = {"gpu": book_gpu.TABLES, "measuring": book_measuring.TABLES, **book_labs.TABLES}
"""chapter -> the name between its markers -> what makes the text"""
IMAGES: dict[str, dict[str, Part]] = {"gpu": book_gpu.IMAGES, **book_labs.IMAGES}
"""chapter -> file name -> what draws it, as SVG"""


def updated(chapter: str) -> str:
    """The page with fresh tables. Raises SystemExit where a marker is missing, or where one is nobody's."""
    text = (PAGES / f"{chapter}.md").read_text(encoding="utf-8")
    known = set(re.findall(r"<!-- begin (\w+): written by scripts/book\.py -->", text))
    if known != set(TABLES[chapter]):
        raise SystemExit(f"{chapter}.md has the markers {sorted(known)}, and not {sorted(TABLES[chapter])}")
    for name, make in TABLES[chapter].items():
        text = between(text, name, make().strip())
    return text


def files(chapter: str) -> dict[Path, str]:
    """Everything that belongs to a chapter: file -> its text as it should be."""
    made = {PAGES / f"{chapter}.md": updated(chapter)}
    return made | {PICTURES / name: draw() for name, draw in IMAGES.get(chapter, {}).items()}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("chapters", nargs="*", choices=[[], *TABLES], help="which (default: all)")
    parser.add_argument("--check", action="store_true", help="write nothing; fail if something is out of date")
    options = parser.parse_args()
    made = {path: text for chapter in options.chapters or TABLES for path, text in files(chapter).items()}
    return settle(made, check=options.check, command="python -m scripts.book")


if __name__ == "__main__":
    sys.exit(main())
