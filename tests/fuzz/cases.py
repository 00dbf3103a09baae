"""What the fuzzer does with one text: read it, or read, translate and launch it."""

from __future__ import annotations

import hashlib
import random
import re
from dataclasses import dataclass

import numpy as np

from ptxsim import Allocation, Memory, SimKernel, parse
from ptxsim.codegen.translation import Options
from ptxsim.texture import Image, Surface, Texture, bind
from warpschool.errors import SimulationError, WarpschoolError

STEP_LIMIT, PRINT_LIMIT, MEMORY_LIMIT = 2_000, 1 << 12, 64 << 20
BLOCKS = ((32, 1, 1), (64, 1, 1), (33, 1, 1), (1, 1, 1), (8, 8, 1), (4, 3, 5))
SIZES = (0, 1, 7, 31, 32, 100, 1000, -1, 1 << 31)


class Unforeseen(Exception):
    """An instruction passed the checks of its form, and its handler failed."""


@dataclass(frozen=True)
class Seen:
    """What came of a case; `digest` is of all that a launch left and counted, the same on every machine."""

    outcome: str
    digest: str = ""


def read(text: str) -> str:
    """Parses a text and builds its kernels; what came of it. Whatever is no SimulationError is a finding."""
    try:
        module = parse(text)
    except SimulationError as error:
        return type(error).__name__
    outcome = "no kernel"
    for name in module.entries:
        try:
            module.kernel(name)
            outcome = "built"
        except SimulationError as error:
            outcome = type(error).__name__
    return outcome


def launch(text: str, rng: random.Random, threads: int | None = None) -> Seen:
    """Reads a text, translates its kernel and runs it on small arrays; "translated" outcomes have a colon.

    `threads` of the host instead of one or two: with one, even a kernel with races leaves the same every time.
    """
    try:
        module = parse(text)
        name = next(iter(module.entries), None)
        if name is None:
            return Seen("no kernel")
        memory = Memory(limit_bytes=MEMORY_LIMIT)
        kernel = module.kernel(name)
        module.place(memory)
    except SimulationError as error:
        return Seen(type(error).__name__)
    arguments, arrays = _arguments(kernel, memory, rng)
    _bind_objects(memory)
    block, grid = rng.choice(BLOCKS), (rng.choice((1, 2, 3)), 1, rng.choice((1, 1, 2)))
    parted = rng.random() < 0.3
    try:
        kernel.engine.build(block, Options(parted=parted))
    except WarpschoolError as error:
        if error.__cause__ is not None:  # a handler tripped over a form: refused in time, but forms.py let it through
            raise Unforeseen(str(error)) from error.__cause__
        return Seen(type(error).__name__)
    try:
        record = kernel.launch(
            grid, block, arguments, memory, shared_bytes=rng.choice((0, 0, 64, 1024)), parted=parted,
            threads=rng.choice((1, 2)) if threads is None else threads, step_limit=STEP_LIMIT, print_limit=PRINT_LIMIT,
            tier=rng.choice(("auto", "stencils")),
        )  # fmt: skip
    except WarpschoolError as error:
        if error.__cause__ is not None:
            raise Unforeseen(str(error)) from error.__cause__
        return Seen(f"launch: {type(error).__name__}")
    told = [_ADDRESS.sub("an address", hazard.message) for hazard in record.hazards]
    seen = hashlib.sha256(repr((sorted(record.counters.items()), told, record.printed)).encode())
    for array in arrays:
        seen.update(array.view().tobytes())
    return Seen("launch: hazards" if told else "launch: done", seen.hexdigest()[:8])


_ADDRESS = re.compile(r"\d{12,}")
"""Where a process lays its arenas depends on how many it had before."""


def compare(text: str, rng: random.Random) -> Seen:
    """A program without races or undefined behaviour, on engine and oracle."""
    from .cuda import launching

    return Seen("same", launching.compare(text, rng).digest)


def compare_silicon(text: str, rng: random.Random, *, level: int) -> Seen:
    """The same on engine and GPU, with ptxas's optimiser at a level."""
    from .cuda import silicon

    return Seen("same", silicon.compare(text, rng, level=level).digest)


def _bind_objects(memory: Memory) -> None:
    """Textures and surfaces of all geometries, whose handles the fuzzer knows."""
    for shape, layered in (((9,), False), ((4, 5), False), ((2, 4, 5), False), ((2, 9), True), ((2, 4, 5), True)):
        image = Image.array(memory, shape, "f4", channels=2, layered=layered)
        bind(memory, Texture(image, "mirror", "linear", normalized_coordinates=True))
        bind(memory, Surface(image))
    bind(memory, Texture(Image.linear(memory.allocate(400), "i2", channels=4)))


def _arguments(kernel: SimKernel, memory: Memory, rng: random.Random) -> tuple[bytes, list[Allocation]]:
    """Pointers to arrays of 4 KB, now and then somewhere else; small numbers for the rest."""
    block, arrays = bytearray(kernel.body.param_bytes), []
    for p in kernel.params:
        if p.size_bytes == 8:
            array = memory.allocate(4096, p.name)
            array.view()[:] = rng.randrange(256)
            arrays.append(array)
            elsewhere = rng.choice((0, array.end - 4, array.address + 2, 1 << 63))
            address = array.address if rng.random() < 0.9 else elsewhere
            value = np.uint64(address).tobytes()
        else:
            value = (rng.choice(SIZES) & 0xFFFFFFFF).to_bytes(4, "little") * -(-p.size_bytes // 4)
        block[p.offset : p.offset + p.size_bytes] = value[: p.size_bytes]
    return bytes(block), arrays
