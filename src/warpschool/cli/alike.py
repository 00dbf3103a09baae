"""`warpschool alike`: kernels of a class that look copied, for a teacher to look at."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import Annotated

import typer

from warpschool.cli.failures import LACKING, guarded, report
from warpschool.cli.files import require_writable_target, try_write
from warpschool.cli.options import AsJson, Plain
from warpschool.cli.output import Output


@guarded
def alike(
    folder: Annotated[
        Path, typer.Argument(metavar="DIR", help="Holds STUDENT/labNN_topic/NN_idea.cu or notebooks of labs.")
    ],
    step: Annotated[str | None, typer.Option("--step", metavar="STEP", help="All .cu files are for this step.")] = None,
    least: Annotated[float, typer.Option("--least", min=0.1, max=1.0, help="Show pairs that are this alike.")] = 0.6,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FILE", help="Write a page with the pairs side by side.")
    ] = None,
    as_json: AsJson = False,
    plain: Plain = False,
) -> None:
    """List pairs of kernels that are alike after renaming and formatting; no score depends on it.

    What the starter gives everybody is left out, and what more than half of a class wrote.

    Example: warpschool alike submissions/ --out alike.html
    """
    from warpschool.course import Course
    from warpschool.grading.folders import find_submissions
    from warpschool.grading.plagiarism import alike_pairs
    from warpschool.grading.plagiarism_page import report as page_of

    output = Output(as_json=as_json, plain=plain)
    if out is not None:
        require_writable_target(out)
    course = Course.find()
    sources: dict[str, dict[str, str]] = defaultdict(dict)
    for item in find_submissions(folder, course, step)[0]:
        if not item.problem:
            sources[item.step.name][item.student] = item.data.decode("utf-8-sig", errors="replace")
    found = {}
    for name, by_student in sources.items():
        starter = course.step(name).starter
        given = [starter.read_text("utf-8")] if starter is not None else []
        found[name] = alike_pairs(by_student, starters=given, least=least)
    pairs = [(name, pair) for name, of_step in found.items() for pair in of_step]
    output.data([
        {"step": name, "first": p.first, "second": p.second, "alike": p.alike, "shared": p.shared} for name, p in pairs
    ])  # fmt: skip
    if not pairs:
        output.show("No two kernels are alike.")
    else:
        rows = [[name, p.first, p.second, f"{p.alike:.0%}", str(p.shared)] for name, p in pairs]
        output.table(["step", "first", "second", "alike", "places"], rows, numbers=("alike", "places"))
        output.show("This is a list to look at, not a finding: short kernels have few right forms.", style="dim")
    if out is not None:
        problem = try_write(out, page_of(found, sources))
        if problem:
            report(problem, output, with_document=False)
            raise typer.Exit(LACKING)
        output.show("Side by side: ", (str(out), "bold"))
