"""A GPU waits for lanes that come later, as the simulator does: the same kernels, the same numbers."""

from __future__ import annotations

import numpy as np
import pytest
from tests.sim import test_late_lanes as cases

import warpschool as ws

pytestmark = pytest.mark.gpu


@pytest.fixture(scope="module")
def gpu():
    return ws.get_device("gpu")


def run(gpu, source: str) -> np.ndarray:
    o = gpu.asarray(np.zeros(64, np.int32))
    ws.RawModule(code=source, device=gpu).get_function("k")((1,), (32,), (o,))
    return gpu.asnumpy(o)


@pytest.mark.parametrize("name", cases.AHEAD)
def test_lanes_that_go_on_with_the_loop(gpu, name):
    begin, expected = cases.AHEAD[name]
    assert run(gpu, cases.LOOP.replace("BODY", begin))[:32].tolist() == [expected] * 32


@pytest.mark.parametrize("name", cases.SPIN)
def test_lanes_that_look_at_memory(gpu, name):
    body, expected = cases.SPIN[name]
    assert run(gpu, cases.WAIT.replace("BODY", body))[1:33].tolist() == expected.tolist()
