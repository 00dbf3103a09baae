"""A training step of lab 16's transformer on a GPU, in turns with PyTorch's in the same run.

    python benchmarks/writer.py [--out FILE] [--seconds 2]

The same network from the same weights: float32 without TF32, Adam, a batch of texts that are on the GPU. PyTorch runs
it eagerly and compiled (`torch.compile`), attention by `scaled_dot_product_attention`, Adam with `fused=True`.
Before, losses and gradients of one step are compared. Writes its part into the file that scripts/train_writer.py
--results writes, too, and the time of each of our kernels in a step.
"""

from __future__ import annotations

import argparse
import json
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

try:
    import cupy
    import torch
except ImportError:
    raise SystemExit("this needs a GPU, CuPy and PyTorch: pip install 'warpschool[cuda13,torch]'") from None
import numpy as np

import warpschool as ws
from warpcourse.lab16_attention import writer
from warpschool.device.measurement import Rules
from warpschool.nn.session import Kernels, Session
from warpschool.nn.training import Adam, Trainer
from warpschool.nn.transformer import Transformer

STEPS = 4
"""Steps of one measurement."""
RATE = 1e-4


class Block(torch.nn.Module):
    """Attention and two products, each behind a norm and beside what was there."""

    def __init__(self, form: Transformer) -> None:
        super().__init__()
        nn, cols = torch.nn, form.cols
        self.heads = form.heads
        self.norm1, self.norm2 = nn.LayerNorm(cols), nn.LayerNorm(cols)
        self.qkv, self.joined = nn.Linear(cols, 3 * cols), nn.Linear(cols, cols)
        self.wide, self.narrow = nn.Linear(cols, 4 * cols), nn.Linear(4 * cols, cols)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, cols = x.shape
        parts = self.qkv(self.norm1(x)).view(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        seen = torch.nn.functional.scaled_dot_product_attention(*parts.unbind(0), is_causal=True)
        x = x + self.joined(seen.transpose(1, 2).reshape(batch, length, cols))
        return x + self.narrow(torch.nn.functional.gelu(self.wide(self.norm2(x))))


class Theirs(torch.nn.Module):
    """The same network in PyTorch."""

    def __init__(self, form: Transformer) -> None:
        super().__init__()
        nn = torch.nn
        self.embedding = nn.Embedding(form.vocabulary, form.cols)
        self.places = nn.Parameter(torch.zeros(form.length, form.cols))
        self.blocks = nn.ModuleList(Block(form) for _ in range(form.blocks))
        self.norm, self.scores = nn.LayerNorm(form.cols), nn.Linear(form.cols, form.vocabulary)

    def forward(self, codes: torch.Tensor) -> torch.Tensor:
        x = self.embedding(codes) + self.places
        for block in self.blocks:
            x = block(x)
        return self.scores(self.norm(x))

    def own_name(self, name: str) -> tuple[str, bool]:
        """PyTorch's name for one of our parameters, and whether it stands transposed there."""
        if name == "embedding.places":
            return "places", False
        if name.startswith("block"):
            number, rest = name.removeprefix("block").split(".", 1)
            name = f"blocks.{int(number) - 1}.{rest}"
        module = self.get_submodule(name.rpartition(".")[0])
        return name, isinstance(module, torch.nn.Linear) and name.endswith("weight")

    def load(self, parameters: dict[str, np.ndarray]) -> None:
        own = dict(self.named_parameters())
        with torch.no_grad():
            for name, values in parameters.items():
                theirs, turned = self.own_name(name)
                own[theirs].copy_(torch.from_numpy(values.T.copy() if turned else values))

    def gradients(self, names: Any) -> dict[str, np.ndarray]:
        own, found = dict(self.named_parameters()), {}
        for name in names:
            theirs, turned = self.own_name(name)
            values = own[theirs].grad.cpu().numpy()
            found[name] = values.T if turned else values
        return found


def theirs_step(
    network: Callable[[torch.Tensor], torch.Tensor], optimizer: torch.optim.Optimizer, x: torch.Tensor,
    label: torch.Tensor,
) -> torch.Tensor:  # fmt: skip
    optimizer.zero_grad(set_to_none=True)
    scores = network(x)
    loss = torch.nn.functional.cross_entropy(scores.flatten(0, 1), label.flatten())
    loss.backward()
    optimizer.step()
    return loss.detach()


def compare(trainer: Trainer, theirs: Theirs) -> float:
    """The largest difference between gradients, of the length of each; raises ArithmeticError."""
    ours = trainer.gradients
    others = theirs.gradients(ours)
    worst = max(float(np.linalg.norm(ours[n] - others[n]) / np.linalg.norm(others[n])) for n in ours)
    if not worst < 1e-3:
        raise ArithmeticError(f"gradients differ from PyTorch's by {worst:.2g} of their length")
    return worst


def against_rows(trainer: Trainer, rules: Rules) -> list[dict[str, Any]]:
    """Time steps with the same batch, ours and PyTorch's in turns."""
    form, batch = writer.FORM, writer.RECIPE.batch
    codes = writer.windows(2000, writer.SEED, form.length)[0].codes[:batch]
    theirs = Theirs(form).cuda()
    theirs.load(trainer.parameters)
    adam = writer.RECIPE.optimizer
    assert isinstance(adam, Adam)
    optimizer = torch.optim.Adam(
        theirs.parameters(), lr=RATE, betas=(adam.beta1, adam.beta2), eps=adam.epsilon, fused=True
    )
    x, label = (torch.from_numpy(part.astype(np.int64)).cuda() for part in (codes[:, :-1], codes[:, 1:]))
    mine = trainer.step(codes[:, :-1], codes[:, 1:], rate=RATE)
    other = float(theirs_step(theirs, optimizer, x, label))
    if not abs(mine - other) < 1e-4:
        raise ArithmeticError(f"the losses are {mine} and {other}")
    difference = compare(trainer, theirs)
    own_x, own_label = (
        trainer.device.asarray(cupy.from_dlpack(part.to(torch.int32).contiguous())) for part in (x, label)
    )

    def ours() -> None:
        trainer.steps_of([(own_x, own_label)] * STEPS, rate=RATE)

    rows = []
    for way, network in (("eager", theirs), ("compiled", torch.compile(theirs))):

        def reference(network: Any = network) -> None:
            for _ in range(STEPS):
                theirs_step(network, optimizer, x, label)

        reference()  # compiles
        found = ws.benchmark_ratio(ours, reference, device="gpu", rules=rules, flush="warm")
        my_ms, other_ms = found.candidate.median_ms, found.reference.median_ms
        assert my_ms and other_ms and found.speed and found.error is not None
        rows.append({
            "pytorch": way, "batch": batch, "step_ms": my_ms / STEPS, "pytorch_step_ms": other_ms / STEPS,
            "ratio": 1 / found.speed, "ratio_error": found.error, "stable": found.stable,
            "gradient_difference": difference,
        })  # fmt: skip
        print(f"a step: {my_ms / STEPS:.3f} ms, PyTorch's ({way}) {other_ms / STEPS:.3f} ms: {1 / found.speed:.3f} of "
              f"its time (error {found.error:.1%})", flush=True)  # fmt: skip
    return rows


def kernel_rows(trainer: Trainer) -> list[dict[str, Any]]:
    """The time of each layer's kernels in a step, there and back together, summed by what the layer is."""
    sums: dict[str, float] = defaultdict(float)
    session = Session(trainer.session.graph, trainer.kernels)  # not on the trainer's stream, where nobody looks
    session["parameters"].set(trainer.session["parameters"].get())
    for name in ("x", "label"):
        session[name].set(np.zeros(session[name].shape, np.int32))
    session.run()
    for layer in {call.layer for call in session.graph.calls}:
        took = ws.benchmark(session.again(layer), device="gpu", flush="warm",
                            rules=Rules(max_seconds=0.05, min_samples=3)).median_ms  # fmt: skip
        assert took is not None
        sums[layer.rpartition(".")[2]] += took
    rows = [{"layers": name, "ms": took} for name, took in sorted(sums.items(), key=lambda item: -item[1])]
    for row in rows:
        print(f"{row['layers']:12s} {row['ms']:.3f} ms", flush=True)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, help="put the results into this JSON file")
    parser.add_argument("--seconds", type=float, default=2.0, help="at most this long for one comparison")
    options = parser.parse_args()
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    device = ws.get_device("gpu")
    trainer = writer.training(writer.FORM, Kernels(device=device), writer.RECIPE)
    rules = Rules(max_seconds=options.seconds, min_samples=5, max_samples=40)
    found = {
        "device": device.description, "cuda_driver": device.driver, "torch": torch.__version__, "tf32": False,
        "against": against_rows(trainer, rules), "kernels": kernel_rows(trainer),
    }  # fmt: skip
    if options.out:
        known = json.loads(options.out.read_text(encoding="utf-8")) if options.out.exists() else {}
        options.out.write_text(json.dumps(known | found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
