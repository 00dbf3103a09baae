"""The one result object of a check: frozen, and the same bytes as JSON on every run and machine."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from ptxsim import Finding
from warpschool.errors import GradingError
from warpschool.grading.verdicts import Observed, Verdict, worst
from warpschool.harness.compare import WrongMap

FORMAT = 4
_SECRET_CASE = "This fails in a case that is not public: other sizes and other numbers than those of your own checks."


@dataclass(frozen=True)
class Criterion(Observed):
    """One graded criterion: `fraction` of `weight` was earned.

    `secret` says that it was observed in a case that an instructor's secret seed drew: students then read `shown`.
    `measured`: counts that were held against a limit, in words. `wrong`: where an output is wrong.
    """

    id: str
    title: str
    weight: float
    fraction: float
    verdict: Verdict
    counts: str = ""
    hint: tuple[str, ...] = ()
    secret: bool = False
    measured: tuple[str, ...] = ()
    wrong: WrongMap | None = None

    @property
    def shown(self) -> str:
        """What a student may read: of a secret case only that it failed."""
        return _SECRET_CASE if self.secret else self.seen

    @property
    def points(self) -> float:
        return self.weight * self.fraction

    @property
    def ok(self) -> bool:
        return self.verdict is Verdict.AC

    @property
    def is_judged(self) -> bool:
        """Whether it counts: False where this machine cannot judge it, and then it has no points to show."""
        return self.verdict is not Verdict.SKIP


@dataclass(frozen=True)
class Result(Observed):
    """What a check says about one source and one step; weights are the grader's, not a course's points.

    What was observed speaks about the whole file where it could not be run at all. `source` has the file's name,
    SHA-256 and origin; `provenance` everything that the outcome may depend on.
    """

    step: str
    verdict: Verdict
    criteria: tuple[Criterion, ...]
    seed: int
    source: Mapping[str, str]
    provenance: Mapping[str, str]
    warnings: tuple[str, ...] = ()
    """what the compiler warns of, each with its line in front; nothing of it is judged"""

    @property
    def score(self) -> float:
        """Weight earned; criteria that were skipped count neither here nor in `max_score`."""
        return round(sum(criterion.points for criterion in self._counted), 9)

    @property
    def is_grade(self) -> bool:
        """Whether the scores say something about the student: after a fault of the grader they do not."""
        return self.verdict is not Verdict.SE

    @property
    def not_on_gpu(self) -> str:
        """Why the GPU that was asked for could not run the kernel, so that the simulator alone judged it."""
        return self.provenance.get("not_on_gpu", "")

    @property
    def crash(self) -> str:
        """How the process ended that ran the kernel, where the kernel brought that about; "" otherwise."""
        return self.provenance.get("crash", "")

    @property
    def max_score(self) -> float:
        return round(float(sum(criterion.weight for criterion in self._counted)), 9)

    @property
    def fraction(self) -> float:
        """score / max_score as a built-in float; 0 where nothing was counted."""
        return float(self.score / self.max_score) if self.max_score else 0.0

    @property
    def ok(self) -> bool:
        return self.verdict is Verdict.AC

    @property
    def _counted(self) -> Sequence[Criterion]:
        return [criterion for criterion in self.criteria if criterion.is_judged]

    def criterion(self, name: str) -> Criterion:
        """Return a criterion by title or test function name, with or without `test_`; raises GradingError."""
        for criterion in self.criteria:
            if name in (criterion.title, criterion.id, criterion.id.removeprefix("test_")):
                return criterion
        known = ", ".join(f"'{criterion.title}'" for criterion in self.criteria)
        raise GradingError(f"{self.step} has no criterion '{name}'", next_step=f"It has {known}.")

    def part(self, names: Sequence[str]) -> Result:
        """Return the result of these criteria alone, by title or test function name; of all without names."""
        if not names:
            return self
        chosen = tuple(self.criterion(name) for name in dict.fromkeys(names))
        return replace(self, criteria=chosen, verdict=worst(criterion.verdict for criterion in chosen))

    def worth(self, points: float) -> Result:
        """Return the result with weights that add up to `points`, which is what a cell of a notebook is worth."""
        if not self.max_score:
            return self
        factor = points / self.max_score
        return replace(self, criteria=tuple(replace(c, weight=c.weight * factor) for c in self.criteria))

    def to_dict(self) -> dict[str, Any]:
        """Return plain data, sentences and scores included; of what is no grade the score is None: nobody's 0."""
        return {
            **_plain(self), "criteria": [_plain(criterion) for criterion in self.criteria],
            "format": FORMAT, "score": self.score if self.is_grade else None, "max_score": self.max_score,
        }  # fmt: skip

    def to_json(self) -> str:
        """Return JSON with sorted keys: equal results are equal bytes."""
        return json.dumps(self.to_dict(), sort_keys=True, indent=2, ensure_ascii=False, allow_nan=False) + "\n"

    @staticmethod
    def from_json(text: str) -> Result:
        """Read what `to_json` wrote; raises GradingError for anything else."""
        try:
            data = json.loads(text)
            if data.pop("format") != FORMAT:
                raise ValueError("another format")
            criteria = tuple(Criterion(**_fields(item)) for item in data.pop("criteria"))
            score, max_score = data.pop("score"), data.pop("max_score")
            result = Result(**_fields(data), criteria=criteria)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise GradingError(f"this is no result of warpschool: {error}") from None
        if (result.score if result.is_grade else None, result.max_score) != (score, max_score):
            raise GradingError("this result was changed: its scores do not add up")
        return result

    def for_student(self) -> Result:
        """Return the result without what secret cases showed."""
        return replace(self, criteria=tuple(_without_secret(c) if c.secret else c for c in self.criteria))

    def __str__(self) -> str:
        return to_text(self)


@dataclass(frozen=True, kw_only=True)
class Timed:
    """A kernel and its reference at one case; times are None where there are none, and `reason` says why.

    `how` is "measured" or "predicted", `on` the GPU; `ratio` is the kernel's time as a multiple of the reference's.
    """

    step: str
    how: str
    on: str
    case: dict[str, float] = field(default_factory=dict)
    own_ms: float | None = None
    reference_ms: float | None = None
    ratio: float | None = None
    error: float | None = None
    """relative half width of the measured ratio's 95 % confidence interval"""
    stable: bool = True
    reason: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return asdict(self)

    def __str__(self) -> str:
        if self.ratio is None:
            return f"no time: {self.reason} (no points depend on it)"
        sizes = ", ".join(f"{name} = {value:g}" for name, value in self.case.items())
        doubt = f", error {self.error:.1%}" if self.error is not None else ""
        doubt += "" if self.stable else ", NOT STABLE"
        return (
            f"{self.how} {'on' if self.how == 'measured' else 'for'} {self.on}: {self.own_ms:.4g} ms, {self.ratio:.2f} "
            f"times the reference's {self.reference_ms:.4g} ms{doubt}, at {sizes} (no points depend on it)"
        )


@dataclass(frozen=True)
class CellOutcome:
    """What a check cell in Python gave: `fraction` of its points; verdict SKIP leaves it to a person."""

    verdict: Verdict
    fraction: float
    text: str = ""
    png: str = ""
    isolation: str = ""
    grade_id: str = ""


@dataclass(frozen=True)
class Drawing:
    """What a cell that people grade drew when it was run again: PNGs in base64; `text`: why there are none."""

    images: tuple[str, ...]
    text: str
    isolation: str


def _without_secret(criterion: Criterion) -> Criterion:
    return replace(criterion, **Observed(said=criterion.shown).observed, secret=False, wrong=None)


def _plain(about: Result | Criterion) -> dict[str, Any]:
    """The fields as JSON has them, with the sentences that are made of some."""
    finding = about.finding.to_dict() if about.finding is not None else None
    return {**asdict(about), "seen": about.seen, "finding": finding}


_READ: Mapping[str, Callable[[Any], Any]] = {
    "verdict": Verdict,
    "case": lambda pairs: tuple((name, value) for name, value in pairs),
    "finding": lambda data: None if data is None else Finding.from_dict(data),
    "hint": tuple,
    "measured": tuple,
    "warnings": tuple,
    "wrong": lambda data: None if data is None else _wrong_map(data),
}
"""The fields that JSON has no types for."""


def _wrong_map(data: Mapping[str, Any]) -> WrongMap:
    return WrongMap(**{**data, "shape": tuple(data["shape"]), "rows": tuple(data["rows"])})


def _fields(data: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a criterion or a result, of what `_plain` wrote."""
    plain = {key: value for key, value in data.items() if key != "seen"}
    return plain | {key: read(data[key]) for key, read in _READ.items() if key in data}


def make_result(
    step: str, criteria: Sequence[Criterion], *, seed: int, source: Mapping[str, str], provenance: Mapping[str, str],
    whole: Criterion | None = None, warnings: Sequence[str] = (),
) -> Result:  # fmt: skip
    """Return the result of these criteria; `whole` is what ended the check before any of them ran."""
    verdict = worst(criterion.verdict for criterion in (*criteria, *([whole] if whole else [])))
    return Result(
        step, verdict, tuple(criteria), seed, dict(source), dict(provenance), tuple(warnings),
        **(whole.observed if whole else {}),
    )  # fmt: skip


def to_text(result: Result, *, hints: int = 1, provenance: bool = True) -> str:
    """Return a report for people, without colour; `hints` is the number of hint levels for each failed criterion."""
    lines = [
        f"{result.step}: {result.verdict} ({result.verdict.meaning}), {result.score:.4g} of {result.max_score:.4g}",
        f"checked: {result.source.get('name', '?')}, {result.source.get('origin', '?')}",
        *_seen(result),
        *(f"the compiler warns: {warning}" for warning in result.warnings),
    ]
    for criterion in result.criteria:
        mark = "ok  " if criterion.ok else f"{criterion.verdict:4}"
        if not criterion.is_judged:
            lines.append(f"{mark}      {criterion.title}: {criterion.seen}")
            continue
        lines.append(f"{mark} {criterion.points:.3g}/{criterion.weight:.3g}  {criterion.title}")
        if not criterion.ok and not result.seen:
            lines += _seen(criterion)
            lines += [f"    counted: {criterion.counts}"] if criterion.counts else []
            lines += [f"    hint: {hint}" for hint in criterion.hint[:hints]]
    if provenance:
        lines.append("; ".join(f"{key}: {value}" for key, value in sorted(result.provenance.items())))
    return "\n".join(lines)


def _seen(about: Result | Criterion) -> Iterator[str]:
    """What was seen, with the student's line below unless it is quoted already."""
    yield from (f"    {line}" for line in about.seen.splitlines())
    if about.line and about.code and about.code.strip() not in about.seen:
        yield f"    {about.line:>5} | {about.code}"
