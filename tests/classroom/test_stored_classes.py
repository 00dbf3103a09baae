"""Classes as earlier versions left them: `stored/results_N.zip` was graded when results had format N.

    python -m tests.classroom.test_stored_classes tests/classroom/stored/results_N.zip

makes one with the version at hand: to be done before a format of results, records or the gradebook changes.
"""

from __future__ import annotations

import csv
import re
import shutil
import sys
import tempfile
import zipfile
from pathlib import Path

import pytest

pytest.importorskip("nbgrader", reason="the bridge needs the extra 'teach'")

from warpschool.classroom.export import as_csv, grade_lines
from warpschool.errors import CourseError, GradingError
from warpschool.grading.result import FORMAT

from .small import PARTLY, WRONG, SmallClass, mini_notebook

STORED = sorted((Path(__file__).parent / "stored").glob("*.zip"))
_TIME = (2026, 1, 1, 0, 0, 0)


def store(target: Path) -> None:
    """Grade a class of three, one of whom has points from a person, and pack it: equal versions give equal scores."""
    from warpschool.classroom.config import make_class
    from warpschool.course import Course

    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / "kept"
        make_class(root, Course.find())
        shutil.rmtree(root / "source")
        made = SmallClass(root)
        made.write_source(mini_notebook())
        made.app.convert("release", "mini")
        made.hand_in("ada", answer="Because.")
        made.hand_in("bob", kernel=PARTLY, answer="So.")
        made.hand_in("eve", kernel=WRONG)
        made.grade()
        made.mark("ada", "m-explain", 2.5)
        (root / "grading" / "lock").unlink()
        with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as packed:
            for path in sorted(path for path in root.rglob("*") if path.is_file()):
                packed.writestr(zipfile.ZipInfo(str(path.relative_to(root)), _TIME), path.read_bytes(), 8)


@pytest.fixture(params=[
    pytest.param(path, id=path.stem, marks=pytest.mark.slow if path.stem == f"results_{FORMAT}" else ())
    for path in STORED
])  # fmt: skip
def kept(request, tmp_path):
    with zipfile.ZipFile(request.param) as packed:
        packed.extractall(tmp_path / "kept")
    for path in (tmp_path / "kept" / "grading" / "records").rglob("*.json"):  # the newest may be of this very code
        path.write_text(re.sub('"code": "[0-9a-f]+"', '"code": "0123456789abcdef"', path.read_text("utf-8")), "utf-8")
    return SmallClass(tmp_path / "kept")


def exported(kept):
    app = kept.app
    with app.gradebook() as gradebook:
        rows = csv.DictReader(as_csv(grade_lines(gradebook, app.folder, ["mini"])).splitlines())
    return {row["student_id"]: (row["score"], row["waiting"]) for row in rows}


def test_there_is_one_of_the_version_at_hand_and_one_before_it():
    assert {f"results_{FORMAT}", f"results_{FORMAT - 1}"} <= {path.stem for path in STORED}


def test_a_stored_class_is_exported_as_it_was_graded(kept):
    assert exported(kept) == {"ada": ("6.5", ""), "bob": ("", "m-explain"), "eve": ("0", "")}


def test_a_stored_class_is_not_graded_with_two_versions_but_regraded(kept):
    kept.hand_in("zoe")
    with pytest.raises(CourseError, match="3 of 3 submissions of mini were graded otherwise") as refused:
        kept.grade()
    assert refused.value.next_step.endswith("warpschool grade mini --regrade")
    done = kept.grade(regrade=True)
    assert sorted(done.graded) == ["ada", "bob", "eve", "zoe"] and not done.failed
    assert done.changes == (), "what was right and wrong then is so today"
    ada = kept.grades("ada")["m-explain"]
    assert (ada.score, ada.waits) == (2.5, False), "what a person gave stays, and nobody is asked again"
    assert exported(kept)["ada"] == ("6.5", "") and exported(kept)["zoe"] == ("4", "")
    assert len(kept.app.write_feedback("mini")) == 4
    assert kept.grade().graded == {}, "all is of one version now"


def test_feedback_from_results_of_another_format_is_refused_in_one_sentence(kept, request):
    if request.node.callspec.id == f"results_{FORMAT}":
        assert len(kept.app.write_feedback("mini")) == 3
        return
    with pytest.raises(GradingError, match="graded by another version") as refused:
        kept.app.write_feedback("mini")
    assert refused.value.next_step.endswith("--regrade")


if __name__ == "__main__":
    store(Path(sys.argv[1]))
