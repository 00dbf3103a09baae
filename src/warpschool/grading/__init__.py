"""Grading: criteria as pytest tests, verdicts, and one result object.

    result = check("lab02_tiling/01_tiled", "my_kernel.cu")
    result.verdict, result.score, result.max_score, result.criteria, result.to_json()

Grader files in the course's `grader/` folder use `criterion` and `partial` and the fixtures of
`warpschool.grading.plugin`. A name is loaded when it is first used: grader files need pytest, a result does not.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

_PUBLIC = {
    "Criterion": "result", "CriterionInfo": "criteria", "Judgement": "verdicts", "Limits": "limits",
    "PERSONAL_COPY_MARKER": "sources", "Result": "result", "Source": "sources", "Submission": "submission",
    "TextOptions": "result", "Verdict": "verdicts", "check": "runner", "check_cell": "cell", "criteria_of": "criteria",
    "criterion": "criteria", "find_source": "sources", "load_submission": "submission", "partial": "criteria",
    "personal_copy": "sources", "practice": "secret", "to_text": "result",
}  # fmt: skip
"""public name -> the module here that defines it"""

__all__ = [
    "PERSONAL_COPY_MARKER", "Criterion", "CriterionInfo", "Judgement", "Limits", "Result", "Source", "Submission",
    "TextOptions", "Verdict", "check", "check_cell", "criteria_of", "criterion", "find_source", "load_submission",
    "partial", "personal_copy", "practice", "to_text",
]  # fmt: skip

if TYPE_CHECKING:
    from warpschool.grading.cell import check_cell
    from warpschool.grading.criteria import CriterionInfo, criteria_of, criterion, partial
    from warpschool.grading.limits import Limits
    from warpschool.grading.result import Criterion, Result, TextOptions, to_text
    from warpschool.grading.runner import check
    from warpschool.grading.secret import practice
    from warpschool.grading.sources import PERSONAL_COPY_MARKER, Source, find_source, personal_copy
    from warpschool.grading.submission import Submission, load_submission
    from warpschool.grading.verdicts import Judgement, Verdict


def __getattr__(name: str) -> Any:
    """Load a public name on first use."""
    if name not in _PUBLIC:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"warpschool.grading.{_PUBLIC[name]}"), name)
    globals()[name] = value
    return value
