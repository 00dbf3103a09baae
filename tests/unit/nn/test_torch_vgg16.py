"""VGG16 as one autograd function in PyTorch, on the simulator: gradients as in float64, and what it refuses."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed: pip install 'warpschool[torch]'")

from warpschool.errors import ArgumentError  # noqa: E402  (below the skip)
from warpschool.nn.session import Kernels  # noqa: E402
from warpschool.nn.torch_vgg16 import Vgg16  # noqa: E402
from warpschool.nn.vgg16 import VggForm, reference  # noqa: E402

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def network():
    form = VggForm.small()
    return Vgg16(form, batch=2, kernels=Kernels(device="sim"), parameters=form.first_parameters(1, bias=0.1))


def batch() -> tuple[torch.Tensor, torch.Tensor]:
    rng = np.random.default_rng(2)
    return torch.from_numpy(rng.uniform(-1, 1, (2, 3, 32, 32)).astype(np.float32)), torch.tensor([3, 7])


def test_gradients_and_a_step_of_an_optimizer(network):
    x, label = batch()
    values = {name: part.numpy().copy() for name, part in network.named().items()}
    exact = reference(network.form, values, x.numpy(), label.numpy())
    optimizer = torch.optim.SGD(network.parameters(), lr=0.05)
    loss = torch.nn.functional.cross_entropy(network(x), label)
    loss.backward()
    before = float(loss.detach())
    assert before == pytest.approx(exact.loss.mean(), rel=1e-5)
    gradients = network.step.graph.named(network.weights.grad.numpy())
    for name, wanted in exact.gradients.items():
        assert np.abs(gradients[name] - wanted).max() <= 1e-4 * np.abs(wanted).max(), name
    optimizer.step()
    moved = values["fc3.weight"] - 0.05 * exact.gradients["fc3.weight"]
    assert np.allclose(network.named()["fc3.weight"].numpy(), moved, atol=1e-5)
    with torch.no_grad():
        assert float(torch.nn.functional.cross_entropy(network(x), label)) < before


def test_a_second_forward_pass_takes_the_first_ones_place(network):
    x, _ = batch()
    first, second = network(x), network(x)
    second.sum().backward()
    with pytest.raises(RuntimeError, match="overwritten"):
        first.sum().backward()


def test_what_does_not_fit_is_refused(network):
    with pytest.raises(ArgumentError, match=r"images are \[1, 3, 32, 32\]"):
        network(batch()[0][:1])
