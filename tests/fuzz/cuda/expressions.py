"""Writes C++ expressions of random shape over the variables in scope."""

from __future__ import annotations

import random
import re

from .tables import ASM, CONSTRAINTS, FLOATING, FROM_HALVES, HALVES, INTEGER, KINDS, OWN, PLAIN, ROUGH

_PLACE = re.compile(r"\{(\w+)\}")
_EDGES = {
    "u": ("0u", "1u", "~0u", "0x80000000u", "0x7fffffffu"), "i": ("0", "-1", "INT_MAX", "INT_MIN"),
    "q": ("0ull", "~0ull", "1ull << 63", "0x100000000ull"), "l": ("-1ll", "LLONG_MAX", "LLONG_MIN", "-0x100000001ll"),
    "w": ("65535", "0x8000"), "s": ("-32768", "32767", "-1"), "y": ("255", "128"), "g": ("-128", "127", "-1"),
    "f": ("0.0f", "-0.0f", "1e-40f", "3.4e38f", "0.1f", "16777217.0f", "INFINITY"),
    "d": ("0.0", "-0.0", "1e-310", "1.7e308", "0.1"),
}  # fmt: skip


class Expressions:
    """Expressions of any kind; `names` are the variables in scope, by the kinds' letters."""

    def __init__(self, rng: random.Random, letters: str, *, exact: bool) -> None:
        self.random, self.letters, self.exact = rng, letters, exact
        self.names: dict[str, list[str]] = {letter: [] for letter in letters}
        self.used_asm: set[str] = set()

    def name(self, letter: str) -> str:
        return self.random.choice(self.names[letter])

    def value(self, letter: str, depth: int = 2) -> str:
        """An expression of a kind, in parentheses where it needs them."""
        r, kind = self.random, KINDS[letter]
        if depth <= 0 or r.random() < 0.2:
            return self._leaf(letter)
        chance = r.random()
        if chance < 0.12:
            return self._converted(letter, depth)
        if chance < 0.2:
            return f"({self.condition(depth - 1)} ? {self.value(letter, depth - 1)} : {self.value(letter, depth - 1)})"
        if chance < 0.3 and (made := self._asm(letter, depth)):
            return made
        if chance < 0.65 and kind.family != "half":
            table: tuple[str, ...] = FLOATING if kind.family == "floating" else INTEGER
        else:
            table = OWN[letter]
            if HALVES[0] in self.letters:
                table = table + FROM_HALVES.get(letter, ())
            if not self.exact:
                table = table + ROUGH.get(letter, ())
        return self.filled(r.choice(table), letter, depth - 1)

    def filled(self, template: str, letter: str, depth: int) -> str:
        """A template with random parts of at most this depth."""
        kind, r = KINDS[letter], self.random

        def part(match: re.Match[str]) -> str:
            what = match[1]
            if what == "a":
                return self.value(letter, depth)
            if what == "c":
                return f"({self.condition(depth)})"
            if what in KINDS:
                return self.value(what, depth)
            if what == "places":
                return str(r.randrange(kind.bits))
            return {"T": kind.name, "U": kind.wraps, "mask": f"{kind.bits - 1}u"}[what]

        return _PLACE.sub(part, template)

    def condition(self, depth: int = 1) -> str:
        """Something that is true for some lanes."""
        r = self.random
        letter = r.choice([k for k in self.letters if k not in HALVES])
        a, b = self.value(letter, depth), self.value(letter, depth)
        comparison = f"{a} {r.choice(('<', '>', '<=', '>=', '==', '!='))} {b}"
        bit = f"({self.value('u', depth)} >> {r.randrange(8)} & 1u) != 0u"
        near = r.choice(("(t & 3u) == 1u", "t < 20u", "lane > 11u", "(lane & 16u) != 0u", "t % 5u == 2u"))
        both = f"({comparison}) {r.choice(('&&', '||'))} ({near})"
        return r.choice((comparison, comparison, bit, bit, near, both))

    def _leaf(self, letter: str) -> str:
        r, kind = self.random, KINDS[letter]
        if r.random() < 0.7 and self.names.get(letter):
            return self.name(letter)
        if kind.family == "half":
            to = "__float2half_rn" if letter == "h" else "__float2bfloat16_rn"
            return f"{to}({r.choice((f'{r.uniform(-3, 3):.3f}f', '(float)(t % 7u)', '6e-8f', '65504.0f'))})"
        if r.random() < 0.3:
            return f"({kind.name})({r.choice(_EDGES[letter])})"
        if kind.family == "floating":
            number = f"{r.uniform(-3, 3):.3f}" + ("f" if letter == "f" else "")
            return r.choice((number, f"({kind.name})(t % 7u)", f"({kind.name}){r.randint(-40, 90)}"))
        small = str(r.randint(0, 90)), f"-{r.randint(1, 40)}", "t", "t % 7u", "lane", "blockIdx.x"
        return f"({kind.name})({r.choice(small)})"

    def _converted(self, letter: str, depth: int) -> str:
        """A value of another kind, converted by a cast that is defined for all values."""
        if KINDS[letter].family == "half":
            rounding = "__float2half_rn" if letter == "h" else "__float2bfloat16_rn"
            return f"{rounding}({self.value('f', depth - 1)})"
        others = [k for k in self.letters if KINDS[k].family in ("signed", "unsigned") and k != letter]
        return f"({KINDS[letter].name}){self.value(self.random.choice(others), depth - 1)}"

    def _asm(self, letter: str, depth: int) -> str:
        """A call of a function around an instruction that C++ has no name for."""
        fitting = [name for name, (_, letters) in ASM.items() if letters[0] == letter]
        if not fitting:
            return ""
        name = self.random.choice(fitting)
        self.used_asm.add(name)
        return f"asm_{name}({', '.join(self.value(k, depth - 1) for k in ASM[name][1][1:])})"


def asm_function(name: str) -> str:
    """The function that `_asm` calls."""
    text, letters = ASM[name]
    parameters = ", ".join(f"{KINDS[k].name} a{n}" for n, k in enumerate(letters[1:]))
    inputs = ", ".join(f'"{CONSTRAINTS[k]}"(a{n})' for n, k in enumerate(letters[1:]))
    result, early = KINDS[letters[0]].name, "&" if text.count(";") > 1 else ""
    return (
        f"__device__ {result} asm_{name}({parameters})\n{{\n    {result} r;\n"
        f'    asm("{text}" : "={early}{CONSTRAINTS[letters[0]]}"(r) : {inputs});\n    return r;\n}}\n'
    )


assert set(OWN) == set(PLAIN + HALVES)
