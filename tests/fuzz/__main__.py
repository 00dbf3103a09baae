"""Fuzzes the simulator: `python -m tests.fuzz MODE --cases N`.

    read     hostile PTX is parsed and built
    launch   hostile PTX is translated and launched, too
    cuda     random CUDA C++ programs without races, on engine and oracle
    silicon  such programs on engine and GPU, on a machine that has one

Findings are minimised and written to a folder, one text each. `--case N` runs one case here, with its traceback;
`--file F` does that with a text. `--record` adds what was run to benchmarks/results/fuzz.json. Exit status 1: something
was found.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import time
from pathlib import Path

from . import children, mutations, record

ROOT = Path(__file__).parents[2]


def course_kernels() -> tuple[str, ...]:
    """PTX of every reference of the course, in the dialects of the oldest and the newest arch."""
    from warpschool.compile import compile_cuda
    from warpschool.contract import parse_contract
    from warpschool.course import Course

    texts = []
    for step in Course(ROOT).kernels():
        if (path := step.solution) is None:
            continue
        source = path.read_text()
        target = parse_contract(source, name=path.name).target
        archs = [f"compute_{target.removeprefix('sm_')}"] if target else ["compute_80", "compute_100"]
        texts += [compile_cuda(source, name=path.name, arch=arch).ptx for arch in archs]
    return tuple(texts)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tests.fuzz", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("mode", choices=tuple(children.LIMITS), help="what is fuzzed")
    parser.add_argument("--cases", type=int, default=10_000)
    parser.add_argument("--first", type=int, default=0, help="number of the first case")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--case", type=int, help="run this one here and print its text")
    parser.add_argument("--file", type=Path, help="run this text here")
    parser.add_argument("--findings", type=Path, default=Path("fuzz-findings"), help="folder for what is found")
    parser.add_argument("--json", type=Path, help="where the figures go")
    parser.add_argument("--digests", action="store_true", help="--json: what each case left, as a digest")
    parser.add_argument("--threads", type=int, help="launch: threads of the host; with 1 even a race has one outcome")
    parser.add_argument("--processes", type=int, default=1, help="this many at once")
    parser.add_argument("--seconds", type=float, default=math.inf, help="no case begins after this time")
    parser.add_argument("--record", action="store_true", help="add what was run to benchmarks/results/fuzz.json")
    parser.add_argument("--no-minimise", action="store_true")
    return parser


def main() -> int:
    a = _parser().parse_args()
    children.warm_up()
    hostile = a.mode in ("read", "launch") and not a.file
    pool = mutations.seeds(course_kernels()) if hostile else []
    work = children.Work(a.mode, a.seed, pool, a.threads, a.digests, until=time.monotonic() + a.seconds)
    if a.file or a.case is not None:
        text = a.file.read_text() if a.file else work.text(a.case)
        print(text)
        print(work.run(a.case or 0, text))
        return 0
    numbers = range(a.first, a.first + a.cases)
    bars = children.bars(a.mode, a.cases)
    if a.processes > 1:
        report = children.run_beside(work, numbers, a.processes, bars)
    else:
        report = children.run(work, numbers, bars)
    if a.mode == "silicon":
        children.judged_again(work, report, a.processes)
    _print(report)
    if a.json:
        a.json.write_text(json.dumps(_figures(a, report), indent=1) + "\n")
    _write(a, work, report)
    if a.record:
        record.add(_figures(a, report))
    return 1 if report.findings else 0


def _figures(a: argparse.Namespace, report: children.Report) -> dict[str, object]:
    figures: dict[str, object] = {
        "mode": a.mode, "seed": a.seed, "first": a.first, "asked": a.cases, "cases": report.cases,
        "seconds": round(report.seconds, 1), "processor_s": round(report.processor_s, 1),
        "outcomes": dict(report.outcomes.most_common()),
        "resident_mb": report.resident_mb, "slowest_s": round(report.slowest_s, 2),
        "findings": {k: len(v) for k, v in report.findings.items()},
    }  # fmt: skip
    if report.optimised:
        figures["optimised"] = sorted(report.optimised)
    return figures | ({"digests": dict(sorted(report.digests.items()))} if a.digests else {})


def _print(report: children.Report) -> None:
    most = f"most memory {report.resident_mb} MB, slowest {report.slowest_s:.2f} s"
    took = f"{report.seconds:.0f} s, {report.processor_s:.0f} s of processor time"
    print(f"{report.cases:,} cases in {took}; {most}")
    for outcome, count in report.outcomes.most_common():
        print(f"{count:>10,}  {outcome}")
    for signature, found in sorted(report.findings.items(), key=lambda item: -len(item[1])):
        print(f"FOUND {len(found)} x {signature} (case {found[0].number})")


def _write(a: argparse.Namespace, work: children.Work, report: children.Report) -> None:
    if report.findings:
        a.findings.mkdir(parents=True, exist_ok=True)
    for k, (signature, found) in enumerate(report.findings.items()):
        shortest = min(found, key=lambda f: len(f.text))
        text = shortest.text if a.no_minimise else children.minimised(work, shortest)
        path = a.findings / f"{a.mode}-{k:02}{'.ptx' if work.pool else '.cu'}"
        path.write_text(f"// {signature} (case {shortest.number}, seed {a.seed})\n{text}")
        told = (f"case {finding.number}\n{finding.detail}\n" for finding in found)
        path.with_suffix(".txt").write_text("\n".join(told))
        print(f"{path}: {signature}")


if __name__ == "__main__":
    sys.exit(main())
