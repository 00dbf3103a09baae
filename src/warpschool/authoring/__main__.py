"""`python -m warpschool.authoring [starters|notebooks|text|all] [--check]`: bring generated content up to date.

`all` makes starters of the solutions, and notebooks of the labs' texts and starters. `text` goes the other way: it
takes what was edited in a notebook over into its text.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
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
        changed = list(_changed(root, options))
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


def _changed(root: Path, options: argparse.Namespace) -> Iterator[Path]:
    """The files that are written, or would be."""
    labs, solutions = root / "labs", root / "solutions"
    if options.what in ("starters", "all"):
        yield from (stale_starters if options.check else write_starters)(solutions, root / "kernels")
    if options.what != "starters":
        from warpschool.authoring.lab_text import stale_notebooks, stale_texts, write_notebooks, write_texts

        of_texts = options.what == "text"
        stale, write = (stale_texts, write_texts) if of_texts else (stale_notebooks, write_notebooks)
        yield from stale(labs, solutions) if options.check else write(labs, solutions, force=options.force)


if __name__ == "__main__":
    sys.exit(main())
