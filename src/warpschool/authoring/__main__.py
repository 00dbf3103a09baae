"""`python -m warpschool.authoring [starters|notebooks|text|all] [--check]`: bring generated content up to date.

`all` makes starters of the solutions, and notebooks of the labs' texts and starters. `text` goes the other way: it
takes what was edited in a notebook over into its text.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from warpschool.authoring.starters import stale_starters, write_starters
from warpschool.course import Course
from warpschool.errors import WarpschoolError


def main(arguments: list[str] | None = None) -> int:
    """Run the command; return its exit code: 1 where `--check` found something stale, 2 for malformed content."""
    parser = argparse.ArgumentParser(
        prog="python -m warpschool.authoring",
        description="Make starters of solutions/, and notebooks of their texts in labs/; or texts of notebooks.",
    )
    parser.add_argument("what", nargs="?", choices=("starters", "notebooks", "text", "all"), default="all")
    parser.add_argument("--check", action="store_true", help="change nothing; list the files that are out of date")
    parser.add_argument("--force", action="store_true", help="replace notebooks and texts that have newer edits, too")
    parser.add_argument("--root", type=Path, help="the checkout (default: the one around this package)")
    options = parser.parse_args(arguments)
    try:
        root = options.root or Course.find().root
        changed = _stale(root, options.what) if options.check else _write(root, options.what, force=options.force)
    except WarpschoolError as error:
        print(error, file=sys.stderr)
        return 2
    except ModuleNotFoundError as error:
        print(f"{error.name} is not installed\nInstall it with: pip install 'warpschool[teach]'", file=sys.stderr)
        return 2
    for path in changed:
        print(f"{'out of date' if options.check else 'written'}: {path.relative_to(root)}")
    if options.check and changed:
        print("Run: python -m warpschool.authoring" + (" text" if options.what == "text" else ""))
    return 1 if options.check and changed else 0


def _stale(root: Path, what: str) -> list[Path]:
    labs, solutions = root / "labs", root / "solutions"
    found: list[Path] = []
    if what in ("starters", "all"):
        found += stale_starters(solutions, root / "kernels")
    if what != "starters":
        from warpschool.authoring.lab_text import stale_notebooks, stale_texts

        found += stale_texts(labs, solutions) if what == "text" else stale_notebooks(labs, solutions)
    return found


def _write(root: Path, what: str, *, force: bool) -> list[Path]:
    labs, solutions = root / "labs", root / "solutions"
    found: list[Path] = []
    if what in ("starters", "all"):
        found += write_starters(solutions, root / "kernels")
    if what != "starters":
        from warpschool.authoring.lab_text import write_notebooks, write_texts

        found += (write_texts if what == "text" else write_notebooks)(labs, solutions, force=force)
    return found


if __name__ == "__main__":
    sys.exit(main())
