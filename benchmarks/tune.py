"""Tiles chosen without a GPU: the clock predicts every set of them and ranks them.

    python benchmarks/tune.py 1024 1024 1024             M, N and K of lab 05's last product
    python benchmarks/tune.py R12                        a layer of lab 12's table
    python benchmarks/tune.py --validate                 what it would have chosen, against times of an H200

`--validate` reads benchmarks/results/clock_tiles_h200.json (`clock/record.py plan --only tiles/`, then `time` there),
ranks the same sets, and writes benchmarks/results/clock_choices_h200.json.
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent / "src"), str(HERE / "clock")]
from tile_sets import ROOT, Choice, layer_choice, product_choice

from warpcourse.lab12_split_channels.tiles import LAYERS
from warpschool.clock.machine import find_machine, machines
from warpschool.clock.tune import RankedTiles, rank_tiles
from warpschool.errors import WarpschoolError
from warpschool.show.progress import progress
from warpschool.show.table import Table

RESULTS = ROOT / "benchmarks" / "results"
CLOSE = 1.05


def choice_of(words: Sequence[str]) -> Choice:
    """Three sizes, or a layer's name."""
    if len(words) == 3 and all(word.isdigit() and int(word) for word in words):
        return product_choice(*map(int, words))
    if len(words) == 1 and words[0] in LAYERS:
        return layer_choice(words[0])
    raise SystemExit(f"expected M N K, or one of the layers {', '.join(LAYERS)}: not {' '.join(words) or 'nothing'}")


def rank(choice: Choice, gpu: str) -> list[RankedTiles]:
    """All sets of a choice, the fastest first."""
    with progress(len(choice.candidates), choice.name) as bar:
        return rank_tiles(
            choice.contract, choice.candidates, choice.sizes, find_machine(gpu), progress=lambda done: bar.advance()
        )  # fmt: skip


def told(choice: Choice, found: Sequence[RankedTiles], gpu: str) -> Table:
    """What is printed: a row for each set, as far as it can be used."""
    names = list(choice.candidates[0])
    rows = []
    for place, one in enumerate(found, start=1):
        if one.prediction is None or one.prediction.us is None:
            continue
        longest = max(one.prediction.launches, key=lambda launch: launch.us or 0.0)
        values = [one.constants[name] for name in names]
        rows.append((place, *values, f"{one.us:,.2f}", f"{one.us / found[0].us:.2f}", longest.waits_for))
    left_out = sum(one.prediction is None or one.prediction.us is None for one in found)
    note = f"{left_out} of {len(found)} sets have no prediction." if left_out else ""
    caption = f"{choice.name}: predicted for {find_machine(gpu)}, L2 flushed"
    heads = ("", *names, "us", "of the best", "waits most for")
    return Table.of(caption, heads, rows, wide=("waits most for",), note=note)


# ---------------------------------------------------------------- against a GPU


def validate(kept: Path | None = None) -> dict[str, Any]:
    """Rank what was timed on an H200: how much slower than the fastest set is the one that would have been chosen?

    Choices that are `kept` are not ranked again.
    """
    from cases import tile_choices

    record = json.loads((RESULTS / "clock_tiles_h200.json").read_text(encoding="utf-8"))
    rows = []
    for choice in tile_choices():
        known = kept / f"{choice.name}.json" if kept else None
        if known and known.exists():
            rows.append(json.loads(known.read_text(encoding="utf-8")))
        else:
            rows.append(_compared(choice, record["cases"]))
        if known:
            known.write_text(json.dumps(rows[-1]), encoding="utf-8")
        found = rows[-1]
        print(f"{choice.name:20} chosen is {found['of_best']:.3f} of the best, place {found['place']}", flush=True)
    close = sum(row["of_best"] <= CLOSE for row in rows) / len(rows)
    print(f"within {CLOSE - 1:.0%} of the best: {close:.0%} of {len(rows)}")
    return {"device": record["device"], "host": platform.machine(), "close": close, "choices": rows}


def _compared(choice: Choice, cases: dict[str, Any]) -> dict[str, Any]:
    """The row of a choice: the set that is predicted to be the fastest among the times of all."""
    from cases import TILES

    measured = [
        cases[f"{TILES}{choice.name}/{number}@choice"]["times"]["flushed"]["whole"][0]
        for number in range(len(choice.candidates))
    ]
    start = time.process_time()
    found = rank(choice, "h200")
    chosen = choice.candidates.index(found[0].constants)
    predicted = {choice.candidates.index(one.constants): one.us for one in found}
    return {
        "choice": choice.name, "sets": len(measured), "best_us": min(measured), "chosen_us": measured[chosen],
        "of_best": measured[chosen] / min(measured), "first_of_best": measured[0] / min(measured),
        "predicted_us": found[0].us, "place": sorted(measured).index(measured[chosen]) + 1,
        "all": [[round(us, 3), round(predicted[k], 3)] for k, us in enumerate(measured)],
        "cpu_s": round(time.process_time() - start, 2),
    }  # fmt: skip


def _text(data: dict[str, Any]) -> str:
    """As JSON, a line for each choice: each has the times of all its sets."""
    if "choices" not in data:
        return json.dumps(data, indent=1) + "\n"
    head = json.dumps({key: value for key, value in data.items() if key != "choices"}, indent=1)
    rows = ",\n".join("  " + json.dumps(row) for row in data["choices"])
    return f"{head[:-2]},\n \"choices\": [\n{rows}\n ]\n}}\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="*", help="M N K, or a layer of lab 12")
    parser.add_argument("--gpu", default="h200", choices=machines(), help="whose clock")
    parser.add_argument("--validate", action="store_true", help="against recorded times")
    parser.add_argument("--json", type=Path, help="write the figures here")
    parser.add_argument("--kept", type=Path, help="folder of choices: a run that was cut short goes on from there")
    options = parser.parse_args()
    try:
        if options.validate:
            if options.kept:
                options.kept.mkdir(parents=True, exist_ok=True)
            data = validate(options.kept)
            options.json = options.json or RESULTS / "clock_choices_h200.json"
        else:
            choice = choice_of(options.what)
            found = rank(choice, options.gpu)
            print(told(choice, found, options.gpu).text())
            data = {
                "choice": choice.name, "gpu": options.gpu, "sizes": dict(choice.sizes),
                "ranked": [{"constants": dict(one.constants), "us": one.us if one.prediction else None,
                            "problem": one.problem} for one in found],
            }  # fmt: skip
    except WarpschoolError as error:
        raise SystemExit(str(error)) from None
    if options.json:
        options.json.write_text(_text(data), encoding="utf-8")


if __name__ == "__main__":
    main()
