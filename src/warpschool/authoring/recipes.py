"""What proves a concept check: a number is computed by its recipe, a bug is seen where the question says.

A recipe is a Python expression over `run` (a reference on the simulator), `sectors` and `passes` (what the
load of one warp costs), `occupancy`, `cdiv` and `math`. Recipes are the course's own, as its graders are.
"""

from __future__ import annotations

import math
from typing import Any

from warpschool.contract import parse_contract
from warpschool.course import Course
from warpschool.errors import CourseError
from warpschool.harness.launcher import RunResult, random_inputs, run_kernel
from warpschool.harness.source import of_course
from warpschool.model import occupancy
from warpschool.questions import Question

_ONE_WARP = """// Entry: probe(const {type} x[n] in, {type} y[m] out, int n, int m)
// Launch: probe block=(32) grid=(1)
extern "C" __global__ void probe(const {type}* x, {type}* y, int n, int m)
{{
    {shared}
    const int lane = threadIdx.x;
    y[lane] = {load};
}}
"""
_N = 8192
_M = 32


def value(question: Question) -> float:
    """What a question's recipe comes to. Raises CourseError, which names the question, where it cannot be computed."""
    names = {"run": _run, "sectors": sectors, "passes": passes, "occupancy": occupancy, "math": math, "cdiv": _cdiv}
    try:
        return float(eval(question.recipe, {"__builtins__": {}, **names}))
    except Exception as error:
        raise CourseError(f"the recipe of {question.name} fails: {error}", next_step=question.recipe) from error


def _run(step: str, *, constants: dict[str, int] | None = None, **sizes: float) -> RunResult:
    """A reference of the course, once, on random inputs."""
    contract = of_course(Course.find().step(step), "reference").contract()
    plan = contract.bind(sizes, constants=constants)
    return run_kernel(contract.source, sizes, random_inputs(plan), device="sim", constants=constants)


def _cdiv(a: int, b: int) -> int:
    return -(-a // b)


def sectors(index: str, type: str = "float") -> int:
    """Sectors of global memory that one warp's load x[index] touches; `index` is an expression in `lane`."""
    return _probe(f"x[{index}]", "", type).counters.global_load_sectors


def passes(index: str, type: str = "float") -> int:
    """Passes of shared memory that one warp's load of tile[index] takes."""
    shared = f"__shared__ {type} tile[1100]; "
    shared += "for (int i = threadIdx.x; i < 1100; i += 32) tile[i] = x[i]; __syncwarp();"
    return _probe(f"tile[{index}]", shared, type).counters.shared_load_wavefronts


def _probe(load: str, shared: str, type: str) -> RunResult:
    source = _ONE_WARP.format(type=type, load=load, shared=shared)
    sizes = {"n": _N, "m": _M}
    return run_kernel(source, sizes, random_inputs(parse_contract(source).bind(sizes)), device="sim")


def why_not(question: Question) -> str:
    """What is wrong with a question of kind bug: "" where its kernel shows what it says and the mended one does not."""
    assert question.shows is not None
    lines = question.code.splitlines()
    place = int(question.number) - 1
    mended = "\n".join([*lines[:place], question.mended, *lines[place + 1 :]])
    bad, good = (_executed(question, code) for code in (question.code, mended))
    head = question.shows.header.strip().count("\n") + 1
    finding = question.shows.finding
    if finding == "answers":
        outputs = zip(bad.outputs.values(), good.outputs.values(), strict=True)
        return "" if any((~_equal(a, b)).any() for a, b in outputs) else "the mended kernel gives the same answers"
    if good.hazards:
        return f"the mended kernel has {good.hazards[0]}"
    if hasattr(bad.counters, finding):
        before, after = getattr(bad.counters, finding), getattr(good.counters, finding)
        return "" if before > after else f"{finding}: {before}, mended {after}"
    found = {(h.kind, h.line - head) for h in bad.hazards}
    return "" if (finding, int(question.number)) in found else f"found is {sorted(found)}"


def _equal(a: Any, b: Any) -> Any:
    return (a == b) | ((a != a) & (b != b))  # NaN is what nobody stored


def _executed(question: Question, code: str) -> RunResult:
    assert question.shows is not None
    source = f"{question.shows.header.strip()}\n{code}\n"
    plan = parse_contract(source).bind(question.shows.sizes)
    return run_kernel(source, question.shows.sizes, random_inputs(plan), device="sim")
