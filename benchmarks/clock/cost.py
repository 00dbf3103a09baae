"""What a prediction costs: processor time of each reference at the sizes that `warpschool predict` takes by itself.

    python benchmarks/clock/cost.py [--only TEXT]

writes benchmarks/results/clock_cost.json. Compiling is told apart; it is done once and kept. What stays is arrays, where
paths depend on them, following the warps, and stepping the multiprocessor.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))
import processor

from warpschool.clock.machine import find_machine
from warpschool.clock.prediction import predict_subject
from warpschool.clock.subject import encoded, machine_arch, planned
from warpschool.contract import parse_contract
from warpschool.course import Course
from warpschool.inspect.profile import usual_sizes

ROOT = Path(__file__).resolve().parents[2]
OUT = ROOT / "benchmarks" / "results" / "clock_cost.json"


def cost(path: Path) -> dict[str, Any]:
    """The row of one reference."""
    machine = find_machine("h200")
    contract = parse_contract(path.read_text(encoding="utf-8"), name=path.name)
    start = time.process_time()
    encoded(contract.source, contract.name, machine_arch(contract.arch, machine), {})
    compiled = time.process_time()
    asked = planned(contract, contract.bind(usual_sizes(contract)), machine)
    found = predict_subject(asked, machine)
    return {
        "step": f"{path.parent.name.split('_')[0]}/{path.stem}", "case": asked.case, "us": found.us,
        "reason": found.reason, "compile_s": round(compiled - start, 2),
        "predict_s": round(time.process_time() - compiled, 2),
    }  # fmt: skip


def main() -> None:
    """Predict all references once."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="references whose names contain this; nothing is written then")
    options = parser.parse_args()
    paths = [step.solution for step in Course(ROOT).kernels() if step.solution is not None]
    cost(paths[0])  # the model's own machine code is loaded
    rows = []
    for path in paths:
        if options.only in str(path):
            rows.append(cost(path))
            print(f"{rows[-1]['step']:40s} {rows[-1]['predict_s']:6.2f} s", flush=True)
    dearest = max(row["predict_s"] for row in rows)
    print(f"{len(rows)} references, dearest {dearest} s")
    if not options.only:
        document = {"what": "processor time of predictions", "processor": processor.name(), "rows": rows}
        OUT.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
