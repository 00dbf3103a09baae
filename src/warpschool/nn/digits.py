"""Handwritten digits, and the weights that were trained on them.

    digits = load()
    x, labels = digits.test.pixels(), digits.test.labels        # float32 [1000,1,28,28] in 0 to 1, uint8 [1000]
    parameters = weights("digits")                              # {"conv1.weight": float32 [32,1,5,5], ...}

5,000 images of MNIST (Y. LeCun and C. Cortes, licence CC BY-SA 3.0; see data/README.md), 500 of each digit: 4,000 for
training and 1,000 for testing, the same ones everywhere. The training images stand in random order.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

import numpy as np
import numpy.typing as npt

from warpschool.errors import ArgumentError
from warpschool.suggest import did_you_mean

_DATA = resources.files(__package__) / "data"
_WEIGHTS = "_weights.npz"


@dataclass(frozen=True, eq=False)
class Split:
    """Images [N,28,28] as bytes and what they show, 0 to 9; both are read-only."""

    images: np.ndarray
    labels: np.ndarray

    def __len__(self) -> int:
        return len(self.images)

    def pixels(self, dtype: npt.DTypeLike = np.float32) -> np.ndarray:
        """Return the images as a network takes them: [N,1,28,28], 0 for paper and 1 for ink."""
        return (self.images[:, None].astype(np.float32) / 255).astype(dtype)

    def drawn(self, order: np.ndarray, shift: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """Return these images and their labels for training, each image moved by up to `shift` pixels each way."""
        moved = shifted(self.images[order], shift, rng)
        return moved.astype(np.float32)[:, None] / np.float32(255), self.labels[order].astype(np.int32)

    @property
    def about(self) -> dict[str, Any]:
        """What a checkpoint says of what was trained on."""
        return {"images": len(self)}


def shifted(images: np.ndarray, most: int, rng: np.random.Generator) -> np.ndarray:
    """Return images [N,H,W], each moved by -most to most pixels down and across; what comes in is 0."""
    if not most:
        return images
    count, height, width = images.shape
    padded = np.pad(images, ((0, 0), (most, most), (most, most)))
    down, across = rng.integers(0, 2 * most + 1, (2, count))
    rows = down[:, None] + np.arange(height)
    cols = across[:, None] + np.arange(width)
    return padded[np.arange(count)[:, None, None], rows[:, :, None], cols[:, None, :]]


@dataclass(frozen=True, eq=False)
class Digits:
    """Images for training and others for testing."""

    train: Split
    test: Split


@cache
def load() -> Digits:
    """Return the 4,000 and 1,000 images."""
    arrays = _read("digits.npz")
    train, test = (Split(arrays[f"{part}_images"], arrays[f"{part}_labels"]) for part in ("train", "test"))
    return Digits(train, test)


def weights(network: str) -> dict[str, np.ndarray]:
    """Return the trained parameters of a network, "digits" or "lenet5", as float32.

    They are stored in half precision, so every value is exact in it. Raises ArgumentError for a network without any.
    """
    known = sorted(file.name.removesuffix(_WEIGHTS) for file in _DATA.iterdir() if file.name.endswith(_WEIGHTS))
    if network not in known:
        raise ArgumentError(
            f"no trained weights for a network called {network!r}",
            next_step=did_you_mean(network, known) or f"There are: {', '.join(known) or 'none'}.",
        )
    return {name: values.astype(np.float32) for name, values in _read(network + _WEIGHTS).items()}


def _read(name: str) -> dict[str, np.ndarray]:
    with (_DATA / name).open("rb") as file, np.load(file) as arrays:
        found = dict(arrays)
    for array in found.values():
        array.flags.writeable = False
    return found
