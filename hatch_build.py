"""Build hook: the course content travels in the wheel.

A wheel gets labs, kernels, solutions, grader, the modules of a course's own labs (`warpcourse/`, where there are any),
the recorded results that notebooks show, the book's chapters, and the specimens of cases, as `warpschool/_content/`.
An editable install gets nothing: there the checkout's own files are used, and a copy would go stale.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

FOLDERS = (
    "labs", "kernels", "solutions", "grader", "warpcourse", "benchmarks/results", "docs/learn", "docs/images/learn",
    "tests/specimens",
)  # fmt: skip
SUFFIXES = {".ipynb", ".cu", ".cuh", ".py", ".md", ".json", ".toml", ".png", ".svg", ".npz", ".txt"}
LEFT_OUT = {"__pycache__", ".ipynb_checkpoints", ".pytest_cache", ".ruff_cache"}


def content_files(root: Path) -> dict[str, str]:
    """Every file of the course content: path here -> path in the wheel."""
    found = {}
    for folder in FOLDERS:
        for path in sorted((root / folder).rglob("*")):
            inside = path.relative_to(root)
            if path.is_file() and path.suffix in SUFFIXES and not LEFT_OUT.intersection(inside.parts):
                found[str(path)] = f"warpschool/_content/{inside.as_posix()}"
    return found


class ContentHook(BuildHookInterface):
    """Adds the content to a wheel that is to be installed as a copy."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version == "editable":
            return
        files = content_files(Path(self.root))
        if not files:
            raise RuntimeError("no course content found beside pyproject.toml: a wheel without it would be useless")
        build_data["force_include"].update(files)
