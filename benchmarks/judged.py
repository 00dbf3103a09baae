"""What benchmarks of judged steps share: which steps are meant, and a record that is kept step by step."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import processor

from warpschool.course import Course, Step
from warpschool.grading.runner import library_versions


def chosen_steps(words: Sequence[str]) -> list[Step]:
    """Steps of kernels with a reference and a grader: all, or those whose names begin with one of the words.

    A word that begins no name ends the program, with a sentence.
    """
    steps = [step for step in Course.find().kernels() if step.solution is not None and step.grader is not None]
    for word in words:
        if not any(step.name.startswith(word) for step in steps):
            raise SystemExit(f"no step that is judged begins with {word!r}: lab02_tiling, lab02_tiling/01, ...")
    return [step for step in steps if not words or any(step.name.startswith(word) for word in words)]


def keep(path: Path, rows: dict[str, dict[str, Any]], **about: Any) -> None:
    """Write the figures; those of steps that were not tried now stay."""
    before = json.loads(path.read_text("utf-8"))["steps"] if path.is_file() else {}
    merged = before | rows
    order = [step.name for step in Course.find().steps()]
    made = {
        **about, "processor": processor.name(), "load_average": round(os.getloadavg()[2], 1),
        "versions": library_versions(), "steps": {name: merged[name] for name in order if name in merged},
    }  # fmt: skip
    path.write_text(json.dumps(made, indent=1) + "\n", "utf-8")
