"""Runs a program's text on the engine and on the oracle, and tells where they differ."""

from __future__ import annotations

import hashlib
import random
import re
import struct
from dataclasses import dataclass
from typing import Any

import numpy as np

from ptxsim import Memory, SimKernel, parse
from ptxsim.oracle import run as run_oracle
from warpschool.compile import compile_cuda

from .programs import SUMS, WORDS, Launch

TIERS: tuple[dict[str, Any], ...] = (
    {"tier": "stencils"}, {"tier": "stencils"}, {"tier": "stencils", "threads": 1},
    {"tier": "stencils", "check": False},
)  # fmt: skip
"""The tier that begins at once, as every case takes it."""
VARIANTS: tuple[dict[str, Any], ...] = (
    {}, {}, {"tier": "compiled"}, {"parted": True}, {"check": False}, {"count": False}, {"threads": 1}, {"order": 7},
    {"check": False, "count": False}, {"parted": True, "check": False}, {"handoffs": True},
    {"tier": "stencils", "order": 3}, {"tier": "stencils", "count": False},
    {"tier": "stencils", "check": False, "threads": 1},
)  # fmt: skip
"""Other ways to launch, of which each case takes one; what comes out is the same."""
STEP_LIMIT, MEMORY_LIMIT = 1 << 22, 64 << 20


_UNDEFINED = re.compile("missing return statement|used before its value is set")


class Difference(Exception):
    """Two runs of a program that had to be alike are not, or a program without races was accused."""


@dataclass(frozen=True)
class Inputs:
    """What a program's arrays hold before it runs, in the order of its parameters."""

    arrays: tuple[np.ndarray, ...]
    parameters: bytes
    """the struct behind the pointers"""

    @classmethod
    def of(cls, launch: Launch) -> Inputs:
        """A function of the launch: words of all sizes, numbers among them that are infinite, tiny and none."""
        rng = np.random.default_rng(launch.data)
        words = rng.integers(0, 1 << 32, 256, dtype=np.uint32) >> rng.integers(0, 32, 256, dtype=np.uint32)
        floats = _numbers(rng, 256).astype(np.float32)
        floats[rng.integers(0, 256, 8)] = [np.nan, np.inf, -np.inf, -0.0, 1e-40, -1e-45, 3.4e38, 1e-38]
        doubles = _numbers(rng, 128)
        doubles[rng.integers(0, 128, 6)] = [np.nan, -np.inf, -0.0, 5e-324, 1.7e308, 2.0**52 + 1]
        threads = launch.blocks * launch.threads
        sums = rng.integers(0, 1 << 32, SUMS, dtype=np.uint32)
        sums[[24, 25, 28, 29, 30, 31]] = 0
        sums[42:44] = 0
        scratch, out = np.zeros(threads + launch.blocks + 1, np.uint32), np.zeros(threads * WORDS, np.uint32)
        five, scale, wide = (int(w) for w in words[:5]), float(floats[9]), int(words[7]) << 13
        parameters = struct.pack("<5IfQ4hi4x", *five, scale, wide, -3, 300, -32768, 7, -77)
        return cls((words, floats, doubles, scratch, out, sums), parameters)


def _numbers(rng: np.random.Generator, count: int) -> np.ndarray:
    return rng.normal(size=count) * 10.0 ** rng.integers(-6, 9, count)


@dataclass(frozen=True)
class Left:
    """What a run left: scratch, outputs and sums; its counters and the first hazard, if there are."""

    arrays: tuple[np.ndarray, ...]
    counters: dict[str, int]
    hazard: str = ""

    @property
    def digest(self) -> str:
        """Eight hex digits of all that was left and counted."""
        seen = hashlib.sha256(b"".join(a.tobytes() for a in self.arrays))
        seen.update(repr(sorted((n, c) for n, c in self.counters.items() if c)).encode())
        return seen.hexdigest()[:8]


def compiled(text: str) -> tuple[Launch, str]:
    """How a text is launched, and its PTX. Raises ValueError for one that a minimiser has left undefined."""
    launch = Launch.of(text)
    made = compile_cuda(text, name="fuzz.cu", arch=launch.arch, options=launch.options)
    if undefined := _UNDEFINED.search(made.log):
        raise ValueError(f"the program is not defined: {undefined[0]}")
    return launch, made.ptx


def on_engine(kernel: SimKernel, launch: Launch, inputs: Inputs, **options: Any) -> Left:
    """Runs a kernel as the simulator does; `options` are those of `SimKernel.launch`."""
    memory = Memory(limit_bytes=MEMORY_LIMIT)
    params, allocations = _placed(memory, inputs)
    record = kernel.launch(
        launch.grid, launch.block, params, memory, shared_bytes=launch.shared_bytes, step_limit=STEP_LIMIT, **options
    )
    hazard = record.hazards[0].message if record.hazards else ""
    return Left(_taken(allocations, inputs), dict(record.counters), hazard)


def on_oracle(kernel: SimKernel, launch: Launch, inputs: Inputs) -> Left:
    """Runs it plainly."""
    memory = Memory(limit_bytes=MEMORY_LIMIT)
    params, allocations = _placed(memory, inputs)
    result = run_oracle(
        kernel, launch.grid, launch.block, params, memory, shared_bytes=launch.shared_bytes, step_limit=STEP_LIMIT
    )
    return Left(_taken(allocations, inputs), dict(result.counters))


def _placed(memory: Memory, inputs: Inputs) -> tuple[bytes, list[Any]]:
    allocations = []
    for k, array in enumerate(inputs.arrays):
        allocation = memory.allocate(array.nbytes, f"argument {k}")
        allocation.view()[:] = array.view(np.uint8)
        allocations.append(allocation)
    pointers = b"".join(np.uint64(a.address).tobytes() for a in allocations)
    return pointers + inputs.parameters, allocations


def _taken(allocations: list[Any], inputs: Inputs) -> tuple[np.ndarray, ...]:
    return tuple(a.view().view(i.dtype).copy() for a, i in zip(allocations, inputs.arrays, strict=True))[3:]


def different_words(ours: Left, theirs: Left, launch: Launch) -> str:
    """The first word that two runs left differently, in words; "" if there is none."""
    for name, a, b in zip(("scratch", "out", "sums"), ours.arrays, theirs.arrays, strict=True):
        places = np.flatnonzero(a != b)
        if places.size:
            k = int(places[0])
            where = f"{name}[{k}]" + (f", thread {k // WORDS}, word {k % WORDS}" if name == "out" else "")
            return f"{where}: {a[k]:#x} and {b[k]:#x}; {places.size} words differ"
    return ""


def compare(text: str, rng: random.Random) -> Left:
    """Both simulators on a text; what the oracle left. Raises Difference, and whatever a launch raises."""
    launch, ptx = compiled(text)
    inputs, kernel = Inputs.of(launch), parse(ptx).kernel("k")
    expected = on_oracle(kernel, launch, inputs)
    check_engine(kernel, launch, inputs, expected, rng)
    return expected


def check_engine(kernel: SimKernel, launch: Launch, inputs: Inputs, expected: Left, rng: random.Random) -> None:
    """Launches in two ways; raises Difference unless both leave what is expected, and count it, where that is known."""
    for options in (rng.choice(TIERS), rng.choice(VARIANTS)):
        ours = on_engine(kernel, launch, inputs, **options)
        if ours.hazard:
            raise Difference(f"hazard with {options}: {ours.hazard}")
        if differ := different_words(ours, expected, launch):
            raise Difference(f"bits with {options}, ours first: {differ}")
        counted = expected.counters.items() if options.get("count", True) else ()
        if names := {n: (ours.counters.get(n, 0), c) for n, c in counted if ours.counters.get(n, 0) != c}:
            raise Difference(f"counters with {options} (engine, oracle): {names}")
