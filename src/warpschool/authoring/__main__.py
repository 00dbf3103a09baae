"""`python -m warpschool.authoring [starters|notebooks|all] [--check]`: bring generated content up to date."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from warpschool.authoring.notebooks import stale_notebooks, write_notebooks
from warpschool.authoring.starters import stale_starters, write_starters
from warpschool.course import Course
from warpschool.errors import WarpschoolError


def main(arguments: list[str] | None = None) -> int:
    """Run the command; return its exit code: 1 where `--check` found something stale, 2 for malformed content."""
    parser = argparse.ArgumentParser(
        prog="python -m warpschool.authoring", description="Generate starters and kernel cells from solutions/."
    )
    parser.add_argument("what", nargs="?", choices=("starters", "notebooks", "all"), default="all")
    parser.add_argument("--check", action="store_true", help="change nothing; list the files that are out of date")
    parser.add_argument("--root", type=Path, help="the checkout (default: the one around this package)")
    options = parser.parse_args(arguments)
    try:
        root = options.root or Course.find().root
        changed = _stale(root, options.what) if options.check else _write(root, options.what)
    except WarpschoolError as error:
        print(error, file=sys.stderr)
        return 2
    for path in changed:
        print(f"{'out of date' if options.check else 'written'}: {path.relative_to(root)}")
    if options.check and changed:
        print("Run: python -m warpschool.authoring")
    return 1 if options.check and changed else 0


def _stale(root: Path, what: str) -> list[Path]:
    found: list[Path] = []
    if what != "notebooks":
        found += stale_starters(root / "solutions", root / "kernels")
    if what != "starters":
        found += stale_notebooks(root / "labs", root / "solutions")
    return found


def _write(root: Path, what: str) -> list[Path]:
    found: list[Path] = []
    if what != "notebooks":
        found += write_starters(root / "solutions", root / "kernels")
    if what != "starters":
        found += write_notebooks(root / "labs", root / "solutions")
    return found


if __name__ == "__main__":
    sys.exit(main())
