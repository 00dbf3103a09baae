"""Every lane-by-lane instruction on the translated simulator against what a GPU computed for it, bit by bit.

The same cases and the same recording as for the oracle; each runs with all lanes together, with lanes parted, and as
stencils.
"""

from __future__ import annotations

import re

import numpy as np
import pytest

from ptxsim import Memory, parse
from ptxsim.codegen import jit
from warpschool.errors import UnsupportedInstruction

from .opcode_cases import CASES, THREADS, inputs, module
from .test_oracle_opcodes import SILICON, differences, in_table

UNSUPPORTED: set[str] = set()
"""Instructions that raise UnsupportedInstruction so far: each must do so by name."""


@pytest.fixture(scope="module")
def recorded():
    with np.load(SILICON) as archive:
        return {name: archive[name] for name in archive.files}


@pytest.fixture(scope="module")
def parsed():
    return parse(module())


def computed(parsed_module, number: int, how: str) -> list[np.ndarray]:
    """The engine's results of a case as uint64 arrays."""
    case = CASES[number]
    memory = Memory()
    words = [np.concatenate(inputs(case)), np.zeros(2 * THREADS, np.uint64), np.zeros(THREADS, np.uint64)]
    arrays = [memory.allocate(w.nbytes) for w in words]
    for array, w in zip(arrays, words, strict=True):
        array.view()[:] = w.view(np.uint8)
    kernel = parsed_module.kernel(f"case_{number}")
    kernel.launch(
        1, THREADS, arrays, memory, check=False, count=False, parted=how == "parted",
        tier="stencils" if how == "stencils" else "compiled",
    )  # fmt: skip
    return list(arrays[1].view().view(np.uint64).reshape(2, THREADS)[: len(case.results)])


@pytest.mark.parametrize("how", ["together", "parted", "stencils"])
@pytest.mark.parametrize(
    "first", [pytest.param(n, marks=pytest.mark.slow if n % 300 else ()) for n in range(0, len(CASES), 100)]
)
@pytest.mark.thinned(7)
def test_every_case_equals_silicon(first, how, parsed, recorded):
    for number in range(first, min(first + 100, len(CASES))):
        case = CASES[number]
        if not in_table(case):
            continue
        if case.name in UNSUPPORTED:
            with pytest.raises(UnsupportedInstruction, match=re.escape(case.name)):
                computed(parsed, number, how)
            continue
        for k, (ours, kind) in enumerate(zip(computed(parsed, number, how), case.results, strict=True)):
            theirs = recorded[f"{case.name}/{k}"]
            wrong = differences(case, ours, theirs, kind)
            seen = [([hex(int(s[t])) for s in inputs(case)], hex(int(ours[t])), hex(int(theirs[t]))) for t in wrong[:3]]
            assert not len(wrong), f"{case.name}, result {k}: (sources, engine, {recorded['chip']}) = {seen}"


def test_bf16_needs_no_routine_of_the_compilers(parsed, monkeypatch):
    """Most machines have none: LLVM's own arithmetic of bf16, comparing included, calls `__truncsfbf2`."""
    called: list[bytes] = []
    monkeypatch.setattr(jit.cache, "load", lambda *key: None)
    monkeypatch.setattr(jit, "_library", set())
    monkeypatch.setattr(jit, "_require_routines", lambda code: called.extend(jit._ROUTINE.findall(code)))
    numbers = [n for n, case in enumerate(CASES) if "bf16" in case.name and in_table(case)]
    for number in numbers:
        computed(parsed, number, "stencils")
    assert len(numbers) > 40 and not called
