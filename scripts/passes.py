"""Writes what pictures of networks and of streams are drawn of: benchmarks/results/passes_*.json and streams_*.json.

    python -m scripts.passes [--check]

The digits' network: one step of training on the simulator, its multiply-adds and its bytes of global memory, for an
image. VGG16: the recorded times of an H200, and the bytes that follow from the definition of each layer.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from scripts import book_lab10, book_lab11, book_lab13, book_lab14
from scripts.pages import settle

from warpschool.show.passes import Pass, passes_record

RESULTS = Path(__file__).resolve().parents[1] / "benchmarks" / "results"


def digits() -> dict[str, Any]:
    """The calls of one training step in their order; what one layer calls for one end is one pass."""
    found: dict[tuple[str, str], list[float]] = {}
    for layer, kind, counters in book_lab11.calls():
        values = found.setdefault((layer, kind), [0.0, 0.0])
        values[0] += counters.fma_instructions / book_lab11.BATCH / 1e6
        values[1] += (counters.global_load_bytes + counters.global_store_bytes) / book_lab11.BATCH / 1e3
    passes = [Pass(layer, kind, (round(a, 5), round(b, 3))) for (layer, kind), (a, b) in found.items()]
    measures = ("million multiply-adds for an image", "kB of global memory for an image")
    return passes_record("A step of training, layer by layer", measures, passes)


def vgg16() -> dict[str, Any]:
    """Layer by layer to the last, and back."""
    there, back = book_lab13.times("forward"), book_lab13.times("backward")
    shapes = book_lab13.shapes()
    passes = [Pass(one.name, "forward", (there[one.name]["time_ms"], book_lab13.moved_mb(one))) for one in shapes]
    passes += [
        Pass(one.name, "backward", (back[one.name]["time_ms"], book_lab13.moved_back_mb(one))) for one in shapes[::-1]
    ]
    measures = (f"ms on an NVIDIA H200, {book_lab13.BATCH} images", "MB that it must move at least")
    return passes_record("VGG16 there and back", measures, passes)


def lenet() -> dict[str, Any]:
    """The plain network that reads digits, kernel by kernel."""
    layers = book_lab10.layers()
    passes = [Pass(one.name, "forward", (round(one.kilobytes, 3), round(one.time_us, 1))) for one in layers]
    measures = ("kB of global memory for an image", "us on an NVIDIA H200, 10,000 images")
    return passes_record("A network that reads digits, a kernel for each layer", measures, passes)


_KINDS = {"HtoD": "copy in", "DtoH": "copy out", "launch": "kernel", "kernel": "kernel"}
PARTS = (1, 4)


def streams() -> dict[str, Any]:
    """The reference of lab 14's step 03, in one chunk and in four, on the virtual A100."""
    lines = []
    for chunks in PARTS:
        spans = [span for span in book_lab14.in_chunks(chunks).report.spans if span.kind in _KINDS]
        start = min(span.start_ns for span in spans)
        numbers = {stream: number for number, stream in enumerate(sorted({span.stream for span in spans}))}
        seen = dict.fromkeys(_KINDS.values(), 0)
        rows = []
        for span in sorted(spans, key=lambda span: span.start_ns):
            kind = _KINDS[span.kind]
            rows.append({
                "name": f"{kind} {seen[kind]}", "stream": f"stream {numbers[span.stream]}", "kind": kind,
                "start_ms": round((span.start_ns - start) * 1e-6, 6), "end_ms": round((span.end_ns - start) * 1e-6, 6),
            })  # fmt: skip
            seen[kind] += 1
        name = "one chunk" if chunks == 1 else f"{chunks} chunks"
        lines.append({"name": name, "device": "virtual A100", "spans": rows})
    return {"title": "A million floats there, computed, and back, in streams", "timelines": lines}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing; fail if a record is out of date")
    options = parser.parse_args()
    made = {"passes_digits": digits(), "passes_vgg16": vgg16(), "passes_lenet": lenet(), "streams_lab14": streams()}
    files = {RESULTS / f"{name}.json": json.dumps(record, indent=1) + "\n" for name, record in made.items()}
    return settle(files, check=options.check, command="python -m scripts.passes")


if __name__ == "__main__":
    sys.exit(main())
