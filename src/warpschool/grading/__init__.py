"""Grading: criteria as pytest tests, verdicts, and one result object.

    result = check("lab02_tiling/01_tiled", "my_kernel.cu")
    result.verdict, result.score, result.max_score, result.criteria, result.to_json()

Grader files in the course's `grader/` folder use `criterion` and `partial` and the fixtures of
`warpschool.grading.plugin`. A name is loaded when it is first used: grader files need pytest, a result does not.
"""

from __future__ import annotations

from ptxsim.lazy import public_names

TYPE_CHECKING = False
if TYPE_CHECKING:  # the one list of public names: `ptxsim.lazy` reads it
    from warpschool.grading.cell import check_cell as check_cell
    from warpschool.grading.criteria import CriterionInfo as CriterionInfo
    from warpschool.grading.criteria import criteria_of as criteria_of
    from warpschool.grading.criteria import criterion as criterion
    from warpschool.grading.criteria import partial as partial
    from warpschool.grading.limits import Limits as Limits
    from warpschool.grading.result import Criterion as Criterion
    from warpschool.grading.result import Result as Result
    from warpschool.grading.result import TextOptions as TextOptions
    from warpschool.grading.result import to_text as to_text
    from warpschool.grading.runner import check as check
    from warpschool.grading.secret import practice as practice
    from warpschool.grading.submission import Submission as Submission
    from warpschool.grading.submission import load_submission as load_submission
    from warpschool.grading.verdicts import Judgement as Judgement
    from warpschool.grading.verdicts import Verdict as Verdict
    from warpschool.harness.source import PERSONAL_COPY_MARKER as PERSONAL_COPY_MARKER
    from warpschool.harness.source import Source as Source
    from warpschool.harness.source import find_source as find_source
    from warpschool.harness.source import personal_copy as personal_copy

__getattr__, __dir__ = public_names(__name__)
