"""Lab 16's project: a transformer of the course's kernels that learns to write stories, and what it looks at.

    trainer = training(TINY_FORM, own_kernels(), TINY)           # on the simulator, by the student's own kernels
    run = tiny_run(own_kernels()); run.table()
    draw_recorded_losses(); print(recorded_text()); draw_recorded_looks()        # the real one, as it was on a GPU
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import numpy.typing as npt
from matplotlib.figure import Figure

from warpcourse import experiments
from warpcourse.curves import LiveCurve, draw_losses, loss_left
from warpcourse.lab16_attention.stories import Stories, is_right
from warpcourse.lessons import BLUE
from warpschool.course import Course
from warpschool.errors import SimulationError
from warpschool.nn.layers import FullyConnected
from warpschool.nn.references import cross_entropy, finite_difference
from warpschool.nn.session import Kernels
from warpschool.nn.text import Alphabet, Windows
from warpschool.nn.training import Adam, Settings, Trainer
from warpschool.nn.transformer import Linear, Transformer
from warpschool.recorded import results
from warpschool.show.page import show_text
from warpschool.show.table import Table, small_table

LAB = "lab16_attention"
ALPHABET = Alphabet.of(Stories.made(200, seed=0).text)
STORIES, SEED = 40_000, 1
HELD_OUT, HELD_OUT_SEED = 512, 2
FORM = Transformer(vocabulary=len(ALPHABET), length=256, cols=256, heads=4, blocks=4)
RECIPE = Settings(epochs=10, batch=32, seed=1, optimizer=Adam(rate=3e-4, beta2=0.99))
"""The network whose losses and text were recorded, and how it is trained."""
SHORT_OF, RIGHT = 0.001, 0.95
"""What it is to come to: the loss of stories held out beside the least there is, and the part of right lines."""

TINY_FORM = Transformer(vocabulary=len(ALPHABET), length=48, cols=64, heads=1, blocks=1)
TINY = Settings(epochs=1, batch=4, seed=1, optimizer=Adam(rate=3e-3), anneal=False)
TINY_STORIES = 160
FALLS_TO = 0.6
"""What is left of the loss after the tiny run: the last ten steps against the first ten."""


@cache
def windows(count: int, seed: int, length: int) -> tuple[Windows, float]:
    """That many stories, a window from the beginning of each that has enough behind it, and the least loss there is."""
    stories = Stories.made(count, seed)
    starts = [start for start in stories.starts if start + length < len(stories.text)]
    return Windows.of(stories.text, ALPHABET, length, starts=starts), stories.least_loss(starts, length)


def training(form: Transformer, kernels: Kernels, settings: Settings, **options: Any) -> Trainer:
    """Return a trainer of this network at its first weights; further keywords are the trainer's."""
    first = options.pop("parameters", None) or form.first_parameters(settings.seed)
    layers = form.layers(Linear if kernels.device.name == "gpu" else FullyConnected)
    return Trainer(
        layers, kernels, settings, parameters=first, image_shape=(form.length,), dtype=np.int32, **options
    )


def exact_loss(form: Transformer, parameters: Mapping[str, npt.ArrayLike], codes: np.ndarray) -> float:
    """The mean loss of windows in float64."""
    scores, _ = form.exact(parameters, codes[:, :-1])
    return float(cross_entropy(scores.reshape(-1, form.vocabulary), codes[:, 1:].reshape(-1))[0].mean())


# ---------------------------------------------------------------- the notebook's runs


def own_kernels(device: str = "sim") -> Kernels:
    """The student's own kernels of this lab, references of the labs before."""
    return experiments.own_kernels(LAB, device=device)


@dataclass
class TinyRun:
    """A short training: its losses and its time; `stopped` says why it ended early."""

    losses: list[float]
    seconds: float = math.nan
    stopped: str = ""

    @property
    def left(self) -> float:
        """The mean loss of the last ten steps, over that of the first ten; NaN before there are twenty."""
        return loss_left(self.losses)

    def table(self) -> Table:
        """First losses, last losses, and what that means."""
        rows = [(name, f"{np.mean(part):.3f}") for name, part in
                (("first ten", self.losses[:10]), ("last ten", self.losses[-10:])) if part]  # fmt: skip
        note = self.stopped or (
            f"{len(self.losses)} steps in {self.seconds:.0f} s; {self.left:.2f} of the first losses is left"
            + ("." if self.left <= FALLS_TO else f": more than {FALLS_TO:.2f}, something is wrong with the way back.")
        )
        return small_table(("steps", "mean loss"), rows, note)


class _NoNumber(Exception):
    """The loss is no number any more; ends a run from inside."""


def tiny_run(kernels: Kernels, *, settings: Settings = TINY, stories: int = TINY_STORIES) -> TinyRun:
    """Train the tiny network and draw the loss while it falls; a kernel's fault ends it with a word."""
    train, _ = windows(stories, SEED, TINY_FORM.length)
    levels = {f"guessing among {len(ALPHABET)}": math.log(len(ALPHABET))}
    curve = LiveCurve(settings.epochs * (len(train) // settings.batch), levels=levels)

    def seen(step: int, loss: float) -> None:
        curve(step, loss)
        if not math.isfinite(loss):
            raise _NoNumber(f"The loss of step {step} is {loss}: a kernel leaves something out.")

    run = TinyRun(curve.losses)
    try:
        history = training(TINY_FORM, kernels, settings).fit(train, on_step=seen)
        run.seconds = sum(epoch.seconds for epoch in history)
    except (SimulationError, _NoNumber) as fault:
        run.stopped = str(fault)
        show_text(f"Training stopped. {fault}", failed=True)
    curve.draw()
    return run


def gradient_table(kernels: Kernels, *, seed: int = 0) -> Table:
    """For each parameter of the tiny network: the slope along a random direction, by kernels and by differences."""
    rng = np.random.default_rng(seed)
    train, _ = windows(TINY_STORIES, SEED, TINY_FORM.length)
    codes = train.codes[: TINY.batch]
    first = TINY_FORM.first_parameters(TINY.seed)
    parameters = {name: (v + rng.normal(0, 0.1, v.shape)).astype(np.float32) for name, v in first.items()}
    trainer = training(TINY_FORM, kernels, TINY, parameters=parameters)
    header = ("parameter", "numbers", "by your kernels", "by differences", "agree")
    try:
        trainer.step(codes[:, :-1], codes[:, 1:], rate=0.0)
    except SimulationError as fault:
        return small_table(header, (), str(fault))
    rows = []
    for name, gradient in trainer.gradients.items():
        direction = rng.choice([-1.0, 1.0], gradient.shape)

        def loss(values: np.ndarray, name: str = name) -> float:
            return exact_loss(TINY_FORM, parameters | {name: values}, codes)

        mine = float((gradient.astype(np.float64) * direction).sum())
        other = finite_difference(loss, parameters[name], direction)
        agrees = abs(mine - other) <= 1e-4 * float(np.abs(gradient).sum())
        rows.append((name, f"{gradient.size:,}", f"{mine:+.6f}", f"{other:+.6f}", "yes" if agrees else "no"))
    return small_table(header, rows, f"{TINY.batch} texts of {TINY_FORM.length}, in float64: two losses for each line.")


# ---------------------------------------------------------------- what it wrote, and what it looked at


def right_lines(texts: Sequence[str]) -> tuple[int, int]:
    """How many whole lines there are in texts that begin with a line's end, and how many of them are right."""
    lines = [line for text in texts for line in text.split("\n")[1:-1]]
    return sum(map(is_right, lines)), len(lines)


def looks_at(form: Transformer, parameters: Mapping[str, npt.ArrayLike], text: str, place: int) -> np.ndarray:
    """What the heads look at when they have read up to `place` of a text: [BLOCKS,HEADS,place + 1], in float64."""
    codes = ALPHABET.codes(text[: place + 1])[None]
    return np.stack([look[0, :, place] for look in form.exact(parameters, codes)[1]])


def answers(text: str) -> list[int]:
    """The places of a story's question marks and the spaces behind them: what comes next is an answer."""
    return [place + 1 for place, character in enumerate(text) if character == "?"]


# ---------------------------------------------------------------- what was recorded


def _recorded(course: Course | None) -> Mapping[str, Any]:
    found: dict[str, Any] = {}
    for result in results("writer_*.json", course=course):
        found |= result
    return found


def recorded(*, course: Course | None = None) -> Table:
    """The network that was trained on a GPU: its loss beside the least there is, and its step beside PyTorch's."""
    found = _recorded(course)
    rows = [
        ("parameters", f"{found['parameters']:,}"), ("steps", f"{found['steps']:,}"),
        ("seconds of training", f"{found['seconds']:.1f}"),
        ("loss of stories that it has not seen", f"{found['held_out']:.4f}"),
        ("the least there is for them", f"{found['least']:.4f}"),
        ("lines it wrote that are right", f"{found['right']} of {found['lines']}"),
    ] if "held_out" in found else []  # fmt: skip
    rows += [
        (f"a step, PyTorch's ({row['pytorch']})", f"{row['step_ms']:.2f} ms, {row['pytorch_step_ms']:.2f} ms")
        for row in found.get("against", [])
    ]
    return small_table(("what", "how much"), rows, f"{found.get('device', 'Nothing recorded')}.")


def draw_recorded_losses(*, course: Course | None = None) -> Figure:
    """The loss of the recorded training, and the least there is."""
    found = _recorded(course)
    losses = found.get("losses", [])
    every = found.get("every", 1)
    levels = {f"guessing among {len(ALPHABET)}": math.log(len(ALPHABET))}
    if losses:
        levels["the least there is"] = found["least"]
    figure = draw_losses(losses, levels)
    figure.axes[0].set_xlabel(f"step, means of {every}" if every > 1 else "step")
    figure.axes[0].set(yscale="log", ylim=(0.1, 5))
    return figure


def recorded_text(*, course: Course | None = None) -> str:
    """What the recorded network wrote."""
    written = _recorded(course).get("written", "")
    return "\n".join(textwrap.fill(line, 100) for line in written.split("\n"))


def draw_recorded_looks(*, course: Course | None = None) -> Figure:
    """What each head looks at before it writes the first letter of an answer: a row for each head, darker for more."""
    found = _recorded(course).get("looks", [])
    figure, axes = plt.subplots(max(1, len(found)), 1, figsize=(12, 3 * max(1, len(found))), squeeze=False)
    for own, look in zip(axes[:, 0], found, strict=False):
        weights = np.array(look["weights"])
        blocks, heads, count = weights.shape
        own.imshow(weights.reshape(-1, count), aspect="auto", cmap="Blues", vmin=0, vmax=1)
        own.set_yticks(range(blocks * heads), [f"{b + 1}.{h + 1}" for b in range(blocks) for h in range(heads)])
        own.set_xticks(range(count), ["\N{RETURN SYMBOL}" if c == "\n" else c for c in look["text"][:count]])
        own.tick_params(labelsize=6)
        own.set_ylabel("block.head")
        own.set_title(f"before {look['text'][count:count + look['letters']]!r}", fontsize=9, color=BLUE)
    if not found:
        axes[0, 0].text(0.5, 0.5, "nothing recorded", ha="center", va="center", transform=axes[0, 0].transAxes)
    figure.tight_layout()
    return figure
