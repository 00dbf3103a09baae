"""Training on a GPU: batch size against accuracy and speed, and an epoch of MNIST against PyTorch's in the same run.

    python benchmarks/training.py [--out FILE] [--seconds 1] [--epochs 10] [--only batches against]

Part "batches" trains both networks of the course from the same first weights with several batch sizes, the rate in
proportion to the batch up to a limit. Part "against" times the steps of one epoch of the 4,000 training digits, images
on the GPU, in turns with PyTorch: the same network, SGD with momentum, float32 without TF32, eager, and once as a CUDA
graph of the whole step (ours is one, but for copies and the update). Before, one step's gradients are compared. The
same epoch is timed with our kernels in order, too, and not side by side where they need nothing of each other.
Writes its parts into the file that scripts/train_digits.py --results writes, too.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

try:
    import cupy
    import torch
except ImportError:
    raise SystemExit("this needs a GPU, CuPy and PyTorch: pip install 'warpschool[cuda13,torch]'") from None
import numpy as np

import warpschool as ws
from warpcourse.lab11_training.lab import NETWORKS, RECIPE, training_network
from warpschool.device.measurement import Rules
from warpschool.nn import digits
from warpschool.nn.digits import Split
from warpschool.nn.session import Kernels
from warpschool.nn.training import Settings, Sgd, Trainer

BATCHES = (16, 32, 64, 128, 256, 512)
LARGEST_RATE = 0.1
RATE_OF_64 = 0.05
PARTS = ("batches", "against")


def batch_rows(kernels: Kernels, epochs: int, rules: Rules) -> list[dict[str, Any]]:
    """Train with several batch sizes, then time the steps of an epoch."""
    data = digits.load()
    rows = []
    for network in NETWORKS:
        for batch in BATCHES:
            rate = min(RATE_OF_64 * batch / 64, LARGEST_RATE)
            settings = replace(RECIPE, batch=batch, epochs=epochs, optimizer=replace(RECIPE.optimizer, rate=rate))
            trainer = Trainer(training_network(network, "gpu"), kernels, settings)
            history = trainer.fit(data.train, test=data.test)
            epoch_ms = ws.benchmark(our_epoch(trainer, *on_gpu(data.train, batch)), device="gpu", rules=rules,
                                    flush="warm").median_ms  # fmt: skip
            assert epoch_ms is not None
            row = {
                "network": network, "batch": batch, "rate": rate, "epochs": epochs, "seed": settings.seed,
                "accuracy": history[-1].accuracy, "loss": history[-1].loss, "epoch_ms": epoch_ms,
                "images_per_second": len(data.train) // batch * batch / epoch_ms * 1e3,
            }  # fmt: skip
            print(f"{network:8s} batch {batch:4d} rate {rate:.3f}: {row['accuracy']:.2%}, {row['epoch_ms']:.1f} ms an "
                  f"epoch, {row['images_per_second']:,.0f} images/s", flush=True)  # fmt: skip
            rows.append(row)
    return rows


def torch_network(name: str) -> torch.nn.Sequential:
    """The same network in PyTorch."""
    nn = torch.nn
    if name == "digits":
        return nn.Sequential(
            nn.Conv2d(1, 32, 5), nn.ReLU(), nn.AvgPool2d(2), nn.Conv2d(32, 64, 5), nn.ReLU(), nn.AvgPool2d(2),
            nn.Flatten(), nn.Linear(1024, 128), nn.ReLU(), nn.Linear(128, 10),
        )  # fmt: skip
    return nn.Sequential(
        nn.Conv2d(1, 6, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(400, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, 10),
    )  # fmt: skip


def copy_parameters(network: torch.nn.Sequential, parameters: dict[str, np.ndarray]) -> list[tuple[str, Any]]:
    """Give the network our parameters; returns its tensors by our names."""
    pairs = []
    layers = [layer for layer in network if hasattr(layer, "weight")]
    names = sorted({name.split(".")[0] for name in parameters})  # conv1, conv2, fc1, ...
    for name, layer in zip(names, layers, strict=True):
        weight, bias = parameters[f"{name}.weight"], parameters[f"{name}.bias"]
        with torch.no_grad():
            layer.weight.copy_(torch.from_numpy(weight.T.copy() if name.startswith("fc") else weight))
            layer.bias.copy_(torch.from_numpy(bias))
        pairs += [(f"{name}.weight", layer.weight), (f"{name}.bias", layer.bias)]
    return pairs


@dataclass
class Theirs:
    """PyTorch's network, its optimizer, and one epoch's batches."""

    network: torch.nn.Sequential
    batches: list[tuple[torch.Tensor, torch.Tensor]]

    def __post_init__(self) -> None:
        sgd = RECIPE.optimizer
        assert isinstance(sgd, Sgd)
        self.optimizer = torch.optim.SGD(
            self.network.parameters(), lr=1e-3, momentum=sgd.momentum, weight_decay=sgd.decay
        )

    def step(self, x: torch.Tensor, label: torch.Tensor) -> torch.Tensor:
        self.optimizer.zero_grad(set_to_none=False)
        loss = torch.nn.functional.cross_entropy(self.network(x), label)
        loss.backward()
        self.optimizer.step()
        return loss

    def eager(self) -> None:
        for x, label in self.batches:
            self.step(x, label)

    def graphed(self) -> Callable[[], None]:
        """The epoch with each step replayed from a CUDA graph."""
        x, label = (tensor.clone() for tensor in self.batches[0])
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                self.step(x, label)
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            self.step(x, label)

        def epoch() -> None:
            for images, labels in self.batches:
                x.copy_(images)
                label.copy_(labels)
                graph.replay()

        return epoch


def largest_difference(trainer: Trainer, pairs: list[tuple[str, Any]]) -> float:
    """Between our gradients and PyTorch's, of the length of each parameter's; raises ArithmeticError.

    A ReLU whose input is zero but for rounding is open there and closed here: single weights may differ by more.
    """
    ours, worst = trainer.gradients, 0.0
    for name, tensor in pairs:
        theirs = tensor.grad.cpu().numpy()
        theirs = theirs.T if name.startswith("fc") and theirs.ndim == 2 else theirs
        worst = max(worst, float(np.linalg.norm(ours[name] - theirs) / np.linalg.norm(theirs)))
    if not worst < 5e-3:
        raise ArithmeticError(f"gradients differ from PyTorch's by {worst:.2g} of their length")
    return worst


def against_rows(kernels: Kernels, rules: Rules) -> list[dict[str, Any]]:
    """Time an epoch of each network, ours and PyTorch's in turns."""
    data = digits.load()
    rows = []
    for network in NETWORKS:
        for batch in (64, 512):
            settings = replace(RECIPE, batch=batch, shift=0)
            trainer = Trainer(training_network(network, "gpu"), kernels, settings)
            theirs = Theirs(torch_network(network).cuda(), [])
            pairs = copy_parameters(theirs.network, trainer.parameters)
            x, label = on_gpu(data.train, batch)
            count = len(x) // batch
            theirs.batches = list(zip(x.split(batch), label.split(batch), strict=True))
            trainer.step(data.train.pixels()[:batch], data.train.labels[:batch], rate=1e-3)
            theirs.step(*theirs.batches[0])
            difference = largest_difference(trainer, pairs)
            epoch = our_epoch(trainer, x, label)
            in_order = in_order_ms(network, kernels, settings, data.train, rules)
            for way, reference in (("eager", theirs.eager), ("CUDA graph", theirs.graphed())):
                found = ws.benchmark_ratio(epoch, reference, device="gpu", rules=rules, flush="warm")
                mine, other = found.candidate.median_ms, found.reference.median_ms
                assert mine and other and found.speed and found.error is not None
                row = {
                    "network": network, "batch": batch, "steps": count, "pytorch": way, "epoch_ms": mine,
                    "pytorch_epoch_ms": other, "ratio": 1 / found.speed, "ratio_error": found.error,
                    "stable": found.stable, "gradient_difference": difference, "in_order_ms": in_order,
                }  # fmt: skip
                print(f"{network:8s} batch {batch:4d}: {mine:8.2f} ms an epoch, PyTorch ({way}) {other:8.2f}: "
                      f"{row['ratio']:.3f} (error {found.error:.1%})", flush=True)  # fmt: skip
                rows.append(row)
    return rows


def in_order_ms(network: str, kernels: Kernels, settings: Settings, split: Split, rules: Rules) -> float:
    """Our epoch with one kernel after the other."""
    trainer = Trainer(training_network(network, "gpu"), kernels, settings, queues=1)
    trainer.step(split.pixels()[: settings.batch], split.labels[: settings.batch], rate=1e-3)
    epoch = our_epoch(trainer, *on_gpu(split, settings.batch))
    found = ws.benchmark(epoch, device="gpu", rules=rules, flush="warm").median_ms
    assert found is not None
    return found


def on_gpu(split: Split, batch: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Images and labels of all whole batches, on the GPU."""
    count = len(split) // batch * batch
    x = torch.from_numpy(split.pixels()[:count]).cuda()
    return x, torch.from_numpy(split.labels[:count].astype(np.int64)).cuda()


def our_epoch(trainer: Trainer, x: torch.Tensor, label: torch.Tensor) -> Callable[[], None]:
    """The steps of one epoch, enqueued on the trainer's stream, with the current stream waiting at both ends."""
    device, batch = trainer.device, trainer.settings.batch
    images = device.asarray(cupy.from_dlpack(x.contiguous()), name="images")
    labels = device.asarray(cupy.from_dlpack(label.to(torch.int32)), name="labels")
    starts = range(0, len(images), batch)
    batches = [(images[first : first + batch], labels[first : first + batch]) for first in starts]
    return lambda: trainer.steps_of(batches, rate=1e-3)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, help="put the results into this JSON file")
    parser.add_argument("--seconds", type=float, default=1.0, help="at most this long for one comparison")
    parser.add_argument("--epochs", type=int, default=10, help="of each training in part batches")
    parser.add_argument("--only", nargs="+", choices=PARTS, default=PARTS)
    options = parser.parse_args()
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    torch.backends.cudnn.benchmark = True
    device = ws.get_device("gpu")
    kernels = Kernels(device=device)
    known = json.loads(options.out.read_text(encoding="utf-8")) if options.out and options.out.exists() else {}
    known |= {
        "device": device.description, "cuda_driver": device.driver, "cupy": cupy.__version__,
        "torch": torch.__version__, "cudnn": torch.backends.cudnn.version(), "tf32": False,
    }  # fmt: skip
    rules = Rules(max_seconds=options.seconds, min_samples=5, max_samples=40)
    if "against" in options.only:
        known["against"] = against_rows(kernels, rules)
    if "batches" in options.only:
        known["batches"] = batch_rows(kernels, options.epochs, rules)
    if options.out:
        options.out.write_text(json.dumps(known, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
