"""The rule that picks tiles for small batches: by counts, on GPUs alone, and never against what a call says."""

from __future__ import annotations

import pytest

from warpcourse.lab11_training.lab import training_network
from warpschool.nn.graph import KernelCall
from warpschool.nn.network import PIXELS, build_training
from warpschool.nn.session import Kernels
from warpschool.nn.small_batches import tiles

KERNELS = Kernels(device="sim")
SMS = 132


def calls(network: str, batch: int) -> list[KernelCall]:
    found = build_training(training_network(network, "gpu"), batch, PIXELS).calls
    return [call for call in found if isinstance(call.kernel, str) and "y" in call.arrays]


def threads(call: KernelCall, constants: dict[str, int]) -> int:
    launch = KERNELS.contract(call.kernel).bind(call.sizes, constants=constants).launches[-1]
    return launch.grid[0] * launch.grid[1] * launch.block[0] * launch.block[1]


@pytest.mark.parametrize("network", ["digits", "lenet5"])
def test_small_batches_get_more_threads_and_large_ones_the_files_own_tiles(network: str) -> None:
    (conv,) = (c for c in calls(network, 64) if c.layer == "conv2" and c.arrays["y"].name == "conv2")
    small = tiles(conv, KERNELS.contract(conv.kernel), SMS)
    assert threads(conv, small) >= 2 * threads(conv, {})
    (large,) = (c for c in calls(network, 8192) if c.layer == "conv2" and c.arrays["y"].name == "conv2")
    assert tiles(large, KERNELS.contract(large.kernel), SMS) == {}


def test_sets_that_a_size_does_not_allow_are_passed_over() -> None:
    (conv,) = (c for c in calls("lenet5", 64) if c.layer == "conv1")  # four images of 28 x 28 are too many for a block
    chosen = tiles(conv, KERNELS.contract(conv.kernel), SMS)
    assert chosen["IMAGES"] < 4
    KERNELS.contract(conv.kernel).bind(conv.sizes, constants=chosen)


def test_a_call_that_chose_and_other_kernels_are_let_be() -> None:
    (conv,) = (c for c in calls("digits", 64) if c.layer == "conv1")
    own = KernelCall(conv.kernel, conv.sizes, conv.arrays, (("IMAGES", 1),), conv.layer, False)
    assert tiles(own, KERNELS.contract(conv.kernel), SMS) == {"IMAGES": 1}
    other = next(c for c in calls("digits", 64) if c.kernel == "lab11_training/08_bias_relu_pool")
    assert tiles(other, KERNELS.contract(other.kernel), SMS) == dict(other.constants)
    assert KERNELS.program(conv).constants == {}  # no GPU here
