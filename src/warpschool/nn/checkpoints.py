"""Checkpoints: the state of a training run in one file, written whole or not at all.

    save(path, State(...)); state = load(path, settings)

What a run does next follows from its settings, parameters, optimizer and place alone: random numbers are drawn anew for
each epoch from (seed, epoch). So a run that goes on from a checkpoint computes what it would have computed anyway.
"""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np

from warpschool.atomic import write_file
from warpschool.errors import ArgumentError

FORMAT = 1


@dataclass(frozen=True, eq=False)
class State:
    """A run after `step` steps of epoch number `epoch`, both counted from 0."""

    epoch: int
    step: int
    parameters: np.ndarray
    optimizer: Mapping[str, np.ndarray]
    """the optimizer's own arrays, by name"""
    losses: np.ndarray
    """loss of each image of this epoch so far, in the order of training"""
    history: list[dict[str, Any]] = field(default_factory=list)
    """what was said about the epochs before"""


def save(path: Path, state: State, run: Mapping[str, Any]) -> None:
    """Write a checkpoint; `run` describes what makes the run what it is. Raises OutputError."""
    about = {"format": FORMAT, "epoch": state.epoch, "step": state.step, "history": state.history, "run": dict(run)}
    arrays: dict[str, Any] = {f"optimizer.{name}": values for name, values in state.optimizer.items()}
    arrays |= {"about": np.frombuffer(json.dumps(about).encode("utf-8"), np.uint8)}
    buffer = io.BytesIO()
    np.savez(buffer, parameters=state.parameters, losses=state.losses, **arrays)
    write_file(path, buffer.getvalue())


def load(path: Path, run: Mapping[str, Any]) -> State:
    """Read a checkpoint. Raises ArgumentError for a file that is none, or one of a run with other settings."""
    try:
        with np.load(path, allow_pickle=False) as file:
            arrays = dict(file)
        about = json.loads(arrays.pop("about").tobytes())
        if about["format"] != FORMAT:
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
    return State(about["epoch"], about["step"], arrays["parameters"], own, arrays["losses"], about["history"])
