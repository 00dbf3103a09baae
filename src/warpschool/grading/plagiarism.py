"""Kernels of a class that are alike, in groups: shown to a teacher, never scored.

Two hand-ins are as alike as the runs of their normal forms (`normal_form`) that they share, of the smaller one's own; a
run that few have weighs more. Own is what neither the starter nor the reference gives and what not most of the class
wrote. Where the texts leave it open, their compiled code is compared in the same way.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import log2

import numpy as np

from warpschool.compile import compile_cuda
from warpschool.course import Course, Step
from warpschool.errors import CompilerMissing, WarpschoolError
from warpschool.grading.normal_form import Form, code_form, text_form

LEAST = 0.6
KNOWN = "known: "
"""What a known solution's name begins with, beside those of students."""
LEAST_OWN = 10
"""Runs of its own that a file needs before it is compared: two lines are alike for everybody."""
LEAST_CODE, LEAST_SHARED_CODE = 0.85, 20
"""The same for compiled code, in which two people's loops are alike, too."""
MAYBE, SURE = 0.2, 0.15
"""Texts less alike than this are not compiled, nor texts that are so much more alike than asked for."""
OTHER_CODE = 0.6
"""Texts in between whose code is less alike than this were written apart, in phrases that many use."""
COMMON = 0.5
"""A run that a larger part of the class has is nobody's own."""
_FEW = 4
"""Of fewer who wrote something nobody's majority is told: two of three are a pair."""
Compiler = Callable[[str], str]
"""A source to its PTX, "" for one that does not compile."""


@dataclass(frozen=True)
class AlikePair:
    """Two kernels that share `shared` runs, the part `alike` of the smaller one's own.

    `lines` holds the matching lines of both files, first and second, in order.
    """

    first: str
    second: str
    alike: float
    shared: int
    lines: tuple[tuple[int, ...], tuple[int, ...]]


@dataclass(frozen=True)
class AlikeGroup:
    """Hand-ins that share one solution, and the known solutions that they share it with.

    `pairs` name each beside the one of those before it that it is most alike with, and `alike` is the least of theirs.
    `seen` is "text", or "code" where only compiling shows it.
    """

    members: tuple[str, ...]
    known: tuple[str, ...]
    alike: float
    shared: int
    seen: str
    pairs: tuple[AlikePair, ...]


@dataclass(frozen=True)
class Likeness:
    """What a step's hand-ins have in common.

    `unwritten` add too little to the starter to be compared, `as_reference` too little to the reference, and `usual`
    too little to what most of the class wrote: where a step leaves no freedom, that is everybody.
    """

    handed_in: int
    groups: tuple[AlikeGroup, ...] = ()
    unwritten: tuple[str, ...] = ()
    as_reference: tuple[str, ...] = ()
    usual: tuple[str, ...] = ()


class _Runs:
    """Everybody's own runs in one normal form: after the starter and the reference, and then after the majority."""

    def __init__(self, forms: Mapping[str, Form], given: set[int], least: int) -> None:
        self.least = least
        self.own = {who: {v: n for v, n in form.kept.items() if v not in given} for who, form in forms.items()}
        self.rare: dict[str, dict[int, int]] = {}
        self.weight: dict[int, float] = {}

    def weigh(self, members: Sequence[str]) -> None:
        """Find out what most of these wrote, and how rare everything else is."""
        wrote = [who for who in members if len(self.own[who]) >= self.least]
        often = Counter(value for who in wrote for value in self.own[who])
        most = max(2, COMMON * len(wrote)) if len(wrote) >= _FEW else len(wrote)
        self.rare = {who: {v: n for v, n in self.own[who].items() if often[v] <= most} for who in members}
        every = {value for found in self.own.values() for value in found}
        self.weight = {value: log2(1 + max(2, len(wrote)) / max(1, often[value])) for value in sorted(every)}

    def of(self, who: str, other: str) -> dict[int, int]:
        """What counts of one's runs beside another's: beside a known solution what most wrote counts, too."""
        return self.rare[who] if who in self.rare and other in self.rare else self.own[who]

    def compared(self, members: Sequence[str], known: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        """Return how alike, and how many runs are shared, for members and known ones in this order; 0 among known."""
        count = len(members)
        alike, shared = (np.zeros((count + len(known), count + len(known))) for _ in range(2))
        among = self._matrix([self.rare[who] for who in members])
        across = self._matrix([self.own[who] for who in [*members, *known]])
        for whole, inner, outer in zip((alike, shared), among, across, strict=True):
            whole[:count, :count] = inner
            whole[:count, count:] = outer[:count, count:]
            whole[count:, :count] = outer[count:, :count]
            np.fill_diagonal(whole, 0)
        return alike, shared

    def _matrix(self, found: Sequence[Mapping[int, int]]) -> tuple[np.ndarray, np.ndarray]:
        places = {value: at for at, value in enumerate(self.weight)}
        held = np.zeros((len(found), len(places)), np.float32)
        for row, values in enumerate(found):
            held[row, [places[value] for value in values]] = len(values) >= self.least
        weight = np.fromiter(self.weight.values(), np.float32, len(places))
        mass = held @ weight
        alike = (held * weight) @ held.T / np.maximum(np.minimum.outer(mass, mass), 1e-9)
        return alike, held @ held.T


@dataclass(frozen=True)
class _Nodes:
    """Hand-ins, then known solutions, and how alike any two are: 0 where it is too little."""

    members: list[str]
    known: list[str]
    alike: np.ndarray
    shared: np.ndarray
    is_code: np.ndarray

    @property
    def names(self) -> list[str]:
        return [*self.members, *self.known]


def likeness(
    sources: Mapping[str, str], *, starters: Sequence[str] = (), references: Sequence[str] = (),
    known: Mapping[str, str] | None = None, least: float = LEAST, compiler: Compiler | None = None,
) -> Likeness:  # fmt: skip
    """Return what the hand-ins of one step have in common.

    `sources`: who -> source; `starters`: texts that everybody was given; `references`: the course's own solutions;
    `known`: name -> a solution from elsewhere. Without `compiler` the texts alone are compared.
    """
    found = {f"{KNOWN}{name}": text for name, text in (known or {}).items()}
    members, others = sorted(sources), sorted(found)
    forms = {who: text_form(text) for who, text in {**sources, **found}.items()}
    given = {value for text in starters for value in text_form(text).all}
    unwritten = [who for who in members if len(_without(forms[who], given)) < LEAST_OWN]
    given |= {value for text in references for value in text_form(text).all}
    runs = _Runs(forms, given, LEAST_OWN)
    as_reference = [who for who in members if who not in unwritten and len(runs.own[who]) < LEAST_OWN]
    wrote = [who for who in members if len(runs.own[who]) >= LEAST_OWN]
    runs.weigh(wrote)
    alike, shared = runs.compared(wrote, others)
    nodes = _Nodes(wrote, others, alike * (alike >= least), shared, np.zeros(alike.shape, bool))
    evidence = [runs]
    if compiler is not None:
        maybe = (alike >= MAYBE) & (alike < least + SURE)
        evidence.append(_by_code(nodes, maybe, {**sources, **found}, [*starters, *references], compiler))
    return Likeness(
        len(sources), tuple(_groups(nodes, evidence)), tuple(unwritten), tuple(as_reference),
        tuple(who for who in wrote if len(runs.rare[who]) < LEAST_OWN),
    )  # fmt: skip


def _without(form: Form, given: set[int]) -> set[int]:
    return form.kept.keys() - given


def _by_code(
    nodes: _Nodes, maybe: np.ndarray, sources: Mapping[str, str], given: Sequence[str], compiler: Compiler
) -> _Runs:
    """Add links that only compiled code shows to those of the texts, and drop those that it speaks against.

    `maybe`: the pairs for which it is asked.
    """
    doubtful = {who for who, row in zip(nodes.names, maybe, strict=True) if row.any()}
    forms = {who: code_form(compiler(sources[who]) if who in doubtful else "") for who in nodes.names}
    everybodys = {value for text in given if doubtful for value in code_form(compiler(text)).all}
    runs = _Runs(forms, everybodys, 1)
    runs.weigh(nodes.members)
    alike, shared = runs.compared(nodes.members, nodes.known)
    compiled = np.array([bool(forms[who].all) for who in nodes.names], bool)
    own = np.array([len(runs.own[who]) for who in nodes.names])
    told = np.logical_and.outer(compiled, compiled) & (np.maximum.outer(own, own) >= LEAST_OWN)
    nodes.alike[maybe & told & (alike < OTHER_CODE)] = 0
    seen = maybe & (nodes.alike == 0) & (alike >= LEAST_CODE) & (shared >= LEAST_SHARED_CODE)
    nodes.alike[seen], nodes.shared[seen], nodes.is_code[seen] = alike[seen], shared[seen], True
    return runs


def _groups(nodes: _Nodes, evidence: Sequence[_Runs]) -> Iterator[AlikeGroup]:
    """The kernel with most links, then again and again the one that is alike with most of the group, a third at least.

    Links inside a group are used up; what is left makes the next one.
    """
    close = _close(nodes, evidence[0])
    left = nodes.alike > 0
    made = []
    while left.any():
        group = [int(np.lexsort((-nodes.alike.sum(axis=1), -left.sum(axis=1)))[0])]
        while True:
            often = close[:, group].sum(axis=1) * left[:, group].any(axis=1)
            often[group] = 0
            one = int(np.lexsort((-nodes.alike[:, group].max(axis=1), -often))[0])
            if 3 * often[one] < len(group):
                break
            group.append(one)
        left[np.ix_(group, group)] = False
        made.append(_group(nodes, group, evidence))
    yield from sorted(made, key=lambda group: (-len(group.members), -group.alike, -group.shared, group.members))


def _close(nodes: _Nodes, runs: _Runs) -> np.ndarray:
    """Who may stand in one group: who is linked, and who took the same known solution as most of the class."""
    linked = nodes.alike > 0
    count = len(nodes.members)
    usual = np.array([len(runs.rare[who]) < runs.least for who in nodes.members] + [False] * len(nodes.known), bool)
    through = linked[:, count:].astype(int) @ linked[count:, :].astype(int) > 0
    return linked | (through & np.logical_and.outer(usual, usual))


def _group(nodes: _Nodes, group: Sequence[int], evidence: Sequence[_Runs]) -> AlikeGroup:
    names = nodes.names
    pairs = []
    for at, one in enumerate(group[1:], start=1):
        nearest = max(group[:at], key=lambda other: nodes.alike[one, other])
        runs = evidence[int(nodes.is_code[nearest, one])]
        first, second = sorted((names[nearest], names[one]))
        sides = runs.of(first, second), runs.of(second, first)
        common = sides[0].keys() & sides[1].keys()
        lines = tuple(tuple(sorted({side[value] for value in common})) for side in sides)
        alike = round(float(nodes.alike[nearest, one]), 3)
        pairs.append((AlikePair(first, second, alike, len(common), (lines[0], lines[1])), nodes.is_code[nearest, one]))
    shown = tuple(pair for pair, _ in pairs)
    return AlikeGroup(
        tuple(sorted(names[one] for one in group if one < len(nodes.members))),
        tuple(sorted(names[one] for one in group if one >= len(nodes.members))),
        min(pair.alike for pair in shown), min(pair.shared for pair in shown),
        "code" if all(is_code for _, is_code in pairs) else "text", shown,
    )  # fmt: skip


def alike_kernels(
    sources: Mapping[str, Mapping[str, str]], course: Course, *, known: Mapping[str, Mapping[str, str]] | None = None,
    least: float = LEAST, compiles: bool = True,
) -> Iterator[tuple[str, Likeness]]:  # fmt: skip
    """Yield each step and what its hand-ins have in common; `sources` and `known`: step -> who -> source.

    What the course's starter and reference give does not count.
    """
    for name, by_student in sources.items():
        step = course.step(name)
        starters, references = (
            [path.read_text("utf-8")] if path is not None else [] for path in (step.starter, step.solution)
        )
        yield name, likeness(
            by_student, starters=starters, references=references, known=(known or {}).get(name, {}), least=least,
            compiler=_compiler(step) if compiles else None,
        )  # fmt: skip


def _compiler(step: Step) -> Compiler:
    """Compiles kernels of a step as a check does; from the cache where one did."""

    def compiled(source: str) -> str:
        try:
            return compile_cuda(source, name=step.file_name).ptx
        except CompilerMissing:
            raise
        except WarpschoolError:  # what does not compile is compared as text alone
            return ""

    return compiled
