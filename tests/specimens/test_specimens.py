"""Kernels with a known verdict, below this folder: labNN_topic/NN_idea/what_is_wrong.cu.

The verdict stands in the file: `// expect: RACE` at the end of the line that must be reported, `// expect: NE line 2`
where such a comment cannot stand, or `// expect: WA` on a line of its own where no line is to blame. Files called
right_*.cu solve the step in another way than the reference and must be accepted: budgets are fair to correct designs.
"""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

import warpschool as ws
from warpschool.device import gpu_problem
from warpschool.grading import Verdict

HERE = Path(__file__).parent
SPECIMENS = sorted(HERE.glob("lab*/*/*.cu"))
EXPECTATION = re.compile(r"^(?P<code>.*?)// expect: (?P<verdict>[A-Z]+)(?: line (?P<line>\d+))?$")


def expectation(path: Path) -> tuple[Verdict, int]:
    """Verdict and line; line 0 means that none is to blame."""
    found = [
        (number, match)
        for number, text in enumerate(path.read_text("utf-8").splitlines(), start=1)
        if (match := EXPECTATION.match(text))
    ]
    assert len(found) == 1, f"{path.name} states {len(found)} expectations"
    number, match = found[0]
    line = int(match["line"] or 0) or (number if match["code"].strip() else 0)
    return Verdict(match["verdict"]), line


def reported_line(result) -> int:
    """The line that the student sees first: the file's, else that of the first criterion with the result's verdict."""
    return result.line or next(c.line for c in result.criteria if c.verdict is result.verdict)


def is_slow(path: Path) -> bool:
    """Unrolled kernels take seconds to translate: of labs 05 and up one wrong kernel runs always, the shortest."""
    lab = path.parts[-3]
    wrong = [p for p in SPECIMENS if p.parts[-3] == lab and not p.name.startswith("right_")]
    return int(lab[3:5]) >= 5 and path != min(wrong, key=lambda p: p.stat().st_size)


@pytest.mark.parametrize(
    "path",
    [pytest.param(p, marks=pytest.mark.slow if is_slow(p) else ()) for p in SPECIMENS],
    ids=lambda p: "-".join(p.relative_to(HERE).with_suffix("").parts),
)
def test_specimen_gets_its_verdict_and_line(path):
    verdict, line = expectation(path)
    result = ws.check("/".join(path.relative_to(HERE).parts[:2]), path, device="sim")
    if result.verdict is Verdict.SKIP and gpu_problem() is None:  # for one kind of GPU, and there may be one
        result = ws.check("/".join(path.relative_to(HERE).parts[:2]), path, device="gpu")
    if result.verdict is Verdict.SKIP:
        pytest.skip(result.seen)
    assert (result.verdict, reported_line(result)) == (verdict, line), "\n".join(
        [result.seen, *(f"{c.verdict} {c.title}, line {c.line}: {c.seen}" for c in result.criteria)]
    )
    assert result.ok == path.name.startswith("right_")
    if not result.ok:
        assert result.seen or all(c.seen and c.hint for c in result.criteria if not c.ok), "no word about what was seen"
        assert result.score < result.max_score


def test_every_kind_of_fault_has_a_specimen():
    wanted = {"CE", "RJ", "NE", "LE", "OOB", "RACE", "SYNC", "UNINIT", "TLE", "WA", "PERF", "AC"}
    verdicts = Counter(expectation(path)[0].value for path in SPECIMENS)
    assert wanted <= set(verdicts)
    assert sum(count for verdict, count in verdicts.items() if verdict != "AC") >= 12
