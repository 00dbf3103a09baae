"""The figures of the chapters of single labs: counts, predicted and recorded times, what goes wrong, pictures."""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable, Sequence
from functools import cache, partial
from pathlib import Path

import warpschool as ws
from warpschool.authoring import specimens
from warpschool.grading import Criterion
from warpschool.show.notes import briefly

ROOT = Path(__file__).resolve().parents[1]
_MANY_SIZES = re.compile(r"at (?:\w+ = \d+, ){7,}")


@cache
def mistake(path: str) -> tuple[str, str, str]:
    """What the grader says of a specimen: (what it does, the verdict, the report)."""
    specimen = specimens.read(ROOT / "tests" / "specimens" / f"{path}.toml")
    result = ws.check(specimen.step, specimen.source(ROOT / "solutions"), device="sim")
    assert result.verdict == specimen.verdict, f"{path} gets {result.verdict}"
    failed: Sequence[Criterion] = [c for c in result.criteria if c.is_judged and not c.ok]
    assert failed, path
    first = next((c for c in failed if specimen.criterion and c.title == specimen.criterion), failed[0])
    told = briefly(first).removeprefix(f"line {first.line}: ")
    return specimen.why, str(result.verdict), f"{first.title}: {_MANY_SIZES.sub('', told)}"


def mistakes_table(paths: Sequence[str]) -> str:
    """Wrong kernels of tests/specimens, of which step they are, and what is said of them."""
    lines = ["| step | the kernel | verdict | the report |", "|---|---|---|---|"]
    for path in paths:
        why, verdict, report = mistake(path)
        step = Path(path).parts[-2][:2]
        report = " ".join(report.split()).replace("|", "\\|")
        lines.append(f"| {step} | {why} | {verdict} | {report} |")
    return "\n".join(lines)


CHAPTERS = {
    path.stem.removeprefix("book_"): importlib.import_module(f"scripts.{path.stem}")
    for path in sorted((ROOT / "scripts").glob("book_lab[0-9][0-9].py"))
}
"""chapter -> the module with its TABLES, its IMAGES and the specimens of its MISTAKES"""
TABLES: dict[str, dict[str, Callable[[], str]]] = {
    name: {**chapter.TABLES, "mistakes": partial(mistakes_table, chapter.MISTAKES)}
    for name, chapter in CHAPTERS.items()
}
IMAGES: dict[str, dict[str, Callable[[], str]]] = {name: chapter.IMAGES for name, chapter in CHAPTERS.items()}
