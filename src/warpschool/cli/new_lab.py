"""`warpschool new-lab`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from warpschool.cli.failures import guarded
from warpschool.cli.options import AsJson, Plain
from warpschool.cli.output import Output
from warpschool.errors import ToolMissing


@guarded
def new_lab(
    name: Annotated[str, typer.Argument(metavar="NAME", help="reduction, or lab12_reduction.")],
    title: Annotated[str, typer.Option(help="The notebook's heading; by default from the name.")] = "",
    root: Annotated[Path | None, typer.Option(metavar="DIR", help="The checkout; by default the one in use.")] = None,
    as_json: AsJson = False,
    plain: Plain = False,
) -> None:
    """Make a new lab that works: solution, starter, grader, rubric, notebook, and wrong kernels with their verdicts.

    Then replace its parts by your own; docs/teach/new-lab.md says in which order. The content tests say what does not
    fit together yet.

    Example: warpschool new-lab reduction --title "Lab 14: reductions"
    """
    output = Output(as_json=as_json, plain=plain)
    try:
        from warpschool.authoring.new_lab import new_lab as make
    except ModuleNotFoundError as error:
        advice = "Install it with: pip install 'warpschool[teach]'"
        raise ToolMissing(f"{error.name} is not installed", next_step=advice) from None
    made = make(name, title=title, root=root)
    output.data({"lab": made.name, "step": made.step, "root": str(made.root), "files": list(made.files)})
    output.show(f"{made.name}:")
    for file in made.files:
        output.show(f"  {file}")
    output.show(
        f"Next: warpschool check {made.step} --kernel solutions/{made.step}.cu\n"
        f"      python -m pytest tests/content tests/specimens -k {made.name}\n"
        f"then edit solutions/{made.step}.cu and labs/{made.name}/{made.name}.md, and after each change:\n"
        "      python -m warpschool.authoring"
    )
