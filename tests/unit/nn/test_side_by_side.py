"""Which launches of a training step wait for which: any order that keeps to it gives the same bits."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from warpschool.nn import layers
from warpschool.nn.network import build_training
from warpschool.nn.session import Kernels, Session
from warpschool.nn.side_by_side import Piece, dependencies, pieces, queues

IMAGE, BATCH = (1, 12, 12), 4


def small() -> tuple[layers.Layer, ...]:
    conv = "lab08_convolution/01_direct"
    return (
        layers.Convolve(name="conv1", filters=3, size=3, pad=1, step=conv),
        layers.BiasRelu(name="relu1", of="conv1"), layers.MaxPool(name="pool1"),
        layers.Convolve(name="conv2", filters=4, size=3, step=conv, backward_step=conv),
        layers.BiasRelu(name="relu2", of="conv2"), layers.MaxPool(name="pool2"),
        layers.FullyConnected(name="fc1", outputs=10),
    )  # fmt: skip


@cache
def session(guarded: bool) -> Session:
    """A training step on the simulator, run once."""
    graph = build_training(small(), BATCH, IMAGE)
    made = Session(graph, Kernels(device="sim"), guarded=guarded)
    rng = np.random.default_rng(1)
    made["parameters"].set(rng.standard_normal(graph.size).astype(np.float32))
    made["gradients"].set(np.zeros(graph.size, np.float32))
    made["x"].set(rng.standard_normal((BATCH, *IMAGE)).astype(np.float32))
    made["label"].set(rng.integers(0, 10, BATCH).astype(np.int32))
    made.run()
    return made


def latest_first(waits: list[tuple[int, ...]]) -> list[int]:
    """An order that keeps to the dependencies and is as far from the given one as they let it be."""
    left, order = set(range(len(waits))), []
    while left:
        ready = [n for n in left if not left & set(waits[n])]
        order.append(max(ready))
        left.remove(order[-1])
    return order


@pytest.mark.thinned(2)
@pytest.mark.parametrize("guarded", [True, False], ids=["apart", "shared"])
def test_every_order_that_keeps_to_the_dependencies_gives_the_same_bits(guarded: bool) -> None:
    made = session(guarded)
    assert made.repeats
    wanted = made["gradients"].get()
    found = pieces(made)
    order = latest_first(dependencies(found))
    assert order != sorted(order), "something can overlap"
    made["gradients"].set(np.full_like(wanted, np.nan))
    for n in order:
        found[n].launch.again()
    got = made["gradients"].get()
    written = ~np.isnan(got)  # parameters begin at multiples: what lies between belongs to nobody
    assert np.array_equal(got[written], wanted[written])
    assert written.sum() >= sum(np.prod(p.shape) for p in made.graph.places.values())


def test_the_gradient_of_weights_does_not_hold_up_the_slopes() -> None:
    found = pieces(session(True))
    waits = dependencies(found)
    names = [piece.launch.kernel for piece in found]
    filters = max(n for n, name in enumerate(names) if name == "conv_backward_filter" and n < names.index("flip"))
    later = next(n for n in range(len(names)) if n > names.index("flip") and names[n] == "conv")
    assert filters not in waits[later] and names.index("flip") in waits[later]
    chosen = queues(waits, 2)
    assert len(set(chosen)) == 2 and len(chosen) == len(found)
    assert set(queues(waits, 1)) == {0}


def test_what_is_read_is_not_overwritten_before_and_what_is_written_is_there() -> None:
    def piece(reads=(), writes=()):
        return Piece(None, tuple(reads), tuple(writes))

    found = [piece(writes=[(0, 8)]), piece(reads=[(0, 4)]), piece(reads=[(8, 12)]), piece(writes=[(4, 8)]),
             piece(writes=[(0, 1)])]  # fmt: skip
    assert dependencies(found) == [(), (0,), (), (0,), (0, 1)]
