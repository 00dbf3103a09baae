"""Is a mutant wrong? A run beside its reference at random shapes, independent of what any grader tries.

Answers are computed here, in float64, by what a step's header says; of steps whose answers nobody has written here a
second time, the reference's own results are the answer. Sizes are drawn from what the header allows: a shape counts
where the reference is right and clean.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

import numpy as np

from warpcourse.floats8 import decode, encode
from warpschool.contract import Contract, Plan, parse_contract
from warpschool.course import Course
from warpschool.errors import WarpschoolError
from warpschool.harness.launcher import Program, RunResult
from warpschool.nn import convolve

SHAPES = 20
STEP_LIMIT = 1 << 18
"""Loop iterations of a block's warps: the references need 1 << 12 at these shapes."""
_TRIES = 40_000
_RUNS = 4 * SHAPES
_TOLERANCE = {"float16": 1e-2, "float32": 1e-5, "float64": 1e-12}
"""Of the largest magnitude, by the narrowest type among a step's arrays; never less than 16 errors of the reference."""
_MOST = {
    "n": 70_000, "N": 200, "M": 200, "K": 150, "BATCH": 3, "C": 20, "F": 40, "H": 20, "W": 20, "R": 5, "S": 5,
    "STRIDE": 2, "PAD": 2, "P": 200, "IN": 200, "OUT": 100, "CLASSES": 40, "TRANSPOSE_A": 1,
    "TRANSPOSE_B": 1, "POSITIONS": 5, "RELU": 1, "MASK": 1, "centred": 1, "causal": 1, "shift": 28, "first": 16,
    "HEADS": 2, "TEXTS": 2, "GROUPS": 2, "ROWS": 12, "COLS": 700,
}  # fmt: skip
_SAYS_WHERE = re.compile(r"\s*(?://.*|\.(?:loc|file)\b.*)?")
"""Lines of PTX that do nothing."""
_BYTES = {"int8": (-128, 128), "uint8": (0, 256)}
_INTEGERS: dict[str, Callable[[np.random.Generator, tuple[int, ...], Mapping[str, float]], np.ndarray]] = {
    "segment": lambda rng, shape, sizes: np.sort(rng.integers(0, int(sizes["S"]), shape)),
    "keys": lambda rng, shape, sizes: rng.integers(0, 1 << 32, shape),
    "choice": lambda rng, shape, sizes: rng.integers(0, 5, shape),
}
"""Integer inputs that must be of some kind: ascending, of all digits, one of four or none."""
_FLOATS8 = ("A", "Bt")
"""Matrices that hold floats of 8 bits where they hold bytes."""
_SHAPELESS = {"part": ("PART", "C", "R", "S")}
"""Arrays whose axes no entry names: what a constant is filled from."""
_FROM_ZERO = ("PAD", "TRANSPOSE_A", "TRANSPOSE_B", "CROP", "F0", "RELU", "MASK", "centred", "causal", "shift", "first")
_POSITIVE = ("clip", "epsilon", "correction1", "correction2")
"""Scalars that mean nothing below zero."""
_FRACTIONS, _SQUARES = ("beta1", "beta2"), ("v",)
"""Scalars between 0 and 1; arrays of means of squares."""
_Arrays = Mapping[str, np.ndarray]


@dataclass(frozen=True, eq=False)
class Case:
    """Sizes, inputs, and what each output must be, within so much."""

    sizes: dict[str, float]
    inputs: dict[str, np.ndarray]
    expected: dict[str, np.ndarray]
    bound: dict[str, float]


@dataclass(frozen=True)
class Trial:
    """`outcome`: "uncompiled", "equal" or "wrong"; `how` says how, `shape` at which of the shapes."""

    outcome: str
    how: str = ""
    shape: int = 0


# ---------------------------------------------------------------- answers


def _numbers(array: np.ndarray) -> np.ndarray:
    return decode(array) if array.dtype == np.uint8 else array.astype(np.float64)


def _product(a: _Arrays, s: Mapping[str, float]) -> dict[str, np.ndarray]:
    left, right = (a[name].astype(np.float64) for name in "AB")
    left = left.T if s.get("TRANSPOSE_A") else left
    right = right.T if s.get("TRANSPOSE_B") else right
    return {"C": left @ right}


def _batched(a: _Arrays, s: Mapping[str, float]) -> dict[str, np.ndarray]:
    share = -(-a["A"].shape[0] // a["B"].shape[0])
    return {"C": np.stack([one @ a["B"][k // share].astype(np.float64) for k, one in enumerate(a["A"])])}


def _block_sum(a: _Arrays, s: Mapping[str, float]) -> dict[str, np.ndarray]:
    x = a["x"].astype(np.float64)
    return {"sums": np.pad(x, (0, -len(x) % 256)).reshape(-1, 256).sum(axis=1)}


def _pool(reduce: Callable[..., np.ndarray]) -> Callable[[_Arrays, Mapping[str, float]], dict[str, np.ndarray]]:
    def answer(a: _Arrays, s: Mapping[str, float]) -> dict[str, np.ndarray]:
        x = a["x"].astype(np.float64)
        batch, channels, height, width = x.shape
        whole = x[:, :, : height // 2 * 2, : width // 2 * 2].reshape(batch, channels, height // 2, 2, width // 2, 2)
        return {"y": reduce(whole, axis=(3, 5))}

    return answer


def _softmax(a: _Arrays, s: Mapping[str, float]) -> dict[str, np.ndarray]:
    x = np.exp(a["x"].astype(np.float64))
    return {"y": x / x.sum(axis=1, keepdims=True)}


def _some_filters(a: _Arrays, s: Mapping[str, float]) -> dict[str, np.ndarray]:
    """Filters F0 to F0 + PART of a convolution; what else is in y stays."""
    y, first = a["y"].astype(np.float64), int(s["F0"])
    y[:, first : first + len(a["part"])] = convolve(a["x"], a["part"], stride=int(s["STRIDE"]), pad=int(s["PAD"]))
    return {"y": y}


ANSWERS: dict[tuple[str, ...], Callable[[_Arrays, Mapping[str, float]], dict[str, np.ndarray]]] = {
    ("saxpy", "x", "y"): lambda a, s: {"z": s["a"] * a["x"].astype(np.float64) + a["y"]},
    ("matrix_add", "A", "B"): lambda a, s: {"C": a["A"].astype(np.float64) + a["B"]},
    ("block_sum", "x"): _block_sum,
    ("matmul", "A", "B"): _product,
    ("conv", "part", "x", "y"): _some_filters,
    ("conv", "x", "y", "part"): _some_filters,
    ("matmul_batched", "A", "B"): _batched,
    ("matmul_bt", "A", "Bt"): lambda a, s: {"C": s.get("alpha", 1) * (_numbers(a["A"]) @ _numbers(a["Bt"]).T)},
    ("gemm", "A", "B", "C"): lambda a, s: {
        "D": s["alpha"] * (a["A"].astype(np.float64) @ a["B"]) + s["beta"] * a["C"].astype(np.float64)
    },
    ("transpose", "A"): lambda a, s: {"At": a["A"].T},
    ("average_pool", "x"): _pool(np.mean),
    ("max_pool", "x"): _pool(np.max),
    ("softmax", "x"): _softmax,
    ("argmax", "x"): lambda a, s: {"label": a["x"].argmax(axis=1)},
    ("relu", "x", "bias"): lambda a, s: {"y": np.maximum(a["x"].astype(np.float64) + a["bias"][:, None], 0)},
}
"""The kernel that is launched last, and the file's inputs -> outputs from inputs and scalars."""


def answer_of(contract: Contract) -> Callable[[_Arrays, Mapping[str, float]], dict[str, np.ndarray]] | None:
    """What computes the answers of a step; None where nothing here does."""
    directions = contract.array_directions()
    given = tuple(name for name, direction in directions.items() if direction in ("in", "inout"))
    last = contract.launches[-1].entry
    if found := ANSWERS.get((last, *given)):
        return found
    dims = {p.name: tuple(map(str, p.dims or ())) for p in contract.parameters() if p.is_array}
    if given == ("x", "w") and set(dims["x"]) == {"BATCH", "C", "H", "W"} and "y" in dims:
        return _convolution(dims)
    return None


def _convolution(
    dims: Mapping[str, tuple[str, ...]],
) -> Callable[[_Arrays, Mapping[str, float]], dict[str, np.ndarray]] | None:
    """A convolution whose arrays have their axes in the order that the header names."""
    outputs = ("BATCH", "F", "OH", "OW")
    if set(dims["w"]) != set("CRSF") or set(dims["y"]) != set(outputs):
        return None

    def answer(a: _Arrays, s: Mapping[str, float]) -> dict[str, np.ndarray]:
        x = a["x"].transpose([dims["x"].index(name) for name in ("BATCH", "C", "H", "W")])
        w = a["w"].transpose([dims["w"].index(name) for name in "FCRS"])
        y = convolve(x, w, stride=int(s.get("STRIDE", 1)), pad=int(s.get("PAD", 0)))
        return {"y": y.transpose([outputs.index(name) for name in dims["y"]])}

    return answer


# ---------------------------------------------------------------- shapes


def shapes_of(contract: Contract, rng: np.random.Generator) -> Iterator[Plan]:
    """Yield plans at random sizes that the header takes: small ones, ragged ones, multiples of tiles."""
    derived = {size.name for size in contract.sizes}
    free = {p.name: p for p in contract.parameters() if not p.is_array and p.name not in derived}
    rules = _rules(contract)
    for _ in range(_TRIES):
        sizes: dict[str, float] = {}
        for name, parameter in free.items():
            sizes[name] = _drawn(name, rng) if parameter.is_size else _scalar(name, rng)
        sizes |= {name: rule(int(sizes[name])) for name, rule in rules.items() if name in sizes}
        try:
            yield contract.bind(sizes)
        except WarpschoolError:
            continue


def _rules(contract: Contract) -> dict[str, Callable[[int], int]]:
    """What the header asks of a single size, `R == FILTER_R` or `F % FB == 0`, as the size meant by a drawn one.

    Such conditions, several together, next to no draw would meet.
    """
    values = contract.declarations.constexpr_values({})
    rules: dict[str, Callable[[int], int]] = {}
    for condition in contract.needs:
        found = re.fullmatch(r"(\w+) (?:== (\w+)|% (\w+) == 0)", condition.text)
        if found is None:
            continue
        name, other = found[1], found[2] or found[3]
        value = int(other) if other.isdigit() else values.get(other)
        if value and found[2]:
            rules[name] = partial(_exactly, value)
        elif value:
            rules[name] = partial(_multiple, value)
    return rules


def _exactly(value: int, _drawn: int) -> int:
    return value


def _multiple(of: int, drawn: int) -> int:
    """The next multiple; one or two of it where it is beyond what is drawn."""
    return -(-drawn // of) * of + drawn % 2 * of


def _drawn(name: str, rng: np.random.Generator) -> int:
    most, least = _MOST.get(name, 40), int(name not in _FROM_ZERO)
    kind = rng.integers(5)
    if kind == 0:
        return int(rng.integers(least, min(most, 8) + 1))
    value = int(rng.integers(least, most + 1))
    tile = (1, 8, 16, 32)[rng.integers(4)]
    return max(least, value // tile * tile or value) if kind > 2 else value


def _scalar(name: str, rng: np.random.Generator) -> float:
    value = round(float(rng.uniform(-2, 2)), 3)
    if name in _FRACTIONS:
        return abs(value) / 2.001
    return abs(value) + 0.001 if name in _POSITIVE else value


def _filled(plan: Plan, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Inputs: floats in [-1, 1), bytes of all values, other integers in [0, 8) but where `_INTEGERS` knows more."""
    made = {}
    for name, array in plan.arrays.items():
        shape = array.shape
        if shape is None and name in _SHAPELESS:
            shape = tuple(plan.sizes[axis] for axis in _SHAPELESS[name])
        if array.is_given and shape is not None:
            drawn: np.ndarray
            if array.dtype.kind == "f":
                drawn = rng.uniform(0 if name in _SQUARES else -1, 1, shape)
            elif array.dtype == np.uint8 and name in _FLOATS8:
                drawn = encode(rng.uniform(-1, 1, shape))
            elif name in _INTEGERS:
                drawn = _INTEGERS[name](rng, shape, plan.sizes)
            else:
                low, high = _BYTES.get(array.dtype.name, (0, 8))
                drawn = rng.integers(low, high, shape)
            made[name] = drawn.astype(array.dtype)
        elif array.is_given:
            raise LookupError(f"the header gives no shape for {name}")
    return made


# ---------------------------------------------------------------- runs


def _run(program: Program, sizes: Mapping[str, float], inputs: _Arrays) -> RunResult | str:
    """What a run left, or what is wrong with it."""
    try:
        run = program.run(sizes, inputs, step_limit=STEP_LIMIT)
    except (WarpschoolError, MemoryError) as error:
        return type(error).__name__
    if run.hazards:
        return str(run.hazards[0].kind)
    return f"changes its input {run.overwritten[0]}" if run.overwritten else run


def _does(program: Program) -> tuple[list[str], dict[str, Any]]:
    """What a file's PTX does, without where it comes from, and the constants that its launches go by; compiles."""
    code = [line for line in program.module.ptx.splitlines() if not _SAYS_WHERE.fullmatch(line)]
    return code, dict(program.contract.declarations.constexpr_values({}))


@lru_cache(maxsize=1)
def reference_does(step: str) -> tuple[list[str], dict[str, Any]]:
    """The same of a step's reference."""
    found = Course.find().step(step)
    assert found.solution is not None
    contract = parse_contract(found.solution.read_text("utf-8"), name=found.file_name)
    return _does(Program(contract, device="sim"))


@lru_cache(maxsize=1)
def cases_of(step: str, seed: int, count: int) -> tuple[bool, tuple[Case, ...]]:
    """Whether the answers are float64 ones, and the shapes at which the reference gives them."""
    found = Course.find().step(step)
    assert found.solution is not None
    contract = parse_contract(found.solution.read_text("utf-8"), name=found.file_name)
    answer = answer_of(contract)
    rng = np.random.default_rng([seed, zlib.crc32(step.encode())])
    program = Program(contract, device="sim")
    cases: list[Case] = []
    for runs, plan in enumerate(shapes_of(contract, rng)):
        if len(cases) == count or runs == _RUNS:
            break
        derived = {size.name for size in contract.sizes}
        scalars: dict[str, float] = {k: v for k, v in {**plan.scalars, **plan.sizes}.items() if k not in derived}
        try:
            inputs = _filled(plan, rng)
        except LookupError:
            break
        run = _run(program, scalars, inputs)
        if not isinstance(run, str) and (case := _case(scalars, inputs, run, answer)) is not None:
            cases.append(case)
    return answer is not None, tuple(cases)


def _case(
    sizes: dict[str, float], inputs: dict[str, np.ndarray], run: RunResult,
    answer: Callable[[_Arrays, Mapping[str, float]], dict[str, np.ndarray]] | None,
) -> Case | None:  # fmt: skip
    """The case of a clean run of the reference; raises AssertionError where it is far from the answer written here."""
    expected = dict(run.outputs) if answer is None else answer(inputs, {**run.plan.scalars, **run.plan.sizes})
    narrow = min((array.dtype for array in (*inputs.values(), *run.outputs.values()) if array.dtype.kind == "f"),
                 key=lambda dtype: dtype.itemsize, default=np.dtype("float32"))  # fmt: skip
    bound = {}
    for name, wanted in expected.items():
        got = run.outputs[name].astype(np.float64)
        if not np.isfinite(got).all():
            return None
        error, scale = np.abs(got - wanted).max(initial=0), np.abs(wanted).max(initial=0)
        if run.outputs[name].dtype.kind in "iub":
            assert error == 0, f"the reference's {name} is not the answer at {sizes}"
            bound[name] = 0.0
        else:
            assert error <= 4 * _TOLERANCE[narrow.name] * scale + 1e-6, f"the reference's {name} is off at {sizes}"
            bound[name] = float(max(16 * error, _TOLERANCE[narrow.name] * scale))
    return Case(sizes, inputs, expected, bound)


def trial(step: str, source: str, seed: int = 0, count: int = SHAPES) -> Trial:
    """Run one mutant at all shapes until one shows that it is wrong; where its code is the reference's it is equal."""
    _, cases = cases_of(step, seed, count)
    try:
        program = Program(parse_contract(source, name=Course.find().step(step).file_name), device="sim")
        if _does(program) == reference_does(step):
            return Trial("equal", "the same code")
    except WarpschoolError as error:
        return Trial("uncompiled", type(error).__name__)
    for number, case in enumerate(cases):
        run = _run(program, case.sizes, case.inputs)
        if isinstance(run, str):
            return Trial("wrong", run, number)
        if how := _difference(case, run.outputs):
            return Trial("wrong", how, number)
    return Trial("equal")


def _difference(case: Case, outputs: _Arrays) -> str:
    """Which output is off, and in how many elements; "" for none."""
    for name, wanted in case.expected.items():
        got = outputs[name].astype(np.float64)
        with np.errstate(invalid="ignore"):
            off = int(np.count_nonzero(~(np.abs(got - wanted) <= case.bound[name])))
        if off:
            return f"{off} of {got.size} elements of {name}"
    return ""


def described(step: str, seed: int, count: int) -> dict[str, Any]:
    """What the trials of a step stand on, for the record."""
    is_own, cases = cases_of(step, seed, count)
    return {"answers": "float64" if is_own else "reference", "shapes": len(cases)}
