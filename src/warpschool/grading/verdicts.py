"""Verdicts: what a check can end with, in order of precedence, and which error means which."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass, fields
from enum import StrEnum
from typing import Any

from ptxsim import Finding
from warpschool import errors
from warpschool.harness.compare import WrongMap


class Verdict(StrEnum):
    """The verdicts, the one that wins first; `meaning` is one sentence for people."""

    SE = "SE"
    BAD = "BAD"
    CE = "CE"
    CLE = "CLE"
    RJ = "RJ"
    NE = "NE"
    OOB = "OOB"
    RACE = "RACE"
    SYNC = "SYNC"
    UNINIT = "UNINIT"
    RTE = "RTE"
    LE = "LE"
    TLE = "TLE"
    MLE = "MLE"
    OLE = "OLE"
    WA = "WA"
    PERF = "PERF"
    PC = "PC"
    AC = "AC"
    SKIP = "SKIP"

    @property
    def rank(self) -> int:
        """Its place in the order of precedence; 0 wins over everything."""
        return tuple(Verdict).index(self)

    @property
    def meaning(self) -> str:
        return _MEANINGS[self]


_MEANINGS = {
    Verdict.SE: "the grader failed; this is not the student's fault, and a person has to look",
    Verdict.BAD: "the file cannot be read",
    Verdict.CE: "the compiler rejects the kernel",
    Verdict.CLE: "the compiler ran into a limit of time, memory or size",
    Verdict.RJ: "the kernel uses something that is not allowed here",
    Verdict.NE: "no kernel of the right name and parameters",
    Verdict.OOB: "an access outside an array",
    Verdict.RACE: "two threads access the same memory without order",
    Verdict.SYNC: "a barrier that not all threads reach",
    Verdict.UNINIT: "shared memory or a variable is read before it is written",
    Verdict.RTE: "the kernel stopped with an error",
    Verdict.LE: "the launch is impossible",
    Verdict.TLE: "the kernel does not come to an end",
    Verdict.MLE: "too much memory",
    Verdict.OLE: "too much output from printf",
    Verdict.WA: "wrong results",
    Verdict.PERF: "right results, but over the budget of a counter",
    Verdict.PC: "right in part",
    Verdict.AC: "accepted",
    Verdict.SKIP: "not checked on this machine",
}
_COMMANDS = ("Cc", "Cf", "Cs", "Zl", "Zp")

_OF_ERROR: tuple[tuple[type[Exception], Verdict], ...] = (  # subclasses before their bases
    (errors.CompileLimitError, Verdict.CLE),
    (errors.KernelTooLarge, Verdict.CLE),
    (errors.PolicyError, Verdict.RJ),
    (errors.CompileError, Verdict.CE),
    (errors.CompilerLacks, Verdict.SKIP),
    (errors.UnsupportedInstruction, Verdict.RJ),  # the step can be done without it, as its reference shows
    (errors.EntryError, Verdict.NE),
    (errors.LaunchLineError, Verdict.LE),
    (errors.NeedsError, Verdict.LE),
    (errors.ContractError, Verdict.BAD),
    (errors.LaunchError, Verdict.LE),
    (errors.StepLimitExceeded, Verdict.TLE),
    (errors.MemoryLimitExceeded, Verdict.MLE),
    (errors.PrintLimitExceeded, Verdict.OLE),
    (errors.KernelDeadlock, Verdict.SYNC),
    (errors.KernelTrap, Verdict.RTE),
    (errors.DeviceFault, Verdict.RTE),
    (MemoryError, Verdict.MLE),
    (AssertionError, Verdict.WA),
)
_OF_HAZARD = {
    "out-of-bounds": Verdict.OOB,
    "race": Verdict.RACE,
    "unordered": Verdict.RACE,
    "lockstep": Verdict.RACE,
    "async-order": Verdict.RACE,
    "divergent-barrier": Verdict.SYNC,
    "warp-sync": Verdict.SYNC,
    "uninitialized": Verdict.UNINIT,
    "misaligned": Verdict.RTE,
}


_MOST_LINES = 30  # one screen
_MOST_COLUMNS = 300


Case = tuple[tuple[str, float], ...]
"""Sizes by name, in the order in which people read them."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Observed:
    """What was observed where something failed, as data: `seen` is the sentence for people.

    `case`: the sizes at which it was observed. `finding`: what the simulator found there, and `more` how many others;
    `said`: the words of a comparison, a budget or a compiler, where there is no finding. `line` is the student's line
    (0: none to blame), `code` its text, `file` the file's name where `seen` is to begin with the place.
    """

    said: str = ""
    file: str = ""
    line: int = 0
    code: str = ""
    case: Case = ()
    finding: Finding | None = None
    more: int = 0

    @property
    def observed(self) -> dict[str, Any]:
        """These fields, for another object that tells the same."""
        return {one.name: getattr(self, one.name) for one in fields(Observed)}

    @property
    def seen(self) -> str:
        """The whole sentence, with sizes and place."""
        where = f"{self.file}:{self.line}: " if self.file and self.line else ""
        case = f"at {case_words(self.case)}: " if self.case else ""
        return f"{case}{where}{self.message}"

    @property
    def message(self) -> str:
        """The sentence alone."""
        if self.finding is None:
            return self.said
        return self.finding.message + (f" ({self.more} more places)" if self.more else "")


def case_words(case: Case) -> str:
    """The sizes of a case, "M = 31, N = 33"."""
    return ", ".join(f"{name} = {value:g}" for name, value in case)


class Judgement(AssertionError, Observed):
    """Ends a criterion: its verdict and what was observed.

    `fraction` is the part of the points that is kept; `secret` says that it happened in a case of the secret seed.
    """

    secret = False
    wrong: WrongMap | None = None
    """where an output is wrong, if that is what was seen"""
    cause = ""
    """what wrong elements have in common: one of `harness.compare.CAUSES`, "no-start", or "dynamic-shared"."""

    def __init__(
        self, verdict: Verdict, said: str, *, file: str = "", line: int = 0, fraction: float = 0.0,
        case: Case = (), finding: Finding | None = None, more: int = 0,
    ) -> None:  # fmt: skip
        Observed.__init__(self, said=readable(said), file=file, line=line, case=case, finding=finding, more=more)
        self.verdict = verdict
        self.fraction = fraction
        super().__init__(f"{verdict}: {self.seen}")


def judge(error: BaseException, *, has_inline_asm: bool = False) -> Judgement:
    """Return the judgement that an exception stands for; what is nobody's known fault is SE.

    PTX that the simulator cannot read is the student's only when it was written by hand, as inline assembly.
    """
    if isinstance(error, Judgement):
        return error
    if isinstance(error, errors.PtxSyntaxError):
        verdict = Verdict.RJ if has_inline_asm else Verdict.SE
    else:
        verdict = next((found for kind, found in _OF_ERROR if isinstance(error, kind)), Verdict.SE)
    seen = str(error) or type(error).__name__
    if isinstance(error, errors.CompilerLacks):
        seen = f"judged with NVRTC only: {error.message}"
    if verdict is Verdict.SE and not isinstance(error, errors.WarpschoolError):
        seen = f"{type(error).__name__}: {seen}"
    told = getattr(error, "diagnostics", ())
    diagnosed = (one for one in told if one.severity != "warning" and not one.file.startswith("<"))  # CUDA's headers
    place = error if getattr(error, "line", 0) else next(diagnosed, None)
    file, line = str(getattr(place, "file", "")), getattr(place, "line", 0)
    line = line if isinstance(line, int) else 0
    said = seen.removeprefix(f"{file}:{line}: ")  # errors with a place begin with it
    return Judgement(verdict, said, file=file if said != seen else "", line=line)


def readable(text: str) -> str:
    """Return at most one screen of a text, without characters that command a terminal or turn the writing around."""
    lines = [_printable(line) for line in text.split("\n")]
    if len(lines) > _MOST_LINES:
        lines = [*lines[: _MOST_LINES - 1], f"... and {len(lines) - _MOST_LINES + 1} more lines"]
    return "\n".join(lines)


def _printable(line: str) -> str:
    cut = line if len(line) <= _MOST_COLUMNS else f"{line[:_MOST_COLUMNS]} ..."
    return "".join(c if c == "\t" or unicodedata.category(c) not in _COMMANDS else "\ufffd" for c in cut)


def verdict_of_hazard(kind: str) -> Verdict:
    """Return the verdict for a hazard of the simulator; raises GradingError for a kind that is not known."""
    if kind not in _OF_HAZARD:
        raise errors.GradingError(
            f"no verdict is known for the hazard '{kind}'",
            next_step="Please report it: grading.verdicts has no row for it.",
        )
    return _OF_HAZARD[kind]


def worst(verdicts: Iterable[Verdict]) -> Verdict:
    """Return the verdict that wins; AC wins over SKIP, and nothing at all is SKIP."""
    return min(verdicts, key=lambda verdict: verdict.rank, default=Verdict.SKIP)
