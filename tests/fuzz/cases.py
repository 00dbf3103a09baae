"""What the fuzzer does with one text: read it, or read, translate and launch it."""

from __future__ import annotations

import random

import numpy as np

from ptxsim import Memory, SimKernel, parse
from ptxsim.codegen.translation import Options
from ptxsim.texture import Image, Surface, Texture, bind
from warpschool.errors import SimulationError, WarpschoolError

STEP_LIMIT, PRINT_LIMIT, MEMORY_LIMIT = 2_000, 1 << 12, 64 << 20
BLOCKS = ((32, 1, 1), (64, 1, 1), (33, 1, 1), (1, 1, 1), (8, 8, 1), (4, 3, 5))
SIZES = (0, 1, 7, 31, 32, 100, 1000, -1, 1 << 31)


class Unforeseen(Exception):
    """An instruction passed the checks of its form, and its handler failed."""


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


def launch(text: str, rng: random.Random) -> str:
    """Reads a text, translates its kernel and runs it on small arrays; "translated" outcomes have a colon."""
    try:
        module = parse(text)
        name = next(iter(module.entries), None)
        if name is None:
            return "no kernel"
        memory = Memory(limit_bytes=MEMORY_LIMIT)
        kernel = module.kernel(name)
        module.place(memory)
    except SimulationError as error:
        return type(error).__name__
    arguments = _arguments(kernel, memory, rng)
    _bind_objects(memory)
    block, grid = rng.choice(BLOCKS), (rng.choice((1, 2, 3)), 1, rng.choice((1, 1, 2)))
    parted = rng.random() < 0.3
    try:
        kernel.engine.build(block, Options(parted=parted))
    except WarpschoolError as error:
        if error.__cause__ is not None:  # a handler tripped over a form: refused in time, but forms.py let it through
            raise Unforeseen(str(error)) from error.__cause__
        return type(error).__name__
    try:
        record = kernel.launch(
            grid, block, arguments, memory, shared_bytes=rng.choice((0, 0, 64, 1024)), parted=parted,
            threads=rng.choice((1, 2)), step_limit=STEP_LIMIT, print_limit=PRINT_LIMIT,
            tier=rng.choice(("auto", "stencils")),
        )  # fmt: skip
    except WarpschoolError as error:
        if error.__cause__ is not None:
            raise Unforeseen(str(error)) from error.__cause__
        return f"launch: {type(error).__name__}"
    return "launch: hazards" if record.hazards else "launch: done"


def _bind_objects(memory: Memory) -> None:
    """Textures and surfaces of all geometries, whose handles the fuzzer knows."""
    for shape, layered in (((9,), False), ((4, 5), False), ((2, 4, 5), False), ((2, 9), True), ((2, 4, 5), True)):
        image = Image.array(memory, shape, "f4", channels=2, layered=layered)
        bind(memory, Texture(image, "mirror", "linear", normalized_coordinates=True))
        bind(memory, Surface(image))
    bind(memory, Texture(Image.linear(memory.allocate(400), "i2", channels=4)))


def _arguments(kernel: SimKernel, memory: Memory, rng: random.Random) -> bytes:
    """Pointers to arrays of 4 KB, now and then somewhere else; small numbers for the rest."""
    block = bytearray(kernel.body.param_bytes)
    for p in kernel.params:
        if p.size_bytes == 8:
            array = memory.allocate(4096, p.name)
            array.view()[:] = rng.randrange(256)
            elsewhere = rng.choice((0, array.end - 4, array.address + 2, 1 << 63))
            address = array.address if rng.random() < 0.9 else elsewhere
            value = np.uint64(address).tobytes()
        else:
            value = (rng.choice(SIZES) & 0xFFFFFFFF).to_bytes(4, "little") * -(-p.size_bytes // 4)
        block[p.offset : p.offset + p.size_bytes] = value[: p.size_bytes]
    return bytes(block)
