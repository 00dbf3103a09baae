"""The course's moving pictures: each is drawn from a record, has words, and belongs to a lab."""

from __future__ import annotations

import json

import pytest

from warpschool.course import Course
from warpschool.errors import ArgumentError, CourseError
from warpschool.show.pictures import FILE, names, picture
from warpschool.show.timeline import show_streams
from warpschool.show.values import show_values

COURSE = Course.find()
SLOW = [name for name, row in names(COURSE).items() if row["show"] in ("timeline", "values")]
"""They ask ptxas and the clock, or the debugger: seconds each."""


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=pytest.mark.slow if n in SLOW else ()) for n in names(COURSE)]
)
@pytest.mark.thinned(2)
def test_a_picture_moves_and_is_told(name):
    shown = picture(name)
    assert COURSE.lab(name.split("/")[0]) and len(shown.frames) > 1
    assert len({frame.alt for frame in shown.frames}) == len(shown.frames)
    assert shown.finding.startswith(names(COURSE)[name]["told"])
    assert len(shown.html()) < 500_000


KERNEL = """\
// keeps.cu: sums that a thread keeps in an array of its own.
// Entry:   keeps(float y[32] out)
// Launch:  keeps block=(32) grid=(1)

extern "C" __global__ void keeps(float* y)
{
    float kept[2] = {1.0f, 2.0f};
    for (int i = 0; i < 3; ++i) {
        kept[i % 2] += threadIdx.x;  // here
    }
    y[threadIdx.x] = kept[0] + kept[1];
}
"""


def test_values_are_those_of_the_kernel(tmp_path):
    file = tmp_path / "keeps.cu"
    file.write_text(KERNEL)
    given = {"names": {"kept[0]": "first", "kept[1]": "second", "i": "turn"}, "lanes": (2, 6)}
    shown = show_values(file, {}, at="// here", **given)
    assert [frame.label for frame in shown.frames] == [
        "Time 1 of 3. first: 1; second: 2; turn: 0.",
        "Time 2 of 3. first: 3 to 6; second: 2; turn: 1.",
        "Time 3 of 3. first: 3 to 6; second: 4 to 7; turn: 2.",
    ]
    assert "turn changes 2 times" in shown.finding
    for wrong, said in (
        ({"at": "kept["}, "lines of keeps.cu hold"),
        ({"lanes": (4, 40)}, "none of a warp"),
        ({"names": {"lost": "lost"}}, "lost"),
    ):
        with pytest.raises(ArgumentError, match=said):
            show_values(file, {}, **({"at": "// here"} | given | wrong))


def test_moments_of_streams_are_told(tmp_path):
    folder = tmp_path / "benchmarks" / "results"
    folder.mkdir(parents=True)
    spans = [
        {"name": "copy in 0", "stream": "stream 0", "start_ms": 0.0, "end_ms": 2.0, "kind": "copy in"},
        {"name": "copy out 0", "stream": "stream 1", "start_ms": 1.0, "end_ms": 3.0, "kind": "copy out"},
    ]
    (folder / "streams_x.json").write_text(
        json.dumps({"title": "Two", "timelines": [{"name": "both", "device": "a GPU", "spans": spans}]})
    )
    shown = show_streams("streams_x.json", course=Course(tmp_path))
    assert [frame.label for frame in shown.frames] == [
        "At 1 ms (1 of 2). both: copy in 0 in stream 0 and copy out 0 in stream 1.",
        "At 2.5 ms (2 of 2). both: copy out 0 in stream 1.",
    ]
    (folder / "streams_y.json").write_text('{"title": "None"}')
    with pytest.raises(ArgumentError, match="no record of streams"):
        show_streams("streams_y.json", course=Course(tmp_path))


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
