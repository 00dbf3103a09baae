"""The route names every lab, agrees with the steps' `From:` lines, and knows where somebody is."""

from __future__ import annotations

from pathlib import Path

import pytest

from warpschool.course import Course
from warpschool.errors import CourseError
from warpschool.route import FILE, count, read_route
from warpschool.show.route import route_table, track_lines

ROOT = Path(__file__).parents[2]
COURSE = Course(ROOT)


@pytest.fixture(scope="module")
def route():
    return read_route(COURSE)


def done(route, **accepted):
    """lab -> (accepted, begun, steps); `lab00=2`: two accepted, `lab00=0`: begun."""
    found = {}
    for point in route.waypoints:
        steps, wanted = len(point.lab.steps), accepted.get(point.lab.name[:5])
        found[point.lab.name] = (wanted or 0, 0 if wanted is None else max(1, wanted), steps)
    return found


def test_every_lab_is_on_the_route_with_what_it_is_about(route):
    assert [point.lab.name for point in route.waypoints] == [lab.name for lab in COURSE.labs()]
    assert all(point.about and point.hours > 1 for point in route.waypoints)


def test_what_a_step_goes_on_from_is_needed_or_used(route):
    points = {point.lab.name: point for point in route.waypoints}

    def below(name):
        others = {*points[name].needs, *points[name].uses}
        return others.union(*map(below, others))

    for step in COURSE.steps():
        before = step.follows.split("/")[0]
        assert before in {"", step.lab, *below(step.lab)}, f"{step} goes on from {step.follows}"


def test_no_need_points_forwards(route):
    names = [point.lab.name for point in route.waypoints]
    for point in route.waypoints:
        assert all(names.index(name) < names.index(point.lab.name) for name in (*point.needs, *point.uses))


def test_on_each_track_a_step_comes_behind_the_one_that_it_goes_on_from(route):
    assert len(route.tracks) == 3
    for track in route.tracks:
        steps = [step.name for stage in track.stages for step in stage.steps]
        assert len(steps) == len(set(steps))
        for step in (step for stage in track.stages for step in stage.steps):
            if step.follows:
                assert step.follows in steps[: steps.index(step.name)], f"{track.name}: {step} needs {step.follows}"
    semester = route.tracks[1]
    assert [stage.when for stage in semester.stages] == [f"week {n}" for n in range(1, 15)]
    assert max(stage.hours for stage in semester.stages) < 9


def test_the_estimate_counts_what_there_is(route, tmp_path):
    saxpy = COURSE.lab("lab00")
    whole, part = count(saxpy), count(saxpy, saxpy.steps[:1])
    assert (whole.steps, part.steps, whole.explanations) == (3, 1, 1)
    assert part.words == pytest.approx(whole.words / 3) and 0 < part.lines < whole.lines
    assert part.lines == 4, "the marker in the starter of saxpy says so"
    c, rates = route.waypoints[0].counted, route.rates
    by_hand = c.words / 100 * rates.for_100_words + 3 * rates.for_a_step + c.lines * rates.for_a_line
    assert route.waypoints[0].hours == pytest.approx((by_hand + rates.for_the_explanation) / 60)


def test_where_somebody_is(route):
    def here(**accepted):
        found = route.here(done(route, **accepted))
        return found and found.lab.name[:5]

    everything = {point.lab.name[:5]: len(point.lab.steps) for point in route.waypoints}
    assert here() == "lab00"
    assert here(lab00=0) == "lab00"
    assert here(lab00=3) == "lab01"
    assert here(lab00=3, lab01=2, lab02=0) == "lab02"
    assert here(lab00=3, lab01=2, lab02=1) == "lab03"
    assert here(lab05=1) == "lab05", "whoever has begun something is there"
    assert here(**everything) is None


def test_the_screen_marks_one_lab(route):
    state = done(route, lab00=3)
    text = route_table(route, state, route.here(state)).text()
    (row,) = [line for line in text.splitlines() if "you are here" in line]
    assert "lab01" in row and "0 of 2" in row and "lab00" in row
    assert "a weekend" in track_lines(route)[0] and "lab05" in track_lines(route)[0]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[labs", "is no route"),
        ("[labs]\n", "is no route"),
        ("[estimate]\nfor_100_words = 1.0\n[labs]\n", "is no route"),
        ("estimate = 3\n[labs]\n", "is no route"),
    ],
)
def test_a_broken_route_is_told(tmp_path, text, said):
    (tmp_path / FILE).parent.mkdir()
    (tmp_path / FILE).write_text(text)
    with pytest.raises(CourseError, match=said):
        read_route(Course(tmp_path))


def test_a_course_without_a_route_has_none(tmp_path):
    assert read_route(Course(tmp_path)) is None
