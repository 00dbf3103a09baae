"""Training: layers, kernels, images and settings give weights, step by step.

    settings = Settings(epochs=10, batch=64, seed=1, optimizer=Sgd(rate=0.05))        # or Adam(rate=1e-3)
    trainer = Trainer(lenet5_layers(labels=False), Kernels(device="sim"), settings)
    loss = trainer.step(images, labels)                      # mean loss of one batch, before the step
    history = trainer.fit(digits.train, test=digits.test, checkpoint=Path("run.npz"), progress=True)
    trainer.parameters["conv1.weight"]; trainer.gradients["conv1.weight"]

Every launch is one of the kernels passed in; nothing else changes a number on the device. The simulator checks the
first step for hazards and runs the others unchecked. On a GPU a step's launches are recorded once and replayed, those
that need nothing of each other side by side.

What a run does next follows from its settings, parameters, optimizer and place alone: random numbers are drawn anew for
each epoch from (seed, epoch). So a run that goes on from a checkpoint computes what it would have computed anyway.
"""

from __future__ import annotations

import io
import json
import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Protocol
from zipfile import BadZipFile

import numpy as np
import numpy.typing as npt
from rich.console import Console

from warpschool.atomic import write_file
from warpschool.device import DeviceArray
from warpschool.errors import ArgumentError, SimulationError
from warpschool.nn.digits import Split
from warpschool.nn.graph import KernelCall, TrainingGraph
from warpschool.nn.layers import Argmax, Layer
from warpschool.nn.network import PIXELS, build, build_training
from warpschool.nn.session import Kernels, Session
from warpschool.nn.side_by_side import QUEUES, may_lie_apart, record
from warpschool.show.progress import progress as show_progress

# ---------------------------------------------------------------- optimizers


@dataclass(frozen=True, kw_only=True)
class Sgd:
    """Gradient descent with momentum: v = momentum v + (g + decay w), w = w - rate v."""

    rate: float = 0.05
    momentum: float = 0.9
    decay: float = 0.0
    STEP: ClassVar[str] = "lab11_training/06_sgd_momentum"
    STATE: ClassVar[tuple[str, ...]] = ("v",)

    def scalars(self, step: int, rate: float) -> dict[str, float]:
        return {"rate": rate, "momentum": self.momentum, "decay": self.decay}


@dataclass(frozen=True, kw_only=True)
class Adam:
    """Adam (Kingma, Ba 2015)."""

    rate: float = 1e-3
    beta1: float = 0.9
    beta2: float = 0.999
    epsilon: float = 1e-8
    STEP: ClassVar[str] = "lab11_training/07_adam"
    STATE: ClassVar[tuple[str, ...]] = ("m", "v")

    def scalars(self, step: int, rate: float) -> dict[str, float]:
        return {
            "rate": rate, "beta1": self.beta1, "beta2": self.beta2, "epsilon": self.epsilon,
            "correction1": 1 / (1 - self.beta1**step), "correction2": 1 / (1 - self.beta2**step),
        }  # fmt: skip


Optimizer = Sgd | Adam


class Updater:
    """An optimizer with its state on a device. Further keywords, `stream` among them, go to each launch."""

    def __init__(
        self, optimizer: Optimizer, kernels: Kernels, parameters: DeviceArray, gradients: DeviceArray, **launching: Any
    ) -> None:
        self.optimizer, self.launching = optimizer, launching
        self.program = kernels.program(KernelCall(optimizer.STEP, {}, {}))
        self.state = {name: kernels.device.zeros(parameters.shape, np.float32, name=name) for name in optimizer.STATE}
        self.arrays: Mapping[str, DeviceArray] = {"w": parameters, "g": gradients, **self.state}
        self._last: tuple[dict[str, float], Any] = ({}, ())

    def step(self, number: int, *, rate: float) -> None:
        """Change all parameters once, without waiting; `number` counts from 1."""
        scalars = self.optimizer.scalars(number, rate)
        if self._last[0] == scalars:
            for launch in self._last[1]:
                launch.again()
            return
        sizes = {"N": self.arrays["w"].size, **scalars}
        self._last = scalars, self.program.enqueue(sizes, self.arrays, **self.launching)

    def relax(self) -> None:
        """Let the simulator neither check nor count later steps."""
        self.launching |= {"check": False, "count": False}
        self._last = {}, ()

    @property
    def hazards(self) -> tuple[Any, ...]:
        """The hazards of the last step. Raises NotMeasured on a device that looks for none."""
        return tuple(hazard for launch in self._last[1] for hazard in launch.hazards)


# ---------------------------------------------------------------- checkpoints


CHECKPOINT_FORMAT = 1


@dataclass(frozen=True, eq=False)
class Checkpoint:
    """A run after `step` steps of epoch number `epoch`, both counted from 0."""

    epoch: int
    step: int
    parameters: np.ndarray
    optimizer: Mapping[str, np.ndarray]
    """the optimizer's own arrays, by name"""
    losses: np.ndarray
    """loss of each label of this epoch so far, in the order of training"""
    history: list[dict[str, Any]] = field(default_factory=list)
    """what was said about the epochs before"""


def save_checkpoint(path: Path, state: Checkpoint, run: Mapping[str, Any]) -> None:
    """Write a checkpoint; `run` describes what makes the run what it is. Raises OutputError."""
    place = {"epoch": state.epoch, "step": state.step, "history": state.history}
    about = {"format": CHECKPOINT_FORMAT, **place, "run": dict(run)}
    arrays: dict[str, Any] = {f"optimizer.{name}": values for name, values in state.optimizer.items()}
    arrays |= {"about": np.frombuffer(json.dumps(about).encode("utf-8"), np.uint8)}
    buffer = io.BytesIO()
    np.savez(buffer, parameters=state.parameters, losses=state.losses, **arrays)
    write_file(path, buffer.getvalue())


def load_checkpoint(path: Path, run: Mapping[str, Any]) -> Checkpoint:
    """Read a checkpoint. Raises ArgumentError for a file that is none, or one of a run with other settings."""
    try:
        with np.load(path, allow_pickle=False) as file:
            arrays = dict(file)
        about = json.loads(arrays.pop("about").tobytes())
        if about["format"] != CHECKPOINT_FORMAT:
            raise ValueError(f"format {about['format']}")
    except (OSError, ValueError, KeyError, BadZipFile) as error:
        raise ArgumentError(
            f"{path} is no checkpoint of this version: {error}", next_step="Delete it, or give another file."
        ) from None
    theirs, ours = about["run"], json.loads(json.dumps(dict(run)))
    other = sorted(key for key in {*theirs, *ours} if theirs.get(key) != ours.get(key))
    if other:
        told = "; ".join(f"{key}: {theirs.get(key)} there, {ours.get(key)} here" for key in other)
        raise ArgumentError(
            f"{path} belongs to another run ({told})", next_step="Give the same settings, or another file."
        )
    own = {name.removeprefix("optimizer."): a for name, a in arrays.items() if name.startswith("optimizer.")}
    return Checkpoint(about["epoch"], about["step"], arrays["parameters"], own, arrays["losses"], about["history"])


# ---------------------------------------------------------------- steps and runs


class Examples(Protocol):
    """What there is to train on."""

    def __len__(self) -> int: ...

    def drawn(self, order: np.ndarray, shift: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """Return these examples as the network takes them, and their labels (int32), one or more for each."""

    @property
    def about(self) -> dict[str, Any]:
        """What must be the same for a run to go on."""


TEST_BATCH = {"sim": 100, "gpu": 1000}
"""Images at a time when accuracy is measured."""


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What decides a run besides layers and images. `seed` decides the first weights, the batches and the shifts."""

    epochs: int = 10
    batch: int = 64
    seed: int = 1
    optimizer: Optimizer = field(default_factory=Sgd)
    shift: int = 0
    """training images are moved by up to so many pixels each way, anew in every epoch"""
    anneal: bool = True
    """lower the rate from epoch to epoch along half a cosine, to nearly nothing"""

    def __post_init__(self) -> None:
        for name in ("epochs", "batch"):
            if getattr(self, name) < 1:
                raise ArgumentError(f"training with {name} = {getattr(self, name)}", next_step="Take 1 or more.")

    def rate(self, epoch: int) -> float:
        """The rate of an epoch, counted from 0."""
        whole = self.optimizer.rate
        return whole * 0.5 * (1 + math.cos(math.pi * epoch / self.epochs)) if self.anneal else whole


@dataclass(frozen=True, kw_only=True)
class Epoch:
    """What was seen in one epoch; `accuracy` is that of the test images, None where there were none."""

    epoch: int
    loss: float
    accuracy: float | None
    rate: float
    seconds: float
    """of the training steps alone; what a run before a resumption took is not in it"""


def first_parameters(places: Mapping[str, Sequence[int]], seed: int) -> dict[str, np.ndarray]:
    """Return weights for layers with ReLU (He et al. 2015): normal, with variance 2 / inputs; biases are 0."""
    rng = np.random.default_rng([seed, 0])
    values = {}
    for name, shape in places.items():
        inputs = math.prod(shape[1:]) if len(shape) == 4 else shape[0]
        scale = 0.0 if name.endswith(".bias") else math.sqrt(2 / inputs)
        values[name] = (rng.standard_normal(shape) * scale).astype(np.float32)
    return values


class InTraining:
    """A training graph with parameters, and unless it is None an optimizer, on a device.

    Further keywords go to the session, `stream` to the optimizer's launches too.
    """

    def __init__(
        self, graph: TrainingGraph, kernels: Kernels, parameters: Mapping[str, npt.ArrayLike],
        optimizer: Optimizer | None, **options: Any,
    ) -> None:  # fmt: skip
        self.graph, self.device = graph, kernels.device
        self.session = Session(graph, kernels, **options)
        weights, slopes = self.session["parameters"], self.session["gradients"]
        weights.set(graph.flat(parameters))
        slopes.set(np.zeros(graph.size, np.float32))
        stream = options.get("stream")
        self.updater = Updater(optimizer, kernels, weights, slopes, stream=stream) if optimizer else None
        self.steps = 0
        """how many were made in all"""

    def update(self, rate: float | None = None) -> None:
        """Enqueue the optimizer's step; the rate is its own unless one is given."""
        self.steps += 1
        if self.updater is not None:
            self.updater.step(self.steps, rate=self.updater.optimizer.rate if rate is None else rate)

    @property
    def hazards(self) -> tuple[Any, ...]:
        """Those of the last step. Raises NotMeasured on a device that looks for none."""
        return (*self.session.hazards, *(self.updater.hazards if self.updater is not None else ()))

    @property
    def parameters(self) -> dict[str, np.ndarray]:
        """The parameters as they are now."""
        return self.graph.named(self.fetch("parameters"))

    @property
    def gradients(self) -> dict[str, np.ndarray]:
        """The gradients of the last step."""
        return self.graph.named(self.fetch("gradients"))

    def fetch(self, name: str) -> np.ndarray:
        """Wait for the device and return an array of the session."""
        self.device.synchronize()
        return self.session[name].get()

    def mean_loss(self) -> float:
        """The mean over the images of the last step's batch."""
        return float(self.fetch("loss").astype(np.float64).mean())


class Trainer(InTraining):
    """A network in training on one device; `parameters`: where to begin instead of at random weights.

    `always_check`: let the simulator check every step for hazards, not the first alone; `never_check`: none, since all
    kernels were checked before. `queues`: how many kernels of a step may run at once on a GPU, at most. Raises
    ArgumentError for layers that have no backward pass.
    """

    updater: Updater

    def __init__(
        self, layers: Sequence[Layer], kernels: Kernels, settings: Settings, *,
        parameters: Mapping[str, npt.ArrayLike] | None = None, image_shape: Sequence[int] = PIXELS,
        dtype: npt.DTypeLike = np.float32, always_check: bool = False, never_check: bool = False,
        queues: int = QUEUES,
    ) -> None:  # fmt: skip
        graph = build_training(layers, settings.batch, image_shape, dtype=dtype)
        start = parameters or first_parameters({n: p.shape for n, p in graph.places.items()}, settings.seed)
        self._stream = kernels.device.Stream(non_blocking=True) if kernels.device.measures_time else None
        guarded = True if self._stream is not None and queues > 1 and may_lie_apart(graph) else None
        super().__init__(graph, kernels, start, settings.optimizer, stream=self._stream, guarded=guarded)
        self.layers, self.kernels, self.settings = tuple(layers), kernels, settings
        self.image_shape = tuple(image_shape)
        self._settled, self._always_check, self._never_check, self._queues = False, always_check, never_check, queues
        self._recorded: Any = None
        self._testing: Session | None = None
        if never_check and self.device.counts:
            self._relax()

    # ---------------------------------------------------------------- a step

    def step(self, images: npt.ArrayLike, labels: npt.ArrayLike, *, rate: float | None = None) -> float:
        """Make one step with a batch [BATCH,C,H,W] and return its mean loss before the step."""
        x = self.device.asarray(np.ascontiguousarray(images, self.session["x"].dtype))
        label = self.device.asarray(np.ascontiguousarray(labels, np.int32))
        self._join(before=True)  # the copies run in the current stream, for which the trainer's own does not wait
        self.run_step(x, label, rate)
        return self.mean_loss()

    def steps_of(self, batches: Iterable[tuple[DeviceArray, DeviceArray]], *, rate: float) -> None:
        """Enqueue a step with each batch, images and labels (int32) on the device; wait for none.

        Work that was enqueued before on the current stream comes first, later work after.
        """
        self._join(before=True)
        for x, label in batches:
            self.run_step(x, label, rate)
        self._join(before=False)

    def _join(self, *, before: bool) -> None:
        """Let the trainer's stream wait for the current one, or that one for the trainer's."""
        if self._stream is not None:
            current = self.device.cupy.cuda.get_current_stream()  # type: ignore[attr-defined] # a stream means a GPU
            first, second = (current, self._stream) if before else (self._stream, current)
            second.wait_event(first.record())

    def run_step(self, x: DeviceArray, label: DeviceArray, rate: float | None) -> None:
        """Enqueue one step with a batch that is on the device."""
        with self._stream or nullcontext():
            self.session["x"].native[...] = x.native.reshape(self.session["x"].shape)
            self.session["label"].native[...] = label.native.reshape(self.session["label"].shape)
            if self._recorded is not None:
                self._recorded.launch(stream=self._stream)
            else:
                self.session.run()
            self.update(rate)
        if not self._settled:
            self._settle()

    def _settle(self) -> None:
        """After the first step, or every one: look at its hazards, then make the following ones fast."""
        self._settled = not (self._always_check and self.device.counts)
        if self.device.counts:
            if found := self.hazards:
                first = found[0]
                raise SimulationError(
                    f"training step {self.steps} has {len(found)} hazards; the first: {first.kind}: {first.message}",
                    file=first.file, line=first.line, next_step="Check this kernel by itself: warpschool check STEP.",
                )  # fmt: skip
            if self._settled:
                self._relax()
        elif self._stream is not None:
            self._recorded = record(self.session, self._stream, self._queues)

    def _relax(self) -> None:
        self._settled = True
        self.session.relax()
        self.updater.relax()

    # ---------------------------------------------------------------- a run

    def fit(
        self, train: Examples, *, test: Split | None = None, checkpoint: Path | None = None, every: int = 0,
        progress: bool = False, on_step: Callable[[int, float], None] | None = None,
        on_epoch: Callable[[Epoch], None] | None = None, epochs: range | None = None,
    ) -> list[Epoch]:  # fmt: skip
        """Train for all epochs and say what was seen in each; examples that fill no batch sit out an epoch.

        `epochs`: which of them, counted from 0, for whoever trains in parts with this trainer.

        `checkpoint`: a file that is written after every epoch, and after every `every` steps; where it exists the run
        goes on from there, to the same numbers. Ctrl-C writes it, too. `on_step` gets the number of the step and the
        mean loss (which waits for the device); `on_epoch` gets what the list will hold.
        """
        per_epoch = len(train) // self.settings.batch
        if not per_epoch:
            raise ArgumentError(f"{len(train)} examples fill no batch of {self.settings.batch}")
        run = _TrainingRun(self, train, per_epoch, checkpoint, every)
        steps, stderr = self.settings.epochs * per_epoch, Console(stderr=True)
        with show_progress(steps, "training", unit="steps", shown=progress, console=stderr, transient=False) as bar:
            try:
                for epoch in range(run.epoch, self.settings.epochs) if epochs is None else epochs:
                    seconds = run.train_epoch(epoch, on_step, bar.reach)
                    seen = Epoch(
                        epoch=epoch + 1, loss=run.mean_loss(), rate=self.settings.rate(epoch), seconds=seconds,
                        accuracy=self.accuracy(test) if test is not None else None,
                    )  # fmt: skip
                    run.finish_epoch(seen)
                    tested = "" if seen.accuracy is None else f", accuracy {seen.accuracy:.2%}"
                    bar.aside(f"loss {seen.loss:.4f}{tested}")
                    if on_epoch is not None:
                        on_epoch(seen)
            except KeyboardInterrupt:
                run.save()
                raise
        return run.history

    def accuracy(self, split: Split) -> float:
        """The part of the images that the network, as it is now, classifies right."""
        return float((self.classify(split) == split.labels).mean())

    def classify(self, split: Split) -> np.ndarray:
        """Return the class of each image."""
        size = TEST_BATCH.get(self.device.name, 100)
        if self._testing is None:
            graph = build((*self.layers, Argmax()), size, self.image_shape)
            self._testing = Session(graph, self.kernels)
            if self._never_check:
                self._testing.relax()
        session, pixels = self._testing, split.pixels()
        session.load(self.parameters)
        found = []
        for first in range(0, len(pixels), size):
            part = pixels[first : first + size]
            session["x"].set(np.concatenate([part, np.zeros((size - len(part), *self.image_shape), np.float32)]))
            session.run()
            self.device.synchronize()
            found.append(session["labels"].get()[: len(part)])
            if session.checked and not self._always_check:
                session.relax()
        return np.concatenate(found)


class _TrainingRun:
    """A trainer on its way through epochs: which examples come when, and what a checkpoint must hold."""

    def __init__(self, trainer: Trainer, train: Examples, per_epoch: int, path: Path | None, every: int) -> None:
        self.trainer, self.train, self.per_epoch, self.path, self.every = trainer, train, per_epoch, path, every
        self.settings = trainer.settings
        self.epoch = self.first_step = self.done = 0
        self.history: list[Epoch] = []
        self.each = trainer.session["loss"].size
        """losses of a step: one for each label"""
        self.losses = trainer.device.empty((per_epoch * self.each,), np.float32, name="losses")
        if path is not None and path.exists():
            self._restore(load_checkpoint(path, self._about()))

    def _about(self) -> dict[str, Any]:
        """What must be the same for a run to go on."""
        optimizer = self.settings.optimizer
        places = {name: list(place.shape) for name, place in self.trainer.graph.places.items()}
        return {
            **asdict(self.settings), "optimizer": {"name": type(optimizer).__name__, **asdict(optimizer)},
            **self.train.about, "parameters": places,
        }  # fmt: skip

    def _restore(self, state: Checkpoint) -> None:
        trainer = self.trainer
        trainer.session["parameters"].set(state.parameters)
        for name, values in state.optimizer.items():
            trainer.updater.state[name].set(values)
        self.epoch, self.first_step = state.epoch, state.step
        trainer.steps = state.epoch * self.per_epoch + state.step
        self.history = [Epoch(**seen) for seen in state.history]
        self.done = state.step
        if len(state.losses):
            self.losses[: len(state.losses)].set(state.losses)

    def batches(self, epoch: int) -> list[tuple[DeviceArray, DeviceArray]]:
        """The epoch's batches on the device, from the first that is still to be done; a function of seed and epoch."""
        batch, device = self.settings.batch, self.trainer.device
        rng = np.random.default_rng([self.settings.seed, 1, epoch])
        order = rng.permutation(len(self.train))[: self.per_epoch * batch]
        examples, labels = self.train.drawn(order, self.settings.shift, rng)
        x, label = device.asarray(examples, name="examples"), device.asarray(labels, name="labels")
        starts = range(self.first_step * batch, len(order), batch)
        return [(x[first : first + batch], label[first : first + batch]) for first in starts]

    def train_epoch(
        self, epoch: int, on_step: Callable[[int, float], None] | None, advance: Callable[[int], None]
    ) -> float:
        """Make the epoch's steps that are left; returns the seconds they took."""
        self.epoch, trainer, each = epoch, self.trainer, self.each
        self.done = self.first_step
        batches = self.batches(epoch)
        rate = self.settings.rate(epoch)
        trainer.device.synchronize()
        start = time.perf_counter()
        for x, label in batches:
            trainer.run_step(x, label, rate)
            with trainer._stream or nullcontext():
                self.losses[self.done * each : (self.done + 1) * each].native[...] = trainer.session["loss"].native
            self.done += 1
            advance(epoch * self.per_epoch + self.done)
            if on_step is not None:
                on_step(trainer.steps, float(trainer.fetch("loss").mean()))
            if self.every and self.done % self.every == 0 and self.done < self.per_epoch:
                self.save()
        trainer.device.synchronize()
        return time.perf_counter() - start

    def mean_loss(self) -> float:
        """The mean over the examples of the epoch, each before its step."""
        self.trainer.device.synchronize()
        return float(self.losses.get().astype(np.float64).mean())

    def finish_epoch(self, seen: Epoch) -> None:
        self.history.append(seen)
        self.epoch, self.first_step, self.done = seen.epoch, 0, 0
        self.save()

    def save(self) -> None:
        """Write the checkpoint, if there is to be one."""
        if self.path is None:
            return
        trainer = self.trainer
        trainer.device.synchronize()
        done = self.losses.get()[: self.done * self.each]
        optimizer = {name: array.get() for name, array in trainer.updater.state.items()}
        history = [asdict(seen) for seen in self.history]
        state = Checkpoint(self.epoch, self.done, trainer.fetch("parameters"), optimizer, done, history)
        save_checkpoint(self.path, state, self._about())
