"""Runs a program's text on the GPU at hand, by the driver alone, and the same PTX on the engine."""

from __future__ import annotations

import ctypes
import functools
import os
import random
import sys
from pathlib import Path

import numpy as np

from ptxsim import parse

from .launching import Inputs, Left, check_engine, compiled
from .programs import Launch

sys.path.append(str(Path(__file__).parents[3] / "benchmarks"))
from hopper_gpu import DriverError, Gpu

_STACK_SIZE, STACK_BYTES = 0, 16 << 10
"""CU_LIMIT_STACK_SIZE (CUDA driver API, CUlimit). The driver's default is 1 KB."""
LOST = 71
"""Exit status of a process whose GPU context a launch has broken: nothing that it does there will work again."""


@functools.cache
def gpu() -> Gpu:
    """This process's GPU, with as large a stack for each thread as the engine's: a recursion's need is not known."""
    device = Gpu()
    device.call("cuCtxSetLimit", _STACK_SIZE, ctypes.c_size_t(STACK_BYTES))
    return device


def on_gpu(ptx: str, launch: Launch, inputs: Inputs, *, level: int) -> Left:
    """What the GPU leaves, of code that ptxas optimised to a level (0 to 4).

    Raises DriverError for PTX that the driver does not take; ends the process where a launch fails.
    """
    device = gpu()
    module = device.module(ptx.encode(), level=level)
    arrays = [device.array(array) for array in inputs.arrays]
    parameters = [np.uint64(address.value).tobytes() for address in arrays] + [inputs.parameters]
    try:
        kernel = device.function(module, "k")
        device.launch(kernel, launch.grid, launch.block, parameters, shared_bytes=launch.shared_bytes)
        left = tuple(device.get(a, like) for a, like in zip(arrays, inputs.arrays, strict=True))[3:]
    except DriverError as error:
        print(f"the launch failed on {device.name}: {error}", file=sys.stderr, flush=True)
        os._exit(LOST)
    for array in arrays:
        device.free(array)
    device.unload(module)
    return Left(left, {})


def compare(text: str, rng: random.Random, *, level: int) -> Left:
    """GPU and engine on a text; what the GPU left. Raises Difference, and whatever a launch raises."""
    launch, ptx = compiled(text)
    inputs = Inputs.of(launch)
    expected = on_gpu(ptx, launch, inputs, level=level)
    check_engine(parse(ptx).kernel("k"), launch, inputs, expected, rng)
    return expected
