"""Feeds the simulator hostile PTX: `python -m tests.fuzz read --cases 1000000`, `... launch --cases 20000`.

Findings are minimised and written to a folder, one .ptx each. `--case N` runs one case here, with its traceback;
`--file F` does that with a text. Exit status 1: something was found.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from . import children, mutations

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


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__.split("\n")[0])
    parser.add_argument("mode", choices=("read", "launch"), help="parse and build, or also translate and launch")
    parser.add_argument("--cases", type=int, default=10_000)
    parser.add_argument("--first", type=int, default=0, help="number of the first case")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--case", type=int, help="run this one here and print its text")
    parser.add_argument("--file", type=Path, help="run this text here")
    parser.add_argument("--findings", type=Path, default=Path("fuzz-findings"), help="folder for what is found")
    parser.add_argument("--json", type=Path, help="where the figures go")
    parser.add_argument("--no-minimise", action="store_true")
    a = parser.parse_args()
    children.warm_up()
    if a.file:
        print(children.run_case(a.mode, a.seed, a.case or 0, a.file.read_text()))
        return 0
    pool = mutations.seeds(course_kernels())
    if a.case is not None:
        text = mutations.hostile_text(a.mode, a.seed, a.case, pool)
        print(text)
        print(children.run_case(a.mode, a.seed, a.case, text))
        return 0
    report = children.run(a.mode, a.seed, range(a.first, a.first + a.cases), pool, children.bars(a.mode, a.cases))
    _print(report)
    if a.json:
        a.json.write_text(json.dumps(_figures(a, report), indent=1) + "\n")
    _write(a, report)
    return 1 if report.findings else 0


def _figures(a: argparse.Namespace, report: children.Report) -> dict[str, object]:
    return {
        "mode": a.mode, "seed": a.seed, "cases": report.cases, "seconds": round(report.seconds, 1),
        "outcomes": dict(report.outcomes.most_common()), "resident_mb": report.resident_mb,
        "slowest_s": round(report.slowest_s, 2), "findings": {k: len(v) for k, v in report.findings.items()},
    }  # fmt: skip


def _print(report: children.Report) -> None:
    most = f"most memory {report.resident_mb} MB, slowest {report.slowest_s:.2f} s"
    print(f"{report.cases:,} cases in {report.seconds:.0f} s; {most}")
    for outcome, count in report.outcomes.most_common():
        print(f"{count:>10,}  {outcome}")
    for signature, found in sorted(report.findings.items(), key=lambda item: -len(item[1])):
        print(f"FOUND {len(found)} x {signature} (case {found[0].number})")


def _write(a: argparse.Namespace, report: children.Report) -> None:
    if report.findings:
        a.findings.mkdir(parents=True, exist_ok=True)
    for k, (signature, found) in enumerate(report.findings.items()):
        shortest = min(found, key=lambda f: len(f.text))
        text = shortest.text if a.no_minimise else children.minimised(a.mode, a.seed, shortest)
        path = a.findings / f"{a.mode}-{k:02}.ptx"
        path.write_text(f"// {signature} (case {shortest.number}, seed {a.seed})\n{text}")
        path.with_suffix(".txt").write_text(shortest.detail + "\n")
        print(f"{path}: {signature}")


if __name__ == "__main__":
    sys.exit(main())
