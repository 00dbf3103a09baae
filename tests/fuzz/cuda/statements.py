"""Writes statements that each thread executes for itself: control flow that parts lanes, arrays, structs, calls."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from .expressions import Expressions
from .tables import HALVES, KINDS


@dataclass(frozen=True)
class Callee:
    """A function that may be called: its name, the letters of its result and parameters, what stands behind these."""

    name: str
    result: str
    parameters: str
    behind: str = ""


class Statements(Expressions):
    """A function's body. `room` is how many more statements it may have."""

    def __init__(
        self, rng: random.Random, letters: str, callees: list[Callee], *, exact: bool, room: int
    ) -> None:
        super().__init__(rng, letters, exact=exact)
        self.lines: list[str] = []
        self.callees, self.room = callees, room
        self.depth = self.loops = self.count = 0
        self.in_loop: list[str] = []
        """What is around: "loop", "switch", or "barriers" for a loop that all threads of the block must go through."""
        self.left = ""
        """What `return` is to say where one may stand anywhere: an expression's letter, or "" for nowhere."""

    # ------------------------------------------------------------ lines and scopes

    def emit(self, text: str) -> None:
        self.lines.append("    " * (self.depth + 1) + text)

    def fresh(self, stem: str) -> str:
        self.count += 1
        return f"{stem}{self.count}"

    def declare(self, letter: str, value: str) -> str:
        """A new variable in scope."""
        name = self.fresh("v")
        self.emit(f"{KINDS[letter].name} {name} = {value};")
        self.names[letter].append(name)
        return name

    @contextmanager
    def scope(self, head: str, tail: str = "}") -> Iterator[None]:
        """Braces; what is declared within is forgotten behind them."""
        known = {letter: list(names) for letter, names in self.names.items()}
        self.emit(head)
        self.depth += 1
        yield
        self.depth -= 1
        self.emit(tail)
        self.names = known

    def body(self, most: int = 2) -> None:
        for _ in range(self.random.randint(1, most)):
            self.statement()

    def letter(self) -> str:
        return self.random.choice(self.letters)

    def assign(self) -> None:
        letter = self.letter()
        self.emit(f"{self.name(letter)} = {self.value(letter, self.random.choice((1, 2, 2, 3)))};")

    # ------------------------------------------------------------ which statement

    def statement(self) -> None:
        self.room -= 1
        if self.room < 0 or self.depth > 3:
            self.assign()
            return
        ways = list(self.local_ways)
        if self.loops > 1:
            ways = [way for way in ways if way not in _LOOPING]
        self.random.choice(ways)(self)

    def if_(self) -> None:
        with self.scope(f"if ({self.condition()}) {{"):
            self.body()
            self.leave()
        if self.random.random() < 0.5:
            with self.scope("else {"):
                self.body()

    def switch(self) -> None:
        r = self.random
        self.emit(f"switch ({self.value('u', 1)} % {r.randint(3, 9)}u) {{")
        self.in_loop.append("switch")
        for case in range(r.randint(2, 6)):
            with self.scope(f"case {case}: {{", "}" + r.choice((" break;", " break;", " [[fallthrough]];"))):
                self.body(1)
        with self.scope("default: {", "}"):
            self.body(1)
        self.in_loop.pop()
        self.emit("}")

    def for_(self) -> None:
        k, bound = self.fresh("k"), self.trips()
        unroll = self.random.choice(("", "", "#pragma unroll 1", "#pragma unroll", "#pragma unroll 2"))
        if unroll:
            self.emit(unroll)
        with self.loop(f"for (unsigned {k} = 0; {k} < {bound}; ++{k}) {{"):
            self.declare("u", f"{k} * {self.random.randint(1, 9)}u")
            self.body()
            self.leave()
            self.body(1)

    def while_(self) -> None:
        """A loop that something computed in it ends, after a bounded number of rounds."""
        k, bound = self.fresh("k"), self.trips()
        self.emit(f"unsigned {k} = {bound};")
        if self.random.random() < 0.5:
            with self.loop(f"while ({k}-- > 0u && !({self.condition()})) {{"):
                self.body()
                self.leave()
        else:
            with self.loop("do {", f"}} while ({k}-- > 0u && ({self.condition()}));"):
                self.body()
                self.leave()

    @contextmanager
    def loop(self, head: str, tail: str = "}") -> Iterator[None]:
        self.loops += 1
        self.in_loop.append("loop")
        with self.scope(head, tail):
            yield
        self.in_loop.pop()
        self.loops -= 1

    def trips(self) -> str:
        counted = f"({self.value('u', 1)} & 7u)", f"({self.name('u')} & 3u)"
        return self.random.choice(("3u", "(t % 5u)", "(t / 16u + 1u) % 6u", *counted))

    def leave(self) -> None:
        """Now and then a way out: break, continue, return."""
        r = self.random
        ways = [f"{word};" for word in ("break", "continue") if self.in_loop and self.in_loop[-1] == "loop"]
        if self.left:
            ways.append(f"return {self.value(self.left, 1)};")
        if ways and r.random() < 0.4:
            self.emit(f"if ({self.condition()}) {r.choice(ways)}")

    def goto(self) -> None:
        """Out of two loops at once."""
        label, a, b = self.fresh("out"), self.fresh("k"), self.fresh("k")
        with self.scope("{"):
            with self.loop(f"for (unsigned {a} = 0; {a} < 3u; ++{a}) {{"):
                with self.loop(f"for (unsigned {b} = 0; {b} < {self.trips()}; ++{b}) {{"):
                    self.assign()
                    self.emit(f"if ({self.condition()}) goto {label};")
                self.assign()
            self.emit(f"{label}:;")

    # ------------------------------------------------------------ memory of a thread's own

    def array(self) -> None:
        """A local array that is filled, written and read at computed places."""
        letter, size = self.letter(), self.random.choice((4, 8, 16))
        a, k, kind = self.fresh("a"), self.fresh("k"), KINDS[letter]
        with self.scope("{"):
            self.emit(f"{kind.name} {a}[{size}];")
            self.emit(f"for (unsigned {k} = 0; {k} < {size}u; ++{k}) {a}[{k}] = {self.value(letter, 1)};")
            for _ in range(self.random.randint(1, 3)):
                self.emit(f"{a}[{self.value('u', 1)} & {size - 1}u] = {self.value(letter, 1)};")
                self.statement()
            self.emit(f"{self.name(letter)} = {a}[{self.value('u', 1)} & {size - 1}u];")
            if letter in "uilqwsyg":
                self.emit(f"{self.name('u')} += sum_of({a}, {size});")

    def struct(self) -> None:
        """A struct by value and by reference through functions."""
        r, s = self.random, self.fresh("s")
        with self.scope("{"):
            fields = ", ".join(self.value(k, 1) for k in "iswfqyu")
            self.emit(f"Mixed {s} = mixed_of({fields});")
            self.emit(f"{s}.words[{self.value('u', 1)} % 3u] = {self.value('s', 1)};")
            self.emit(f"{s}.low = {self.value('u', 1)} & 31u; {s}.high += {self.value('u', 1)} & 7u;")
            change = r.choice(("change({0}, {1});", "{0} = changed({0}, {1});"))
            self.emit(change.format(s, self.value("u", 1)))
            self.statement()
            if r.random() < 0.4:
                self.emit(f"Mixed {s}b[3] = {{{s}, changed({s}, 5u), {s}}};\n")
                self.emit(f"{s} = {s}b[{self.value('u', 1)} % 3u];")
            self.emit(f"{self.name('u')} ^= digest_of({s});")

    def vector(self) -> None:
        """A load of two or four values at once."""
        r = self.random
        name, array, count, letter, parts = r.choice([form for form in _VECTORS if form[3] in self.letters])
        v, load = self.fresh("v"), f"reinterpret_cast<const {name}*>({array})"
        index = f"{self.value('u', 1)} % {count}u"
        form = r.choice(("{0}[{1}]", "{0}[{1}]", "__ldg({0} + {1})", "__ldcs({0} + {1})"))
        with self.scope("{"):
            self.emit(f"const {name} {v} = {form.format(load, index)};")
            for part in r.sample(parts, 2):
                self.emit(f"{self.name(letter)} = {v}.{part};")

    def call(self) -> None:
        if not self.callees:
            self.assign()
            return
        callee = self.random.choice(self.callees)
        arguments = ", ".join(self.value(k, 1) for k in callee.parameters)
        self.emit(f"{self.name(callee.result)} = {callee.name}(g, {arguments}{callee.behind});")

    def block(self) -> None:
        """A scope with variables of its own, and a lambda now and then."""
        with self.scope("{"):
            letter = self.letter()
            self.declare(letter, self.value(letter))
            if self.random.random() < 0.4 and letter not in HALVES:
                f, kind = self.fresh("f"), KINDS[letter].name
                operation = "+" if letter in "fdq" else "^"
                self.emit(f"auto {f} = [&]({kind} z) {{ return ({kind})({self.value(letter, 1)} {operation} z); }};")
                self.emit(f"{self.name(letter)} = {f}({self.value(letter, 1)});")
            self.body()

    local_ways: tuple[Callable[[Statements], None], ...] = (
        assign, assign, assign, if_, if_, if_, switch, for_, for_, while_, array, struct, vector, call, call, block,
        goto,
    )  # fmt: skip


_VECTORS = (
    ("uint4", "x", 64, "u", "xyzw"), ("uint2", "x", 128, "u", "xy"), ("int4", "x", 64, "i", "xyzw"),
    ("float4", "fy", 64, "f", "xyzw"), ("float2", "fy", 128, "f", "xy"), ("double2", "dy", 64, "d", "xy"),
    ("ulonglong2", "x", 64, "q", "xy"), ("ushort4", "x", 128, "w", "xyzw"), ("char4", "x", 256, "g", "xyzw"),
    ("uchar2", "x", 512, "y", "xy"), ("short2", "x", 256, "s", "xy"),
)  # fmt: skip
"""type, array, how many there are of it, letter and names of its parts"""
_LOOPING = (Statements.for_, Statements.while_, Statements.call, Statements.goto)
_FIRST_LINES = """    unsigned t = g.t, lane = g.t & 31u;
    const unsigned* x = g.x;
    const float* fy = g.fy;
    const double* dy = g.dy;
    const Parameters& p = *g.p;
"""


@dataclass(frozen=True)
class Function:
    """A `__device__` function: its text, how it is called, and the instructions of `ASM` in it."""

    text: str
    callee: Callee
    used_asm: frozenset[str]


def function(rng: random.Random, number: int, letters: str, callees: list[Callee], *, exact: bool) -> Function:
    """A function of random parameters: inlined, called or a template, and one in four calls itself."""
    name, result = f"f{number}", rng.choice(letters)
    parameters = "".join(rng.choice(letters) for _ in range(rng.randint(1, 4)))
    recursive, is_template = rng.random() < 0.25, rng.random() < 0.25
    body = Statements(rng, letters, callees, exact=exact, room=rng.randint(2, 5))
    for n, letter in enumerate(parameters):
        body.names[letter].append(f"p{n}")
    for letter in letters:
        if letter not in parameters:
            body.declare(letter, body.value(letter, 1))
    body.left, body.loops = result, 1  # fewer rounds: who calls it may loop, too
    body.body(4)
    instance = f"{name}<N>" if is_template else name
    if recursive:
        arguments = ", ".join(body.value(k, 1) for k in parameters)
        call = f"{instance}(g, {arguments}, left - 1u)"
        body.emit(f"if (left > 0u && ({body.condition()})) {body.name(result)} = {call};")
        body.statement()
    body.emit(f"return {body.value(result, 2)};")
    inlining = "__noinline__ " if recursive else rng.choice(("__noinline__ ", "__noinline__ ", "__forceinline__ ", ""))
    head = f"{'template <unsigned N>' if is_template else ''}__device__ {inlining}{KINDS[result].name} {name}"
    typed = ", ".join(f"{KINDS[k].name} p{n}" for n, k in enumerate(parameters))
    first = _FIRST_LINES + ("    t += N;\n" if is_template else "")
    lines = "\n".join(body.lines)
    text = f"{head}(const Globals& g, {typed}{', unsigned left' if recursive else ''})\n{{\n{first}{lines}\n}}\n"
    called = f"{name}<{rng.randrange(40)}u>" if is_template else name
    callee = Callee(called, result, parameters, ", t & 3u" if recursive else "")
    return Function(text, callee, frozenset(body.used_asm))
