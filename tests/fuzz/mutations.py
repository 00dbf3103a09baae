"""Hostile PTX from real PTX: seeds, mutations that know the grammar, and instructions made up from the table of forms.

A case is a pure function of (mode, seed, number), so that a finding needs no more than its number to be repeated.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from pathlib import Path

from ptxsim.syntax.forms import FORMS, FormError, Need, UnknownForm, problem
from ptxsim.syntax.operands import SPECIAL_REGISTERS
from ptxsim.syntax.program import WIDTH_BITS, Immediate, Instruction
from ptxsim.texture import FIRST_HANDLE

DATA = Path(__file__).parents[1] / "sim" / "data"
REGRESSIONS = Path(__file__).parent / "regressions"

_ENTRY = re.compile(r"^(?:\.visible |\.weak )?\.(entry|func)\b", re.M)
_TOKEN = re.compile(r"\{[^{}]*\}|\[[^\][]*\]|[%$\w.]+|\S")
_OPERAND = re.compile(r"\{[^{}]*\}|\[[^\][]*\]|%[\w.]+|-?\b0[fdxX][0-9a-fA-F]+|-?\b\d+\b|\$\w+")
_OPCODE = re.compile(r"^(\s*(?:@!?%\w+\s+)?)([a-z]\w*)((?:\.[\w:]+)*)(.*)$", re.S)
_OWN = {1: "pred", 8: "b16", 16: "b16", 32: "b32", 64: "b64", 128: "b128"}
_PREFIX = {1: "%zp", 8: "%zh", 16: "%zh", 32: "%zr", 64: "%zd", 128: "%zq"}
_OWN_DECLARATIONS = [f"\t.reg .{kind} \t{_PREFIX[width]}<4>;" for width, kind in _OWN.items() if width != 8]

NUMBERS = (
    "0", "1", "-1", "2", "3", "7", "31", "32", "33", "63", "64", "65", "127", "128", "255", "256", "1023", "4095",
    "32767", "-32768", "65535", "65536", "2147483647", "-2147483648", "4294967295", "4294967296",
    "9223372036854775807", "-9223372036854775808", "18446744073709551615", "18446744073709551616",
    "340282366920938463463374607431768211456", "0x7fffffff", "0xffffffffffffffff", "0b1011", "0777", "1e400", "1.5",
    "0f3F800000", "0f7FC00000", "0fFF800000", "0f00000001", "0d3FF0000000000000", "0d7FF8000000000001", "0f", "0x", "-",
)  # fmt: skip
SYMBOLS = ("_", "WARP_SZ", "%envreg3", "%pm0", "nothing", "%", "$", "[", "]", "{", "}", "(", ")", "!", "|", "::", ",,")
DECLARATIONS = (
    ".shared .align 4 .b8 huge[4294967295];", ".shared .align 65536 .b8 far[16];", ".shared .align 3 .b8 odd[16];",
    ".shared .b8 minus[-1];", ".shared .b32 grid[65536][65536][65536];", ".local .align 16 .b8 deep[1073741824];",
    ".local .b8 large[524288];", ".local .b64 empty[0];", ".shared .b8 none[];", ".extern .shared .b8 late[];",
    ".reg .b32 %many<2147483648>;", ".reg .b32 %more<99999999999>;", ".reg .b8 %small;", ".reg .pred %p<3>;",
    ".reg .v4 .b32 %vector;", ".param .b8 block[99999999];", ".param .align 8 .b8 piece[24];", ".global .b32 g = 5;",
    ".global .b8 list[4] = {1, 2, 3, 4, 5};", ".global .b8 braces[4] = {{{{{{{{{{1}}}}}}}}}};",
    ".global .b64 where[2] = {nothing, generic(g)};", ".const .align 8 .b8 table[1099511627776];",
    ".global .f32 real = 1e99999;", ".local .v4 .f32 quad[4];", ".pragma \"nounroll\";", ".loc 99 1 1", ".loc 1 0 0",
    ".loc 1 4294967295 1, function_name $L__info, inlined_at 1 3 4", ".file 7 \"x\"", ".section .debug { }",
    ".branchtargets $L__BB0_1;", ".maxntid 0;", ".alias a, b;", ".weak .entry k() { ret; }",
)  # fmt: skip
HEAD_LINES = (
    ".version 99.9", ".target sm_10, debug", ".address_size 32", ".global .align 4 .b8 pool[9999999999];",
    ".const .b32 c[16] = {0xffffffffff, -1, 0f3F800000};", ".global .b8 text[6] = {104, 101, 108, 108, 111, 0};",
    ".func loop() { call loop, (); ret; }", ".func (.param .b32 r) f(.param .b64 a) { ret; }", ".entry twice() { ret; }",
    ".extern .func (.param .b32 func_retval0) vprintf(.param .b64 a, .param .b64 b);", ".visible .entry", ".tex .u64 t;",
)  # fmt: skip
_MODIFIERS = sorted({m for form in FORMS.values() for m in form.modifiers} | set(WIDTH_BITS) | {"foo", "cluster", "v3"})
_OPCODES = [*sorted(FORMS), "wgmma", "sured", "mma", "call", "elect", "ldmatrix", "bogus", "vadd", "mapa"]


class Seed:
    """One entry function of a PTX file with the lines before it that it may need."""

    def __init__(self, head: list[str], body: list[str]) -> None:
        self.head, self.body = head, body


def seeds(extra: tuple[str, ...] = (), *, most_lines: int = 400) -> list[Seed]:
    """Every entry function of the test data, of the regressions and of `extra` texts that is not too long."""
    texts = [path.read_text() for path in sorted(DATA.glob("*.ptx"))]
    texts += [path.read_text() for path in sorted(REGRESSIONS.glob("*.ptx"))]
    found = []
    for text in (*texts, *extra):
        starts = [m.start() for m in _ENTRY.finditer(text)]
        kinds = [m[1] for m in _ENTRY.finditer(text)]
        head = text[: starts[0]].splitlines() if starts else []
        parts = [text[a:b] for a, b in zip(starts, [*starts[1:], len(text)], strict=True)]
        functions = [line for part, kind in zip(parts, kinds, strict=True) if kind == "func" for line in _bare(part)]
        for part, kind in zip(parts, kinds, strict=True):
            lines = _bare(part)
            if kind == "entry" and len(lines) <= most_lines:
                called = "call" in part
                names = [line for line in head if not line.startswith("//")]
                found.append(Seed([*names, *(functions if called else ())], lines))
    return found


def _bare(text: str) -> list[str]:
    """Lines without debug sections and empty ones."""
    cut = text.split("\n\t.file", 1)[0].split("\n.section", 1)[0].split("\n\t.section", 1)[0]
    return [line for line in cut.splitlines() if line.strip() and not line.lstrip().startswith("//")]


def _is_instruction(line: str) -> bool:
    return line.rstrip().endswith(";") and not line.lstrip().startswith(".")


class Mutator:
    """Writes one hostile text."""

    def __init__(self, rng: random.Random, pool: list[Seed], *, gentle: bool) -> None:
        self.random, self.pool, self.gentle = rng, pool, gentle
        seed = rng.choice(pool)
        self.head, self.lines = list(seed.head), list(seed.body)

    def text(self) -> str:
        r = self.random
        kinds = self.gentle_kinds if self.gentle else self.all_kinds
        self.own_registers()
        for _ in range(r.choice((1, 1, 2, 3, 5) if self.gentle else (1, 2, 3, 6, 12))):
            r.choice(kinds)(self)
        text = "\n".join([*self.head, *self.lines]) + "\n"
        return text if self.gentle or r.random() < 0.85 else self.noise(text)

    # -- places -------------------------------------------------------------------------------------------------
    def inside(self) -> int:
        """A position between the function's braces."""
        start = next((k for k, line in enumerate(self.lines) if line.strip() == "{"), 0)
        return self.random.randint(start + 1, max(start + 1, len(self.lines) - 1))

    def an_instruction(self) -> int | None:
        found = [k for k, line in enumerate(self.lines) if _is_instruction(line)]
        return self.random.choice(found) if found else None

    def own_registers(self) -> None:
        for k, line in enumerate(self.lines):
            if line.strip() == "{":
                self.lines[k + 1 : k + 1] = _OWN_DECLARATIONS
                return

    def a_token(self) -> str:
        r = self.random
        if r.random() < 0.25:
            return r.choice(NUMBERS)
        if r.random() < 0.1:
            return r.choice(SYMBOLS)
        if r.random() < 0.1:
            return "%" + r.choice(sorted(SPECIAL_REGISTERS))
        for _ in range(5):
            found = _OPERAND.findall(r.choice(self.lines))
            if found:
                return r.choice(found)
        return "%zr0"

    # -- lines --------------------------------------------------------------------------------------------------
    def delete(self) -> None:
        if len(self.lines) > 3:
            del self.lines[self.inside() - 1]

    def repeat(self) -> None:
        k = self.inside() - 1
        times = self.random.choice((1, 1, 2, 5, 40) if self.gentle else (1, 2, 50, 1000))
        self.lines[k:k] = [self.lines[k]] * times

    def swap(self) -> None:
        a, b = self.inside() - 1, self.inside() - 1
        self.lines[a], self.lines[b] = self.lines[b], self.lines[a]

    def splice(self) -> None:
        other = self.random.choice(self.pool).body
        at = self.random.randrange(len(other))
        k = self.inside()
        self.lines[k:k] = other[at : at + self.random.randint(1, 6)]

    # -- instructions -------------------------------------------------------------------------------------------
    def operand(self) -> None:
        k = self.an_instruction()
        if k is None:
            return
        places = list(_OPERAND.finditer(self.lines[k]))
        if not places:
            return
        place, token, r = self.random.choice(places), self.a_token(), self.random
        forms = (token, token, token, f"[{token}]", f"[{token}+{r.choice(NUMBERS)}]", f"{{{token}, {token}}}", f"!{token}",
                 f"{token}|{token}", f"-{token}", f"{token}, {token}", "")  # fmt: skip
        self.lines[k] = self.lines[k][: place.start()] + r.choice(forms) + self.lines[k][place.end() :]

    def modifier(self) -> None:
        k = self.an_instruction()
        match = _OPCODE.match(self.lines[k]) if k is not None else None
        if k is None or match is None:
            return
        start, opcode, modifiers, rest = match.groups()
        parts, r = modifiers.split(".")[1:], self.random
        form = FORMS.get(opcode)
        own = sorted(form.modifiers | form.types) if form and r.random() < 0.8 else _MODIFIERS
        change = r.randrange(5)
        if change == 0 and parts:
            parts[r.randrange(len(parts))] = r.choice(own or _MODIFIERS)
        elif change == 1:
            parts.insert(r.randint(0, len(parts)), r.choice(own or _MODIFIERS))
        elif change == 2 and parts:
            del parts[r.randrange(len(parts))]
        elif change == 3:
            r.shuffle(parts)
        else:
            opcode = r.choice(_OPCODES)
        self.lines[k] = start + ".".join([opcode, *parts]) + rest

    def guard(self) -> None:
        k = self.an_instruction()
        if k is not None and "@" not in self.lines[k]:
            predicates = re.findall(r"%p\d+|%zp\d", "\n".join(self.lines)) or ["%zp0"]
            self.lines[k] = (
                f"\t@{self.random.choice(('', '!'))}{self.random.choice(predicates)} {self.lines[k].strip()}"
            )

    def invented(self) -> None:
        """An instruction that the table of forms accepts."""
        for _ in range(20):
            text = self.instruction()
            if text:
                k, object_ = self.inside(), re.search(r"\[(%zd\d), \{", text)
                self.lines.insert(k, text)
                if object_ and self.random.random() < 0.8:  # one of those that `cases` makes, or the next
                    self.lines.insert(k, f"\tmov.b64 {object_[1]}, {FIRST_HANDLE + self.random.randrange(12):#x};")
                return

    def instruction(self) -> str | None:
        r = self.random
        opcode = r.choice(sorted(FORMS))
        form = FORMS[opcode]
        count = r.choice(form.counts)
        if count and not form.types:
            return None
        types = [r.choice(sorted(form.types)) for _ in range(count)]
        extra = r.sample(sorted(form.modifiers), min(len(form.modifiers), r.choice((0, 0, 1, 1, 2, 2, 3))))
        modifiers = (*extra, *types)
        for number in r.sample(range(7), 7):
            try:
                needs = list(form.rule(Instruction(opcode, modifiers, (Immediate(0),) * number)))
            except (FormError, UnknownForm, KeyError, ValueError, IndexError):
                continue
            made = Instruction(opcode, modifiers, (Immediate(0),) * number)
            if len(needs) == number and (r.random() < 0.1 or not problem(made)):
                guard = r.choice(("", "", "", "@%zp0 ", "@!%zp1 "))
                return f"\t{guard}{'.'.join((opcode, *modifiers))} {', '.join(self.fitting(n) for n in needs)};"
        return None

    def fitting(self, need: Need) -> str:
        r = self.random
        if need.role == "place":
            return f"[%zd{r.randrange(4)}, {self.fitting(Need('of', need.width, count=need.count, braces=True))}]"
        if need.count > 1 or need.braces:
            return "{" + ", ".join(self.fitting(Need(need.role, need.width)) for _ in range(need.count)) + "}"
        if need.role == "at":
            existing = [
                t for line in self.lines if "ld." in line or "st." in line for t in re.findall(r"\[[^]]+\]", line)
            ]
            made = f"[{r.choice(('%zr', '%zd'))}{r.randrange(4)}+{r.choice(NUMBERS[:22])}]"
            return r.choice([made, *(existing[:6] * 2)])
        if need.role == "number":
            return r.choice(("0", "1", "4", "8", "16", "128", *NUMBERS[:12]))
        width = min((w for w in _PREFIX if w >= need.width), default=128)
        own = f"{_PREFIX[width]}{r.randrange(4)}"
        if need.role == "of" and r.random() < 0.3 and need.width > 1:
            return r.choice((*NUMBERS[:24], "%tid.x", "%laneid", "%clock64", "0f3F800000", "0d7FF8000000000001"))
        if need.role == "to" and need.beside and r.random() < 0.4:
            return f"{own}|%zp{r.randrange(4)}"
        return own if r.random() < 0.97 else "_"

    # -- structure ----------------------------------------------------------------------------------------------
    def branch(self) -> None:
        r = self.random
        labels = re.findall(r"^\s*(\$\w+):", "\n".join(self.lines), re.M)
        fresh = f"$Z{r.randrange(100)}"
        if not labels or r.random() < 0.4:
            self.lines.insert(self.inside(), f"{fresh}:")
            labels.append(fresh)
        guard = r.choice(("", "@%zp0 ", "@!%zp1 ", "@%zp2 "))
        self.lines.insert(self.inside(), f"\t{guard}bra{r.choice(('', '.uni'))} {r.choice(labels)};")

    def condition(self) -> None:
        r = self.random
        test = f"\tsetp.{r.choice(('lt', 'eq', 'gt'))}.u32 %zp{r.randrange(3)}, {r.choice(('%zr0', '%zr1'))}, {r.randrange(40)};"
        value = f"\tmov.u32 {r.choice(('%zr0', '%zr1'))}, {r.choice(('%tid.x', '%laneid', '%ctaid.x', '%clock'))};"
        k = self.inside()
        self.lines[k:k] = [value, test]

    def table(self) -> None:
        labels = re.findall(r"^\s*(\$\w+):", "\n".join(self.lines), re.M) or ["$nowhere"]
        count = self.random.choice((1, 2, 8, 400 if not self.gentle else 30))
        targets = ", ".join(self.random.choice(labels) for _ in range(count))
        k, name = self.inside(), f"ts{self.random.randrange(1000)}"
        self.lines[k:k] = [f"{name}: .branchtargets {targets};", f"\tbrx.idx %zr0, {name};"]

    def scopes(self) -> None:
        depth = self.random.choice((1, 3, 255, 300, 5000))
        k = self.inside()
        self.lines[k:k] = ["{" * depth, "\t.reg .b32 %zr<2>;", "}" * (depth - (self.random.random() < 0.3))]

    def declaration(self) -> None:
        self.lines.insert(self.inside(), "\t" + self.random.choice(DECLARATIONS))

    def head_line(self) -> None:
        self.head.insert(self.random.randint(0, len(self.head)), self.random.choice(HEAD_LINES))

    def call(self) -> None:
        forms = ("call loop, ();", "call (%zr0), f, (%zd0);", "call.uni (retval0), vprintf, (param0, param1);", "call %zd0, ();",
                 "call (%zr0), vprintf, (%zd0, %zd1);", "call.uni nothing;", "call f, f, f, f;")  # fmt: skip
        self.lines.insert(self.inside(), "\t" + self.random.choice(forms))

    def long_token(self) -> None:
        r = self.random
        piece = r.choice(
            (
                "a",
                "%",
                "$x",
                "{",
                "(",
                "[",
                "1",
                "-",
                "!",
                "0x1",
                ".b32",
                "/*",
                "//",
                '"',
                "\\",
                ", ",
                "\t",
                "é",
                "+",
                "|",
            )
        )
        tail = r.choice(("", ";", ": ;", "}", "*/"))
        self.lines.insert(
            self.inside(),
            r.choice(("", "add.u32 %zr0, ", "ld.u32 ", ".reg .b32 ", "@")) + piece * r.choice((50, 3000)) + tail,
        )

    def noise(self, text: str) -> str:
        r = self.random
        for _ in range(r.choice((1, 3, 20))):
            k = r.randrange(len(text))
            c = r.choice(
                (chr(r.randrange(32, 127)), r.choice('{}[]();,."/*\n%$@!:<>\0'), chr(r.randrange(0x20, 0xD000)), "")
            )
            text = text[:k] + c + text[k + r.randint(0, 3) :]
        return text[: r.randrange(len(text))] if r.random() < 0.2 else text

    gentle_kinds: tuple[Callable[[Mutator], None], ...] = (
        delete, repeat, swap, splice, operand, operand, modifier, modifier, guard, invented, invented, invented, invented,
        branch, condition, condition, declaration, table,
    )  # fmt: skip
    all_kinds: tuple[Callable[[Mutator], None], ...] = (
        *gentle_kinds, scopes, declaration, head_line, call, long_token, branch, operand, modifier,
    )  # fmt: skip


def hostile_text(mode: str, seed: int, number: int, pool: list[Seed]) -> str:
    """The text of a case."""
    return Mutator(random.Random(f"{mode} {seed} {number}"), pool, gentle=mode == "launch").text()
