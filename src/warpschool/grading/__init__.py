"""Grading: criteria as pytest tests, verdicts, and one result object.

    result = check("lab02_tiling/01_tiled", "my_kernel.cu")
    result.verdict, result.score, result.max_score, result.criteria, result.to_json()

Grader files in the course's `grader/` folder use `criterion` and `partial` and the fixtures of
`warpschool.grading.plugin`. A name is loaded when it is first used: grader files need pytest, a result does not.
"""

from ptxsim.lazy import public_names

TYPE_CHECKING = False
if TYPE_CHECKING:  # the one list of public names: `ptxsim.lazy` reads it
    from warpschool.grading.cell import check_cell as check_cell
    from warpschool.grading.criteria import (
        CriterionInfo as CriterionInfo,
        criteria_of as criteria_of,
        criterion as criterion,
        partial as partial,
    )
    from warpschool.grading.limits import Limits as Limits
    from warpschool.grading.result import Criterion as Criterion, Result as Result, to_text as to_text
    from warpschool.grading.runner import check as check
    from warpschool.grading.secret import practice as practice
    from warpschool.grading.submission import Submission as Submission, load_submission as load_submission
    from warpschool.grading.verdicts import Judgement as Judgement, Verdict as Verdict
    from warpschool.harness.source import (
        PERSONAL_COPY_MARKER as PERSONAL_COPY_MARKER,
        Source as Source,
        find_source as find_source,
        personal_copy as personal_copy,
    )

__getattr__, __dir__ = public_names(__name__)
