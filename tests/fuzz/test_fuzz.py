"""A fixed sample of the fuzzer's cases, and every text that once did harm (`regressions/`)."""

from __future__ import annotations

import random
import re

import pytest

from . import cases, children, mutations

REGRESSIONS = sorted(mutations.REGRESSIONS.glob("*.ptx"))


@pytest.fixture(scope="module", autouse=True)
def _started():
    children.warm_up()


@pytest.mark.parametrize(
    ("mode", "count"),
    [
        ("read", 300),
        ("launch", 16),
        ("cuda", 2),
        pytest.param("read", 50_000, marks=pytest.mark.slow),
        pytest.param("launch", 1500, marks=pytest.mark.slow),
        pytest.param("cuda", 300, marks=pytest.mark.slow),
    ],
)
def test_cases(mode, count):
    report = children.run(children.Work(mode, 2026, mutations.seeds()), range(count), lambda report: None)
    found = [f"case {f[0].number}: {what}\n{f[0].detail}\n{f[0].text}" for what, f in report.findings.items()]
    assert not found, "\n".join(found)
    assert report.cases == sum(report.outcomes.values()) == count


@pytest.mark.parametrize("path", REGRESSIONS, ids=lambda path: path.stem)
def test_what_once_did_harm(path):
    text = path.read_text()
    expected = re.search(r"expect: (.+)", text)[1]
    assert children.verdict(children.Work("launch", 0), 0, text) == "", "it does it again"
    assert cases.launch(text, random.Random(0)).outcome == expected


def test_findings_are_told_apart_and_minimised(monkeypatch):
    """A child that crashes, hangs or raises is found, and its text cut down to the line that did it."""

    def harmful(text: str) -> str:
        if "boom" in text:
            raise ZeroDivisionError("boom")
        if "crash" in text:
            import os

            os.abort()
        return "fine"

    monkeypatch.setattr(cases, "read", harmful)
    words = ("", "boom", "crash")
    monkeypatch.setattr(mutations, "hostile_text", lambda mode, seed, n, pool: f"a\nb\n{words[n % 3]}\nc")
    work = children.Work("read", 0)
    report = children.run(work, range(6), lambda report: None)
    counts = {what.split()[0]: len(found) for what, found in report.findings.items()}
    assert counts == {"ZeroDivisionError": 2, "SIGABRT": 2}
    for found in report.findings.values():
        assert children.minimised(work, found[0]).strip() in ("boom", "crash")
