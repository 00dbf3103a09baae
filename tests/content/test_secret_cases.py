"""Every step draws secret cases: a kernel that knows the public sizes by heart fails, the reference does not."""

from __future__ import annotations

import base64
import importlib.util
import json
import re
import subprocess
import sys
from dataclasses import asdict, dataclass
from types import ModuleType

import numpy as np
import pytest

from warpschool.contract import Contract, parse_contract
from warpschool.course import Course
from warpschool.errors import NeedsError
from warpschool.grading import secret
from warpschool.grading.jobs import BATCH_LIMITS, KernelJob
from warpschool.grading.result import Result
from warpschool.grading.secret import Cases
from warpschool.programs import tools_report

STEPS = {step.name: step for lab in Course.find().labs() for step in lab.steps if step.grader is not None}
SECRET = "the secret of a class that nobody knows"
RECORD = """
import json, sys
from warpschool.grading import child
from warpschool.grading.limits import Limits
from warpschool.grading.secret import in_secret_case
from warpschool.grading.submission import Submission
seen, run = [], Submission._run
def recorded(self, device, sizes, arrays, constants, **simulator):
    if not in_secret_case():
        seen.append({name: float(value) for name, value in sizes.items()})
    return run(self, device, sizes, arrays, constants, **simulator)
Submission._run = recorded
job = json.load(sys.stdin)
Limits(**job["limits"]).apply(on_gpu=False)
out, sys.stdout = sys.stdout, sys.stderr
json.dump([json.loads(child._run(job)[0]), seen], out)
"""


@pytest.fixture
def use_secret():
    secret.use_secret(SECRET)
    yield
    secret.use_secret("")


def grader_of(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location("grader_under_test", STEPS[name].grader)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def lists_of(grader: ModuleType) -> dict[str, Cases]:
    return {name: value for name, value in vars(grader).items() if isinstance(value, Cases)}


@pytest.mark.parametrize("name", STEPS)
def test_every_grader_draws_secret_sizes(name, use_secret):
    lists = lists_of(grader_of(name))
    assert lists, "no practice([...]): its sizes can be learnt by heart"
    for name, cases in lists.items():
        assert cases.drawn() and not set(map(repr, cases.drawn())) & set(map(repr, cases.public)), name


class Asked(Exception):
    """The kernel file was asked for what it can do."""


class Header:
    """In a kernel's place: of what a grader runs, the header judges the sizes, and that is all."""

    def __init__(self, contract: Contract) -> None:
        self.contract = contract

    def run(self, sizes, arrays, *rest, constants=None, **how):
        self.contract.bind(sizes, constants=constants)
        raise Asked

    def __getattr__(self, name):  # run_metered, no_hazards and all others that begin with sizes and arrays
        return self.run


def refused_sizes(name: str, secrets: int, monkeypatch) -> list[str]:
    """What the reference's own header says of the cases that some secrets draw; each list of cases must be asked."""
    grader, step = grader_of(name), STEPS[name]
    header = Header(parse_contract(step.solution.read_text("utf-8"), name=step.file_name))
    criteria = [value for name, value in vars(grader).items() if name.startswith("test_") and callable(value)]
    waiting, now, told = set(lists_of(grader)), {}, []
    monkeypatch.setattr(Cases, "__iter__", lambda cases: iter(now.get(cases, ())))
    for number in range(secrets):
        secret.use_secret(f"{SECRET} {number}")
        for cases_name, cases in lists_of(grader).items():
            for case in cases.drawn():
                now.clear()
                now[cases] = (case,)
                for criterion in criteria:
                    if cases_name in criterion.__code__.co_names:
                        try:
                            criterion(header, np.random.default_rng(0))
                        except Asked:
                            waiting.discard(cases_name)
                        except NeedsError as error:
                            told.append(f"{cases_name}: {case}: {error.message}")
    assert not waiting, f"no criterion asked for sizes of {sorted(waiting)}"
    return told


KERNELS = [name for name, step in STEPS.items() if not step.is_program]


@pytest.mark.parametrize("name", KERNELS)
def test_no_secret_draws_sizes_that_the_header_refuses(name, use_secret, monkeypatch):
    assert not refused_sizes(name, 2, monkeypatch)


@pytest.mark.slow
@pytest.mark.parametrize("name", KERNELS)
def test_none_of_many_secrets_draws_sizes_that_the_header_refuses(name, use_secret, monkeypatch):
    assert not refused_sizes(name, 100, monkeypatch)


def test_counted_problems_have_more_images(use_secret):
    @dataclass(frozen=True)
    class Problem:
        batch: int
        channels: int

    cases = secret.practice([Problem(2, 5)], count=1, scaled="batch")
    public, drawn = [*cases]
    assert public == Problem(2, 5) and drawn.channels == 5 and drawn.batch in (4, 6, 8)


def knows_by_heart(source: str, contract: Contract, public: list[dict[str, float]]) -> str:
    """The source, doing nothing at sizes that are not public."""
    for entry in contract.entries:
        names = [p.name for p in entry.parameters if p.is_size and all(p.name in sizes for sizes in public)]
        known = sorted({tuple(int(sizes[name]) for name in names) for sizes in public})
        here = " || ".join(
            "(" + " && ".join(f"{n} == {v}" for n, v in zip(names, values, strict=True)) + ")" for values in known
        )
        if names:
            opening = re.compile(r'extern "C" __global__[^{;]*\b' + entry.name + r"\([^{;]*\)\s*\{")
            source, found = opening.subn(lambda start, here=here: f"{start[0]}\n    if (!({here})) return;", source)
            assert found == 1, entry.name
    return source


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name, step in STEPS.items() if not (step.target or step.is_program)])
def test_sizes_learnt_by_heart_fail_and_the_reference_passes(name):
    step = STEPS[name]
    source = step.solution.read_text("utf-8")
    job = KernelJob(name, source.encode(), secret=SECRET)
    told = {
        "root": str(Course.find().root), "step": name, "name": step.file_name, "seed": 0, "device": "sim",
        "device_text": "sim", "secret": SECRET, "source": base64.b64encode(job.source).decode(),
        "about": {"name": step.file_name, "sha256": "", "origin": ""}, "limits": asdict(BATCH_LIMITS), "cache": "",
        "cases": "",
    }  # fmt: skip
    done = subprocess.run(
        [sys.executable, "-c", RECORD], input=json.dumps(told), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    said, public = json.loads(done.stdout)
    right = Result.from_json(json.dumps(said))
    assert str(right.verdict) == "AC", right.to_json()

    cheat = knows_by_heart(source, parse_contract(source, name=step.file_name), public)
    result = KernelJob(name, cheat.encode(), secret=SECRET).run()
    failed = [criterion for criterion in result.criteria if not criterion.ok]
    assert failed and any(criterion.secret for criterion in failed), result.to_json()
    assert str(result.verdict) == "WA"
    assert SECRET not in result.to_json()


PROGRAMS = [name for name, step in STEPS.items() if step.is_program]


@pytest.mark.slow
@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_pass_with_secret_sizes_and_those_that_know_the_public_ones_do_not(name):
    report = tools_report()
    if not report["available"]:
        pytest.skip(f"whole programs cannot be built here: {report['problem']}")
    source = STEPS[name].solution.read_text("utf-8")
    right = KernelJob(name, source.encode(), secret=SECRET).run()
    assert str(right.verdict) == "AC", right.to_json()
    lists = (getattr(v, "public", v) for v in vars(grader_of(name)).values() if isinstance(v, Cases | list))
    cases = {case if isinstance(case, tuple) else (case,) for cases in lists for case in cases}
    known = " || ".join(  # by heart, of each case its first two numbers
        "(" + " && ".join(f"atoi(argv[{k}]) == {number}" for k, number in enumerate(case[:2], start=1)) + ")"
        for case in sorted(cases)
    )
    leave = f"    if (!({known})) return 0;\n"
    head, _, body = source.partition("int main(int argc, char** argv)")
    at = body.index("    const int ")
    cheat = f"{head}int main(int argc, char** argv){body[:at]}{leave}{body[at:]}"
    result = KernelJob(name, cheat.encode(), secret=SECRET).run()
    assert not result.ok and any(criterion.secret for criterion in result.criteria if not criterion.ok)
    assert SECRET not in result.to_json()
