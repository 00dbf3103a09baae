"""Writes docs/images/program-race.svg: what `warpschool run` says of the example of docs/learn/programs.md.

    python scripts/program_picture.py

It needs what whole programs need: nvcc (the extra `programs`) and g++.
"""

from __future__ import annotations

import io
import os
import re
import tempfile
from pathlib import Path

from rich.console import Console

from warpschool.cli.output import Output
from warpschool.cli.programs import draw_report
from warpschool.programs import build, run_program

ROOT = Path(__file__).resolve().parents[1]
PROGRAM = Path("block_sum.cu")
KEPT = ROOT / "tests" / "programs" / "wrong" / PROGRAM
PICTURE = ROOT / "docs" / "images" / "program-race.svg"
_WIDTH = 104


def printed_program() -> str:
    """The example as the page has it: without the first comments, which are the tests'."""
    text = KEPT.read_text("utf-8")
    return text[text.index("#include") :]


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        PROGRAM.write_text(printed_program(), "utf-8")
        draw()
        os.chdir(ROOT)


def draw() -> None:
    report = run_program(build([PROGRAM]).path, capture=True)
    output = Output()
    output.errors = console = Console(
        record=True, width=_WIDTH, file=io.StringIO(), force_terminal=True, highlight=False
    )
    output.is_live = True
    console.print(f"$ warpschool run {PROGRAM}\n{report.output}", end="")
    draw_report(output, report)
    drawn = console.export_svg(title="warpschool run", unique_id="program-race")
    drawn = re.sub(r"\s*@font-face \{.*?\}", "", drawn, flags=re.DOTALL)  # the reader's own: nothing is fetched
    drawn = re.sub(r"\s*<!--.*?-->", "", drawn).replace("Fira Code", "monospace")
    PICTURE.write_text(drawn, "utf-8")
    print(f"written: {PICTURE.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
