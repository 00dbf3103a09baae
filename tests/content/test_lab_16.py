"""What the course promises of lab 16's project: stories whose surprise is known, a tiny run that learns, its record."""

from __future__ import annotations

import json
import math
import subprocess
import sys

import numpy as np
import pytest

from warpcourse.lab16_attention import writer
from warpcourse.lab16_attention.stories import COLOURS, NAMES, QUESTIONS, THINGS, Stories, Story, is_right
from warpschool.course import Course
from warpschool.nn.session import Kernels

COURSE = Course.find()
TOLD = (
    "Ada has a red cup, Hugo has a blue key and Emma has a red hat. The key goes from Hugo to Ada. Who has the key? "
    "Ada. Which colour has the hat? Red. Who has the cup? Ada. Who has the hat? Emma. Which colour has the key? Blue."
)


def test_made_stories_are_right_and_surprise_where_something_is_chosen():
    stories = Stories.made(50, seed=3)
    lines = stories.text.strip("\n").split("\n")
    assert len(lines) == 50 and all(map(is_right, lines)) and len(set(lines)) == 50
    assert [stories.text[start] for start in stories.starts] == ["\n"] * 50
    people = math.log(8 * 7 * 6 / 3 / 2 / 1 * 6)  # three of eight in order, and as many things
    chosen = 2 * people + 3 * math.log(len(COLOURS)) + math.log(3 * 2) + QUESTIONS * math.log(2 * 3)
    story = Story.made(np.random.default_rng(1))
    assert sum(story.surprise) == pytest.approx(chosen) and len(story.surprise) == len(story.text)
    certain = [place for place, surprise in enumerate(story.surprise) if surprise == 0]
    assert all(place in certain for place in writer.answers(story.text))
    assert stories.least_loss([0], len(stories.text) - 1) == pytest.approx(stories.surprise[1:].mean())
    assert len({name[0] for name in NAMES}) == len(NAMES) and len({thing[0] for thing in THINGS}) == len(THINGS)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("key? Ada", "key? Hugo"), ("hat? Red", "hat? Blue"), ("hat? Emma", "hat? Ada"), ("from Hugo", "from Emma"),
        ("to Ada", "to Hugo"), ("Emma has", "Ada has"), ("red cup", "pink cup"), ("Who has the cup? Ada. ", ""),
        ("red hat", "red cup"), ("Who has the cup", "Where is the cup"), ("The key goes", "The cup goes"),
    ],
)  # fmt: skip
def test_wrong_stories_are_told(old, new):
    assert is_right(TOLD) and TOLD.count(old) >= 1
    assert not is_right(TOLD.replace(old, new, 1))


def test_whole_lines_are_counted():
    assert writer.right_lines([f"\n{TOLD}\n{TOLD[:40]}", "\nno story\n", TOLD]) == (1, 2)


def test_recorded_training():
    """It learnt the rules: little is lost beside the least loss there is, and nearly all that it writes is right."""
    found = writer._recorded(COURSE)
    assert found["parameters"] == writer.FORM.size and found["form"]["cols"] == writer.FORM.cols
    assert found["settings"]["epochs"] == writer.RECIPE.epochs == len(found["history"])
    _, least = writer.windows(writer.HELD_OUT, writer.HELD_OUT_SEED, writer.FORM.length)
    assert found["least"] == pytest.approx(least) and least <= found["held_out"] <= least + writer.SHORT_OF
    assert found["right"] >= writer.RIGHT * found["lines"]
    assert sum(map(is_right, found["written"].split("\n"))) >= 1
    assert {row["pytorch"] for row in found["against"]} == {"eager", "compiled"}
    table = writer.recorded()
    assert "H200" in table.note and len(table.rows) == 6 + 2


def test_pictures_of_what_was_recorded():
    axes = writer.draw_recorded_losses().axes[0]
    assert len(axes.lines) == 4 and axes.get_yscale() == "log"
    found = writer._recorded(COURSE)["looks"]
    figure = writer.draw_recorded_looks()
    assert len(figure.axes) == len(found) == 2
    for look in found:
        weights = np.array(look["weights"])
        assert weights.shape[:2] == (writer.FORM.blocks, writer.FORM.heads)
        assert np.allclose(weights.sum(axis=-1), 1, atol=0.1)
    nothing = Course(COURSE.root / "docs")
    assert writer.recorded(course=nothing).rows == () and writer.draw_recorded_looks(course=nothing).axes[0].texts
    assert writer.recorded_text(course=nothing) == "" and len(writer.draw_recorded_losses(course=nothing).axes) == 1


@pytest.mark.slow
def test_a_tiny_run_learns_on_the_simulator(simulated):
    kernels = Kernels(device="sim")
    done = writer.tiny_run(kernels)
    assert len(done.losses) == 40 and done.left <= writer.FALLS_TO
    assert "of the first losses is left" in done.table().note
    assert simulated.steps <= 20_000_000
    assert {row[-1] for row in writer.gradient_table(kernels).rows} == {"yes"}


@pytest.mark.slow
def test_gradients_that_a_kernel_leaves_out_are_told():
    """A network without slopes through attention learns all the same, which words follow which: the table shows it."""
    step = COURSE.step("lab16_attention/07_backward")
    rows = {row[0]: row[-1] for row in writer.gradient_table(Kernels({step.name: step.starter}, device="sim")).rows}
    assert rows["block1.qkv.weight"] == rows["embedding.weight"] == "no"
    assert rows["block1.joined.weight"] == rows["scores.bias"] == "yes"


def test_a_run_that_stopped_says_why():
    assert writer.TinyRun([2.0], stopped="a race").table().note == "a race"
    assert "more than 0.60" in writer.TinyRun([3.0] * 20, seconds=1.0).table().note


@pytest.mark.slow
def test_the_script_learns_from_a_text_of_ones_own(tmp_path):
    """And goes on from its checkpoint, and says what is wrong with a file."""
    text, results = tmp_path / "own.txt", tmp_path / "results.json"
    text.write_text("one two three four five six seven eight nine ten. " * 30, encoding="utf-8")
    script = [sys.executable, str(COURSE.root / "scripts" / "train_writer.py"), "--tiny", "--device", "sim"]
    more = ["--texts", "1", "--text", str(text), "--checkpoint", str(tmp_path / "run.npz"), "--results", str(results)]
    for _ in range(2):
        done = subprocess.run([*script, *more], capture_output=True, text=True, check=True)
        assert "loss held out" in done.stdout
    found = json.loads(results.read_text("utf-8"))
    assert found["form"]["vocabulary"] == len(set(text.read_text("utf-8"))) and "least" not in found
    (tmp_path / "run.npz").write_bytes(b"PK broken")
    done = subprocess.run([*script, *more], capture_output=True, text=True)
    assert done.returncode == 1 and "is no checkpoint of this version" in done.stderr
