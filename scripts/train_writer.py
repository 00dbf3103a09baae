"""Train lab 16's transformer on stories, or on a text of your own, and let it write.

    python scripts/train_writer.py                                   # the stories, on the GPU if there is one
    python scripts/train_writer.py --tiny --device sim --checkpoint /tmp/writer.npz
    python scripts/train_writer.py --text my.txt --epochs 20 --out my_weights.npz

Everything random follows from --seed. Ctrl-C, or a machine that stops, costs one epoch at most (with --every STEPS so
many steps): with --checkpoint the same command goes on where it stopped, to the same numbers. Stories are made by
rules, so the least loss that anybody can have on them is known and printed beside that of stories held out. --results
writes losses, text, and what the heads look at, into a JSON file.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

import warpschool as ws
from warpcourse.lab16_attention import writer
from warpcourse.lab16_attention.stories import Stories
from warpschool.errors import ArgumentError, WarpschoolError
from warpschool.nn.session import Kernels
from warpschool.nn.text import Alphabet, Reader, Windows
from warpschool.nn.training import Adam, Settings
from warpschool.nn.transformer import Transformer

WRITTEN = 32
"""Texts that are written at a time."""
SHOWN = 3
EVERY = 10
"""Steps whose losses are recorded as one mean."""


@dataclass(frozen=True, eq=False)
class Material:
    """A network with what it learns from and what is held out; `least`: the least loss for that, where it is known."""

    form: Transformer
    alphabet: Alphabet
    train: Windows
    held_out: Windows
    beginning: str
    least: float | None


def stories(form: Transformer, count: int) -> Material:
    """The course's stories."""
    train, _ = writer.windows(count, writer.SEED, form.length)
    held_out, least = writer.windows(writer.HELD_OUT, writer.HELD_OUT_SEED, form.length)
    return Material(form, writer.ALPHABET, train, held_out, "\n", least)


def own_text(form: Transformer, path: Path) -> Material:
    """A text from a file; its last tenth is held out. Raises ArgumentError."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ArgumentError(f"{path} is no text in UTF-8: {error}") from None
    alphabet = Alphabet.of(text)
    border = len(text) * 9 // 10
    learnt, held_out = (Windows.of(part, alphabet, form.length) for part in (text[:border], text[border:]))
    return Material(replace(form, vocabulary=len(alphabet)), alphabet, learnt, held_out, text[:1], None)


def train(material: Material, kernels: Kernels, settings: Settings, options: argparse.Namespace) -> dict[str, Any]:
    """Train, look at what is held out, let it write; returns what is to be recorded."""
    losses: list[float] = []
    watched = (lambda step, loss: losses.append(loss)) if options.results else None
    trainer = writer.training(material.form, kernels, settings)
    history = trainer.fit(material.train, checkpoint=options.checkpoint, every=options.every, progress=True,
                          on_step=watched)  # fmt: skip
    parameters = trainer.parameters
    if options.out:
        stored: dict[str, Any] = dict(parameters)
        np.savez_compressed(options.out, **stored)
    reader = Reader(material.form, kernels, WRITTEN)
    reader.load(parameters)
    held_out = float(reader.losses(material.held_out).mean())
    count = options.texts
    beginning = material.alphabet.codes(material.beginning)
    texts = [material.alphabet.text(row) for row in reader.write(beginning, count, settings.seed)] if count else []
    found: dict[str, Any] = {
        "device": kernels.device.description, "form": asdict(material.form), "parameters": material.form.size,
        "settings": asdict(settings) | {"optimizer": asdict(settings.optimizer)}, "windows": len(material.train),
        "steps": trainer.steps, "seconds": round(sum(epoch.seconds for epoch in history), 3),
        "history": [asdict(epoch) for epoch in history], "held_out": held_out,
        "every": EVERY, "losses": [round(float(np.mean(losses[at : at + EVERY])), 4)
                                   for at in range(0, len(losses), EVERY)],
        "written": "".join(text.strip("\n").rpartition("\n")[0] + "\n" for text in texts[:SHOWN]).strip(),
    }  # fmt: skip
    if material.least is not None:
        right, lines = writer.right_lines(texts)
        found |= {"least": material.least, "right": right, "lines": lines}
        found["looks"] = looks(material, parameters)
    return found


def looks(material: Material, parameters: dict[str, np.ndarray]) -> list[dict[str, Any]]:
    """What the heads look at before the first answer of each kind in a story that is held out."""
    stories = Stories.made(writer.HELD_OUT, writer.HELD_OUT_SEED).text.strip("\n").split("\n")
    text = "\n" + next(story for story in stories if "Who" in story and "Which" in story)
    rows = []
    for place in sorted(text.index("?", text.index(kind)) + 1 for kind in ("Who", "Which")):
        weights = writer.looks_at(material.form, parameters, text, place)
        letters = text.index(".", place) - place - 1
        rows.append({"text": text, "letters": letters, "weights": np.round(weights, 3).tolist()})
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=("auto", "gpu", "sim"), default="auto")
    parser.add_argument("--tiny", action="store_true", help="the notebook's network, for the simulator")
    parser.add_argument("--text", type=Path, help="learn from this file")
    parser.add_argument("--epochs", type=int)
    parser.add_argument("--stories", type=int, help="how many to learn from")
    parser.add_argument("--rate", type=float, help="of the first epoch")
    parser.add_argument("--beta2", type=float, help="of Adam: how long it remembers squares of slopes")
    parser.add_argument("--seed", type=int, default=writer.RECIPE.seed)
    parser.add_argument("--every", type=int, default=0, help="steps after which a checkpoint is written, too")
    parser.add_argument("--checkpoint", type=Path, help="file to go on from, and to write")
    parser.add_argument("--texts", type=int, default=WRITTEN, choices=range(WRITTEN + 1), metavar="N",
                        help="how many texts to write at the end")  # fmt: skip
    parser.add_argument("--out", type=Path, help="file for the weights")
    parser.add_argument("--results", type=Path, help="JSON file in which to record losses, text and looks")
    options = parser.parse_args()
    form, settings = (writer.TINY_FORM, writer.TINY) if options.tiny else (writer.FORM, writer.RECIPE)
    adam = settings.optimizer
    assert isinstance(adam, Adam)
    settings = replace(
        settings, epochs=options.epochs or settings.epochs, seed=options.seed,
        optimizer=replace(adam, rate=options.rate or adam.rate, beta2=options.beta2 or adam.beta2),
    )  # fmt: skip
    count = options.stories or (writer.TINY_STORIES if options.tiny else writer.STORIES)
    try:
        material = own_text(form, options.text) if options.text else stories(form, count)
        found = train(material, Kernels(device=ws.get_device(options.device)), settings, options)
    except WarpschoolError as error:
        raise SystemExit(str(error)) from None
    told = f", the least there is {found['least']:.4f}" if "least" in found else ""
    print(f"{found['parameters']:,} parameters, {found['steps']:,} steps, {found['seconds']:.1f} s of training on "
          f"{found['device']}; loss held out {found['held_out']:.4f}{told}")  # fmt: skip
    if "right" in found:
        print(f"{found['right']} of {found['lines']} lines that it wrote are right")
    print(found["written"])
    if options.results:
        known = json.loads(options.results.read_text(encoding="utf-8")) if options.results.exists() else {}
        options.results.write_text(json.dumps(known | found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
