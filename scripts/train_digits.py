"""Train the course's networks on the 4,000 training digits and write their weights.

    python scripts/train_digits.py                                   # both networks, on the GPU if there is one
    python scripts/train_digits.py --network lenet5 --device sim --epochs 12 --out /tmp/weights

Everything random follows from --seed. Ctrl-C, or a machine that stops, costs one epoch at most: with --checkpoint the
same command goes on where it stopped, to the same numbers. Weights are stored in half precision; the accuracy that is
printed, and written to --results, is that of the stored weights on the 1,000 test digits.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np

import warpschool as ws
from warpcourse.lab11_training.lab import NETWORKS, RECIPE, training_network
from warpschool.nn import digits
from warpschool.nn.session import Kernels
from warpschool.nn.training import Adam, Settings, Sgd, Trainer

DATA = Path(__file__).parent.parent / "src/warpschool/nn/data"


def train(network: str, kernels: Kernels, settings: Settings, out: Path, checkpoint: Path | None) -> dict[str, Any]:
    """Train one network, write its weights, return what is to be recorded."""
    data = digits.load()
    trainer = Trainer(training_network(network, kernels.device.name), kernels, settings)
    file = checkpoint / f"{network}_checkpoint.npz" if checkpoint else None
    history = trainer.fit(data.train, test=data.test, checkpoint=file, progress=True)
    stored: dict[str, Any] = {name: values.astype(np.float16) for name, values in trainer.parameters.items()}
    path = out / f"{network}_weights.npz"
    np.savez_compressed(path, **stored)
    rounded = Trainer(
        trainer.layers, kernels, settings, parameters={name: v.astype(np.float32) for name, v in stored.items()}
    )
    accuracy = rounded.accuracy(data.test)
    seconds = sum(epoch.seconds for epoch in history)
    print(f"{network}: {accuracy:.2%} of {len(data.test):,} test digits, {settings.epochs} epochs, seed "
          f"{settings.seed}, {seconds:.2f} s of training on {kernels.device.description}; written: {path}")  # fmt: skip
    return {
        "network": network, "device": kernels.device.description, "accuracy": accuracy,
        "training_images": len(data.train), "test_images": len(data.test), "settings": _told(settings),
        "seconds": round(seconds, 3), "parameters": sum(v.size for v in stored.values()),
        "history": [asdict(epoch) for epoch in history],
    }  # fmt: skip


def _told(settings: Settings) -> dict[str, Any]:
    return asdict(settings) | {"optimizer": {"name": type(settings.optimizer).__name__, **asdict(settings.optimizer)}}


def record(path: Path, rows: list[dict[str, Any]]) -> None:
    """Put the rows into the results, in place of those of the same networks."""
    known = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    others = [row for row in known.get("weights", []) if row["network"] not in {new["network"] for new in rows}]
    known["weights"] = sorted([*others, *rows], key=lambda row: row["network"])
    path.write_text(json.dumps(known, indent=1) + "\n", encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--network", nargs="+", choices=NETWORKS, default=NETWORKS)
    parser.add_argument("--device", choices=("auto", "gpu", "sim"), default="auto")
    parser.add_argument("--epochs", type=int, default=RECIPE.epochs)
    parser.add_argument("--batch", type=int, default=RECIPE.batch, help="images of a step (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=RECIPE.seed)
    parser.add_argument("--shift", type=int, default=RECIPE.shift, help="pixels that images are moved by, at most")
    parser.add_argument("--optimizer", choices=("sgd", "adam"), default="sgd")
    parser.add_argument("--rate", type=float, help="of the first epoch (default: 0.05 for sgd, 0.001 for adam)")
    parser.add_argument("--out", type=Path, default=DATA, help="folder for the weights (default: the library's)")
    parser.add_argument("--checkpoint", type=Path, help="folder for checkpoints; go on from those that are there")
    parser.add_argument("--results", type=Path, help="JSON file in which to record accuracy, time and history")
    options = parser.parse_args()
    optimizer = RECIPE.optimizer if options.optimizer == "sgd" else Adam()
    assert isinstance(optimizer, (Sgd, Adam))
    if options.rate:
        optimizer = replace(optimizer, rate=options.rate)
    settings = replace(
        RECIPE, epochs=options.epochs, batch=options.batch, seed=options.seed, shift=options.shift, optimizer=optimizer
    )
    kernels = Kernels(device=ws.get_device(options.device))
    rows = [train(name, kernels, settings, options.out, options.checkpoint) for name in options.network]
    if options.results:
        record(options.results, rows)


if __name__ == "__main__":
    main()
