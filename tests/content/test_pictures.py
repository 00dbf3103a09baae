"""The course's moving pictures: each is drawn from a record, has words, and belongs to a lab."""

from __future__ import annotations

import pytest

from warpschool.course import Course
from warpschool.errors import CourseError
from warpschool.show.pictures import FILE, names, picture

COURSE = Course.find()
TIMELINES = [name for name, row in names(COURSE).items() if row["show"] == "timeline"]
"""They ask ptxas and the clock: seconds each."""


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=pytest.mark.slow if n in TIMELINES else ()) for n in names(COURSE)]
)
def test_a_picture_moves_and_is_told(name):
    shown = picture(name)
    assert COURSE.lab(name.split("/")[0]) and len(shown.frames) > 1
    assert len({frame.alt for frame in shown.frames}) == len(shown.frames)
    assert shown.finding.startswith(names(COURSE)[name]["told"])
    assert len(shown.html()) < 500_000


def test_what_is_no_picture_is_told(tmp_path):
    with pytest.raises(CourseError, match="no picture 'lab02/tile'") as caught:
        picture("lab02/tile")
    assert "lab02/tiles" in caught.value.next_step
    (tmp_path / "labs").mkdir()
    file = tmp_path / FILE
    for text, said in (
        ("[lab00.x]\ntold = 'a'", "needs `told`, and a `show`"),
        ("[lab00.x]\ntold = 'a'\nshow = 'walk'", "'step'"),
        ("[lab00.x", "is no TOML"),
    ):
        file.write_text(text)
        with pytest.raises(CourseError, match=said):
            picture("lab00/x", Course(tmp_path))
