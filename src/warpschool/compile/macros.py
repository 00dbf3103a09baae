"""How long a source is with its macros expanded, counted before a compiler takes seconds and all its memory for it.

A macro has a length that is linear in the lengths of its arguments: so many tokens of its own, and each argument so
many times. Lengths are counted once for each macro, whatever their chain of uses would expand to. Names that come out
of an argument or of `##`, and headers' macros, count as one token: what grows by these ends at the compiler's limits.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

MOST_TOKENS = 100_000
"""Tokens that macros may add to a source: the course's own files have 5,000 in all. NVRTC takes 13 s for an expression
of 200,000."""

_ENDLESS = 1 << 40
"""What is longer counts as this long."""
_TOKEN = re.compile(r"[A-Za-z_]\w*|\.?\d(?:[eEpP][+-]|[\w.'])*|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'|[^\s\w]")
_DEFINE = re.compile(r"\s*(?:#|%:)\s*define\s+(?P<name>[A-Za-z_]\w*)(?P<params>\([^()]*\))?(?P<body>.*)", re.DOTALL)
_DIRECTIVE = re.compile(r"\s*(?:#|%:)\s*(?P<word>\w*)(?P<rest>.*)", re.DOTALL)
_EXPANDED = ("if", "elif")
Length = tuple[int, ...]
"""Tokens of its own, then how often each parameter stands in it."""


@dataclass(frozen=True)
class _Macro:
    params: tuple[str, ...]
    body: tuple[str, ...]
    is_function: bool


@dataclass
class _Call:
    """A use of a macro with arguments while these are read; the text itself stands in one without a macro."""

    macro: str
    parts: list[list[int]]
    depth: int = 0
    """of brackets that are open within"""


@dataclass
class _Lengths:
    """The macros of a source, all definitions of a name together, and the length of each."""

    macros: dict[str, list[_Macro]] = field(default_factory=dict)
    known: dict[str, Length] = field(default_factory=dict)

    def settle(self) -> None:
        """Find the length of every macro: those first that others use."""
        state: dict[str, int] = {}
        for start in self.macros:
            waiting = [start]
            while waiting:
                name = waiting[-1]
                if not state.get(name):
                    state[name] = 1
                    waiting += [used for used in self._uses(name) if used not in state]
                    continue
                waiting.pop()
                if state[name] == 1:  # a name that is expanded within itself stays as it is, one token
                    state[name] = 2
                    self.known[name] = self._longest(name)

    def _uses(self, name: str) -> Iterator[str]:
        for macro in self.macros[name]:
            yield from (token for token in dict.fromkeys(macro.body) if token in self.macros)

    def _longest(self, name: str) -> Length:
        """Of all definitions of a name the most of each number."""
        found = [self.of(macro.body, macro.params) for macro in self.macros[name]]
        width = max(map(len, found))
        return tuple(max(one[k] if k < len(one) else 0 for one in found) for k in range(width))

    def of(self, tokens: Sequence[str], params: Sequence[str] = ()) -> Length:
        """The length of a text, with those macros expanded whose length is known."""
        place = {name: k for k, name in enumerate(params, start=1)}
        calls = [_Call("", [[0] * (len(params) + 1)])]
        before = ""
        for token in tokens:
            top = calls[-1]
            if token == "(" and self._takes_arguments(before):
                _add(top.parts[-1], 0, -1)  # its name
                calls.append(_Call(before, [[0] * (len(params) + 1)]))
            elif token == ")" and not top.depth and len(calls) > 1:
                self._close(calls)
            elif token == "," and not top.depth and len(calls) > 1:
                top.parts.append([0] * (len(params) + 1))
            else:
                top.depth += (token == "(") - (token == ")" and top.depth > 0)
                _add(top.parts[-1], place.get(token, 0), self._alone(token) if token not in place else 1)
            before = token
        while len(calls) > 1:
            self._close(calls)
        return tuple(calls[0].parts[0])

    def _takes_arguments(self, name: str) -> bool:
        return name in self.known and any(macro.is_function for macro in self.macros[name])

    def _alone(self, token: str) -> int:
        """The length of a token that is no parameter: one, or that of a macro without arguments."""
        plain = token in self.known and any(not macro.is_function for macro in self.macros[token])
        return max(1, self.known[token][0]) if plain else 1

    def _close(self, calls: list[_Call]) -> None:
        """Put a use of a macro whose arguments are read into the text around it."""
        call = calls.pop()
        own, *times = self.known[call.macro]
        total = [own, *[0] * (len(call.parts[0]) - 1)]
        for k, part in enumerate(call.parts):
            often = times[min(k, len(times) - 1)] if times else 0  # what is too many belongs to the last, `...`,
            _add(total, 0, often if k >= len(times) else 0)  # with its commas
            for place, count in enumerate(part):
                _add(total, place, often * count)
        for place, count in enumerate(total):
            _add(calls[-1].parts[-1], place, count)


def _add(length: list[int], place: int, count: int) -> None:
    length[place] = min(length[place] + count, _ENDLESS)


def added_tokens(lines: Iterable[str]) -> int:
    """How many tokens a text gets by the expansion of its macros.

    `lines` are its logical ones, without comments. Both ways of an `#if` count, and of several definitions of a macro
    the longest.
    """
    lengths, text = _Lengths(), []
    for line in lines:
        if made := _DEFINE.match(line):
            params = tuple(_parameters(made["params"] or ""))
            macro = _Macro(params, tuple(_TOKEN.findall(made["body"])), made["params"] is not None)
            lengths.macros.setdefault(made["name"], []).append(macro)
        elif (other := _DIRECTIVE.match(line)) and other["word"] not in _EXPANDED:
            continue
        else:
            text += _TOKEN.findall(other["rest"] if other else line)
    if not lengths.macros:
        return 0
    lengths.settle()
    return lengths.of(text)[0] - len(text)


def _parameters(written: str) -> Iterator[str]:
    for name in filter(None, (part.strip() for part in written.strip("()").split(","))):
        yield "__VA_ARGS__" if name == "..." else name.removesuffix("...").strip()
