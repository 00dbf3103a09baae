"""Texts to learn from, character by character, and networks that write them.

    alphabet = Alphabet.of(text)
    windows = Windows.of(text, alphabet, length=256)             # everywhere; or from given places on
    trainer.fit(windows, checkpoint=Path("run.npz"))
    reader = Reader(form, kernels, batch=32)
    reader.load(trainer.parameters)
    reader.loss(held_out); reader.write("\\n", count=32, seed=1)
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from warpschool.errors import ArgumentError
from warpschool.nn.network import build
from warpschool.nn.session import Kernels, Session
from warpschool.nn.transformer import Transformer


@dataclass(frozen=True)
class Alphabet:
    """The characters that occur, in order; a character's number is its place."""

    characters: str

    @classmethod
    def of(cls, text: str) -> Alphabet:
        return cls("".join(sorted(set(text))))

    def __len__(self) -> int:
        return len(self.characters)

    def codes(self, text: str) -> npt.NDArray[np.int32]:
        """Return the characters' numbers. Raises ArgumentError for a character that it does not have."""
        known = {character: code for code, character in enumerate(self.characters)}
        if strange := sorted(set(text) - set(known)):
            raise ArgumentError(
                f"the alphabet has no {strange[0]!r}", next_step="Make it of all texts: Alphabet.of(first + second)."
            )
        return np.array([known[character] for character in text], np.int32)

    def text(self, codes: npt.ArrayLike) -> str:
        return "".join(self.characters[code] for code in np.asarray(codes).reshape(-1))


@dataclass(frozen=True, eq=False)
class Windows:
    """Pieces of a text, LENGTH characters and the one that comes next: int32 [N,LENGTH+1]."""

    codes: npt.NDArray[np.int32]

    @classmethod
    def of(cls, text: str, alphabet: Alphabet, length: int, *, starts: Sequence[int] | None = None) -> Windows:
        """Cut a text into windows from these places on, or everywhere half a window apart. Raises ArgumentError."""
        codes = alphabet.codes(text)
        places = range(0, len(codes), max(1, length // 2)) if starts is None else starts
        whole = [place for place in places if place + length < len(codes)]
        if not whole:
            raise ArgumentError(f"a text of {len(text)} characters has no window of {length} and one more")
        return cls(codes[np.add.outer(np.array(whole), np.arange(length + 1))])

    def __len__(self) -> int:
        return len(self.codes)

    def drawn(self, order: np.ndarray, _: int, __: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """Return these windows, and what comes after each of their characters; nothing is random about that."""
        chosen = self.codes[order]
        return np.ascontiguousarray(chosen[:, :-1]), np.ascontiguousarray(chosen[:, 1:])

    @cached_property
    def about(self) -> dict[str, Any]:
        """What a checkpoint says of what was trained on."""
        return {"windows": len(self), "text": hashlib.sha256(self.codes.tobytes()).hexdigest()[:16]}


class Reader:
    """A network that says what comes next, in `batch` texts at a time; the simulator checks its first run."""

    def __init__(self, form: Transformer, kernels: Kernels, batch: int) -> None:
        self.form, self.batch = form, batch
        self.session = Session(build(form.layers(), batch, (form.length,), dtype=np.int32), kernels)

    def load(self, parameters: Mapping[str, npt.ArrayLike]) -> None:
        """Take these parameters. Raises ArgumentError for those of another network."""
        self.session.load(parameters)

    def scores(self, codes: npt.ArrayLike) -> npt.NDArray[np.float32]:
        """Scores [N,LENGTH,VOCAB] of what comes after each character of N texts, `batch` at most."""
        texts = np.asarray(codes, np.int32)
        if texts.shape[1:] != (self.form.length,) or len(texts) > self.batch:
            raise ArgumentError(f"texts {list(texts.shape)} for {self.batch} texts of {self.form.length} characters")
        whole = np.zeros((self.batch, self.form.length), np.int32)
        whole[: len(texts)] = texts
        self.session["x"].set(whole)
        self.session.run()
        self.session.device.synchronize()
        found = self.session["scores"].get().reshape(self.batch, self.form.length, -1)
        if self.session.checked:
            self.session.relax()
        return found[: len(texts)]

    def losses(self, windows: Windows) -> npt.NDArray[np.float64]:
        """Minus the logarithm of the probability of each window's next characters: [N,LENGTH]."""
        parts = [windows.codes[first : first + self.batch] for first in range(0, len(windows), self.batch)]
        found = []
        for part in parts:
            logs = _logarithms(self.scores(part[:, :-1]))
            found.append(-np.take_along_axis(logs, part[:, 1:, None].astype(np.int64), axis=-1)[..., 0])
        return np.concatenate(found)

    def write(self, beginning: npt.ArrayLike, count: int, seed: int) -> npt.NDArray[np.int32]:
        """Continue a beginning `count` times up to LENGTH characters, each drawn by its probability: [count,LENGTH]."""
        first = np.asarray(beginning, np.int32)
        if not 0 < first.size <= self.form.length or count > self.batch:
            raise ArgumentError(f"{count} texts that begin with {first.size} characters do not fit this network")
        rng = np.random.default_rng([seed, 2])
        texts = np.zeros((count, self.form.length), np.int32)
        texts[:, : first.size] = first
        for place in range(first.size, self.form.length):
            logs = _logarithms(self.scores(texts)[:, place - 1])
            # The largest of scores with such noise is drawn by its probability.
            texts[:, place] = (logs + rng.gumbel(size=logs.shape)).argmax(axis=-1)
        return texts


def _logarithms(scores: np.ndarray) -> npt.NDArray[np.float64]:
    """The logarithms of the probabilities that these scores stand for."""
    exact = scores.astype(np.float64)
    below = exact - exact.max(axis=-1, keepdims=True)
    return below - np.log(np.exp(below).sum(axis=-1, keepdims=True))
