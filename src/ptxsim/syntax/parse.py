"""PTX text to a `Module`.

One regular expression reads a statement at a time; operands are read once per distinct text and scope. PTX may come
from inline assembly and is hostile input: every pattern is possessive (no backtracking), nothing recurses, and whatever
cannot be read raises PtxSyntaxError with its line. Instructions that the simulator does not know are kept by name and
refused when a kernel that uses them is built, so that the other kernels of the file still run.
"""

from __future__ import annotations

import re

from ptxsim.syntax.body import Body
from ptxsim.syntax.declarations import laid_out, parameter, variables
from ptxsim.syntax.operands import OperandError
from ptxsim.syntax.program import Function, Module, Param
from ptxsim.syntax.reader import Reader

_WORD = re.compile(r"\s*+(\.?[\w$%]++|.)", re.ASCII)
_LINE = re.compile(r"[^\n]*+")
_FILE = re.compile(r'\s*+\d{1,9}\s++"[^"\n]*+"[^\n]*+', re.ASCII)
_FUNCTION = re.compile(
    r"\s*+(?:\.attribute\s*+\([^)]*+\)\s*+)?(?:\(([^)]*+)\)\s*+)?([A-Za-z_$%][\w$]*+)\s*+(?:\(([^)]*+)\))?", re.ASCII
)
_NUMBERS = re.compile(r"\s*+(\d{1,9})(?:\s*+,\s*+(\d{1,9}))?(?:\s*+,\s*+(\d{1,9}))?", re.ASCII)


def parse(text: str) -> Module:
    """Parses a PTX file. Raises PtxSyntaxError."""
    return _Parser(text).module()


class _Parser(Reader):
    """One pass over a file."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.result = Module({}, {}, {})
        self.symbols: dict[str, object] = {}

    # ---------------------------------------------------------------- the file

    def module(self) -> Module:
        external = False
        while True:
            match = self.take(_WORD)
            if match is None:
                self.result.files.update(self.files())
                return self.result
            word, start = match[1], match.start(1)
            if word in (".visible", ".weak", ".common"):
                continue
            if word == ".extern":
                external = True
                continue
            if word in (".entry", ".func"):
                self.function(is_entry=word == ".entry")
            elif word in (".global", ".const", ".shared", ".tex"):
                self.module_variables(word[1:], external=external)
            elif word in (".version", ".target", ".address_size"):
                self.header_line(word[1:])
            else:
                self.other_directive(word, start)
            external = False

    def header_line(self, word: str) -> None:
        match = self.take(_LINE)
        value = match[0].strip() if match else ""
        if word == "version":
            self.result.version = value[:20]
        elif word == "target":
            self.result.target = value.split(",")[0].strip()[:20]
        elif value != "64":
            raise self.error("only 64-bit addresses are supported", self.position)

    def other_directive(self, word: str, start: int) -> None:
        if word == ".file":
            if self.take(_FILE) is None:
                raise self.error("cannot read '.file'", start)
        elif word == ".section":
            self.take_until("{", "a section")
            self.take_until("}", "a section")
        elif word in (".pragma", ".alias"):
            self.take_until(";", word)
        elif word in (".loc", "@"):  # "@@dwarf" lines of old compilers
            self.take(_LINE)
        elif word != ";":
            raise self.error(f"cannot read '{self.shown(start)}'", start)

    def module_variables(self, space: str, *, external: bool) -> None:
        start = self.position
        text = self.take_until(";", "a variable")
        try:
            found = variables(
                text,
                "global" if space == "tex" else space,
                external=external,
                name_of=lambda name: name,
                is_symbol=self.symbols.__contains__,
            )
        except OperandError as e:
            raise self.error(str(e), start) from None
        for v in found:
            previous = self.result.globals.get(v.name)
            if previous is None or previous.external:
                self.result.globals[v.name] = v
                self.symbols[v.name] = v
            elif not v.external:
                raise self.error(f"'{v.name[:40]}' is declared twice", start)

    def function(self, *, is_entry: bool) -> None:
        """A function's head, and its body if it has one."""
        start = self.position
        match = self.take(_FUNCTION)
        if match is None:
            raise self.error("cannot read the head of a function", start)
        returns_text, name, params_text = match.groups()
        try:
            params, _ = laid_out(_parameters(params_text))
            returns, _ = laid_out(_parameters(returns_text))
        except OperandError as e:
            raise self.error(str(e), start) from None
        function = Function(name, is_entry, params, returns)
        self.symbols[name] = function
        if self.function_directives(function):
            if name in self.result.functions:
                raise self.error(f"function '{name[:40]}' is defined twice", start)
            self.result.functions[name] = function
            try:
                body = Body(self, function, self.symbols, self.result.globals)
            except OperandError as e:
                raise self.error(str(e), start) from None
            body.read()

    def function_directives(self, function: Function) -> bool:
        """Reads `.maxntid` and its like; True if a body follows."""
        while True:
            match = self.take(_WORD)
            if match is None:
                raise self.error("a function has no body", self.position)
            word, start = match[1], match.start(1)
            if word in ("{", ";"):
                return word == "{"
            if word == ".pragma":
                self.take_until(";", ".pragma")
            elif word in (".maxntid", ".reqntid", ".minnctapersm", ".maxnreg", ".maxnctapersm", ".reqnctapercluster"):
                numbers = self.take(_NUMBERS)
                if numbers is None:
                    raise self.error(f"cannot read '{self.shown(start)}'", start)
                if word in (".maxntid", ".reqntid"):
                    x, y, z = (int(n) if n else 1 for n in numbers.groups())
                    function.max_threads = x * y * z
            elif word not in (".noreturn", ".explicitcluster", ".abi_preserve", ".unique"):
                raise self.error(f"cannot read '{self.shown(start)}'", start)


def _parameters(text: str | None) -> list[Param]:
    return [parameter(part) for part in text.split(",")] if text and text.strip() else []
