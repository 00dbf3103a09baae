"""Short stories about who has what, made by rules: a text without end of which every character's surprise is known.

    story = Story.made(rng)
    story.text           # "Ada has a red cup, ... The key goes from Hugo to Ada. Who has the key? Ada. ...\\n"
    story.surprise       # for each character -log of its probability given what stands before it

Who reads a story from its beginning on and knows the rules is surprised only where something is chosen. Names and
things differ, colours may be alike; answers follow from what was told. So the mean surprise is the least loss that any
network can have on these stories, and whether a written story is right can be looked up in it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

NAMES = ("Ada", "Bruno", "Clara", "David", "Emma", "Felix", "Greta", "Hugo")
THINGS = ("ball", "cup", "drum", "flute", "hat", "key", "lamp", "map")
COLOURS = ("red", "blue", "green", "white", "black", "yellow")
PEOPLE = 3
QUESTIONS = 5
"""Some may be asked twice."""

_HAS = r"(\w+) has a (\w+) (\w+)"
_FORM = re.compile(
    rf"{_HAS}, {_HAS} and {_HAS}\. The (\w+) goes from (\w+) to (\w+)\. (.+)"
)
_WHO, _WHICH = re.compile(r"Who has the (\w+)\? (\w+)\."), re.compile(r"Which colour has the (\w+)\? (\w+)\.")


@dataclass
class _Pen:
    """Writes a story and notes the surprise of each character."""

    rng: np.random.Generator
    text: str = ""
    surprise: list[float] = field(default_factory=list)

    def write(self, words: str) -> None:
        """What had to come."""
        self.text += words
        self.surprise += [0.0] * len(words)

    def choose(self, options: Sequence[str]) -> str:
        """One of these, all as likely; none may be the beginning of another."""
        chosen = options[int(self.rng.integers(len(options)))]
        left = list(options)
        for place, character in enumerate(chosen):
            fit = [option for option in left if option[place] == character]
            self.text += character
            self.surprise.append(math.log(len(left) / len(fit)))
            left = fit
        return chosen


@dataclass(frozen=True)
class Story:
    """One line."""

    text: str
    surprise: tuple[float, ...]

    @classmethod
    def made(cls, rng: np.random.Generator) -> Story:
        pen = _Pen(rng)
        names, things, colours = list(NAMES), list(THINGS), []
        owners: list[str] = []
        owned: list[str] = []
        for number in range(PEOPLE):
            pen.write(("", ", ", " and ")[number])
            owners.append(_taken(pen, names))
            pen.write(" has a ")
            colours.append(pen.choose(COLOURS))
            pen.write(" ")
            owned.append(_taken(pen, things))
        pen.write(". The ")
        given = pen.choose(owned)
        giver = owners[owned.index(given)]
        pen.write(f" goes from {giver} to ")
        taker = pen.choose([owner for owner in owners if owner != giver])
        pen.write(".")
        for _ in range(QUESTIONS):
            question = pen.choose((" Who has the ", " Which colour has the "))
            asked = owned.index(pen.choose(owned))
            owner = taker if owned[asked] == given else owners[asked]
            pen.write(f"? {owner if 'Who' in question else colours[asked].capitalize()}.")
        pen.write("\n")
        return cls(pen.text, tuple(pen.surprise))


def _taken(pen: _Pen, options: list[str]) -> str:
    """Choose one and take it away."""
    chosen = pen.choose(options)
    options.remove(chosen)
    return chosen


@dataclass(frozen=True, eq=False)
class Stories:
    """Many stories, one after the other, behind a line's end; `surprise` of each character in nats."""

    text: str
    surprise: np.ndarray
    starts: tuple[int, ...]
    """the places of the line's ends before each story"""

    @classmethod
    def made(cls, count: int, seed: int) -> Stories:
        rng = np.random.default_rng([seed, 16])
        stories = [Story.made(rng) for _ in range(count)]
        ends = np.cumsum([0, *(len(story.text) for story in stories)])
        surprise = np.concatenate([[0.0], *(story.surprise for story in stories)])
        return cls("\n" + "".join(story.text for story in stories), surprise, tuple(int(end) for end in ends[:-1]))

    def least_loss(self, starts: Iterable[int], length: int) -> float:
        """The mean surprise of what comes after each character of such windows."""
        return float(np.mean([self.surprise[start + 1 : start + 1 + length].mean() for start in starts]))


def is_right(line: str) -> bool:
    """Whether a line is a story by the rules, and its answers follow from it."""
    found = _FORM.fullmatch(line)
    if found is None:
        return False
    told = found.groups()
    owners, colours, owned = told[0:9:3], told[1:9:3], told[2:9:3]
    given, giver, taker, questions = told[9:]
    by_rules = (
        set(owners) <= set(NAMES) and set(owned) <= set(THINGS) and set(colours) <= set(COLOURS)
        and len(set(owners)) == len(set(owned)) == PEOPLE
        and given in owned and giver == owners[owned.index(given)] and taker in owners and taker != giver
    )  # fmt: skip
    if not by_rules:
        return False
    has = dict(zip(owned, owners, strict=True)) | {given: taker}
    asked = re.findall(r"W[^?]+\? \w+\.", questions)
    return " ".join(asked) == questions and len(asked) == QUESTIONS and all(
        _answered(question, has, dict(zip(owned, colours, strict=True))) for question in asked
    )  # fmt: skip


def _answered(question: str, has: dict[str, str], colours: dict[str, str]) -> bool:
    for form, right in ((_WHO, has), (_WHICH, {thing: colour.capitalize() for thing, colour in colours.items()})):
        if found := form.fullmatch(question):
            return right.get(found[1]) == found[2]
    return False
