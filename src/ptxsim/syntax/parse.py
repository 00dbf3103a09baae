"""PTX text to a `PtxFile`.

One regular expression reads a statement at a time; operands are read once per distinct text and scope. PTX may come
from inline assembly and is hostile input: every pattern is possessive (no backtracking), nothing recurses, and whatever
cannot be read raises PtxSyntaxError with its line. Instructions that the simulator does not know are kept by name and
refused when a kernel that uses them is built, so that the other kernels of the file still run.
"""

from __future__ import annotations

import math
import re
from dataclasses import replace

from ptxsim.errors import PtxSyntaxError
from ptxsim.syntax.operands import (
    Names,
    OperandError,
    Scope,
    check_register_type,
    decimal_bits,
    parameters,
    variables,
)
from ptxsim.syntax.program import (
    Function,
    Guard,
    Immediate,
    Instruction,
    Operand,
    PtxFile,
    Register,
    SourceLine,
    Symbol,
    Vector,
)
from ptxsim.syntax.refusals import refusal
from ptxsim.syntax.video import VIDEO, split_selector

_WORD = re.compile(r"\s*+(\.?[\w$%]++|.)", re.ASCII)
_LINE = re.compile(r"[^\n]*+")
_FILE_LINE = re.compile(r'\s*+\d{1,9}\s++"[^"\n]*+"[^\n]*+', re.ASCII)
_FUNCTION = re.compile(
    r"\s*+(?:\.attribute\s*+\([^)]*+\)\s*+)?(?:\(([^)]*+)\)\s*+)?([A-Za-z_$%][\w$]*+)\s*+(?:\(([^)]*+)\))?", re.ASCII
)
_NUMBERS = re.compile(r"\s*+(\d{1,9})(?:\s*+,\s*+(\d{1,9}))?(?:\s*+,\s*+(\d{1,9}))?", re.ASCII)


def parse(text: str) -> PtxFile:
    """Parses a PTX file. Raises PtxSyntaxError."""
    return _ModuleReader(text).module()


# ---------------------------------------------------------------- the text


_COMMENT = re.compile(r'"[^"\n]*+"|//[^\n]*+|/\*(?:[^*]|\*(?!/))*+(?:\*/)?')
_FILE = re.compile(r'\.file\s++(\d{1,9})\s++"([^"\n]*+)"', re.ASCII)
_UNTIL = {end: re.compile(rf'((?:[^"{end}]|"[^"]*+")*+){end}') for end in (";", "{", "}")}
_UNCLOSED = "\n/*"


def _without_comments(text: str) -> str:
    """The text with comments blanked; line breaks stay, so that lines keep their numbers."""

    def blank(match: re.Match[str]) -> str:
        found = match[0]
        if found[0] == '"':
            return found
        if found[1] == "/":
            return " "
        return "\n" * found.count("\n") + ("" if found.endswith("*/") and len(found) > 3 else _UNCLOSED)

    return _COMMENT.sub(blank, text) if "/" in text else text


class _ModuleReader:
    """A PTX text without its comments, read from front to back.

    `source` is the line of CUDA C++ that the last `.loc` named.
    """

    def __init__(self, text: str) -> None:
        self.position = 0
        self.source = SourceLine()
        self.result = PtxFile({}, {}, {})
        self.symbols: dict[str, object] = {}
        self._counted_to = 0
        self._line = 1
        self.text = _without_comments(text)
        if self.text.endswith(_UNCLOSED):
            raise self.error("a comment is not closed", len(self.text))

    def line_at(self, position: int) -> int:
        """PTX line of a position; positions only ever grow."""
        self._line += self.text.count("\n", self._counted_to, position)
        self._counted_to = max(self._counted_to, position)
        return self._line

    def files(self) -> dict[int, str]:
        """The names that `.file` directives give to numbers; they stand at the end of the file as a rule."""
        return {int(number): name for number, name in _FILE.findall(self.text)}

    def error(self, what: str, position: int) -> PtxSyntaxError:
        return self.error_on_line(what, self.line_at(position))

    def error_on_line(self, what: str, line: int) -> PtxSyntaxError:
        return PtxSyntaxError(
            f"PTX line {line}: {what}",
            file=self.files().get(self.source.file, ""),
            line=self.source.line,
            next_step="The simulator reads the PTX that NVRTC writes; look at inline assembly on this line.",
        )

    def shown(self, position: int) -> str:
        """The next few characters, for messages."""
        return " ".join(self.text[position : position + 60].split())[:40]

    def take(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        """Passes over what `pattern` matches here."""
        match = pattern.match(self.text, self.position)
        if match is not None:
            self.position = match.end()
        return match

    def take_until(self, end: str, what: str) -> str:
        """The text up to `end`, one of `;{}`, which is passed over; those in strings do not count."""
        start = self.position
        match = self.take(_UNTIL[end])
        if match is None:
            raise self.error(f"{what} does not end with '{end}'", start)
        return match[1]

    # ---------------------------------------------------------------- the file

    def module(self) -> PtxFile:
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
            if self.take(_FILE_LINE) is None:
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
            params, returns = parameters(params_text), parameters(returns_text)
        except OperandError as e:
            raise self.error(str(e), start) from None
        function = Function(name, is_entry, params, returns)
        self.symbols[name] = function
        if self.function_directives(function):
            if name in self.result.functions:
                raise self.error(f"function '{name[:40]}' is defined twice", start)
            self.result.functions[name] = function
            try:
                body = _Body(self, function)
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
                sides = tuple(int(n) if n else 1 for n in numbers.groups())
                if word in (".maxntid", ".reqntid"):
                    function.max_threads = math.prod(sides)
                elif word == ".reqnctapercluster":
                    function.cluster = sides[0], sides[1], sides[2]
            elif word not in (".noreturn", ".explicitcluster", ".abi_preserve", ".unique"):
                raise self.error(f"cannot read '{self.shown(start)}'", start)


# ---------------------------------------------------------------- a function's body


MAX_REGISTERS_IN_RANGE = 1 << 31
MAX_INLINE_DEPTH = 64
"""How many calls inlined into each other are followed to find a line."""

_STATEMENT = re.compile(
    r"""\s*+(?:
      \.loc\s++([^\n;]*+)
    | ([A-Za-z_$%][\w$]*+)\s*+:(?!:)\s*+
    | (?:@(!?)\s*+([A-Za-z_$%][\w$]*+)\s*+)?([a-z][\w.:]*+)([^;]*+);
    | ([{}])
    | \.([a-z_]\w*+)
    )""",
    re.ASCII | re.VERBOSE,
)
_LOC, _LABEL, _NEGATED, _GUARD, _OPCODE, _OPERANDS, _BRACE, _DIRECTIVE = range(1, 9)
_LOCATION = re.compile(
    r"(\d{1,9})\s++(\d{1,9})\s++(\d{1,9})(?:[^\n;]*?inlined_at\s++(\d{1,9})\s++(\d{1,9})\s++(\d{1,9}))?", re.ASCII
)
_PIECE = re.compile(r"\s*+(\{[^}]*+\}(?:\s*+\|[^,{}()|]++)?+|\([^)]*+\)|\[[^\]]*+\]|[^,{}()]++|)(\s*+,|\s*+\Z)")
_REGISTERS = re.compile(r"\s*+([A-Za-z_$%][\w$]*+)\s*+(?:<\s*+(\d{1,10})\s*+>\s*+)?(,|\Z)", re.ASCII)
_VARIABLE_SPACES = frozenset({"global", "const", "shared", "local", "param"})


class _Body:
    """Reads the statements between a function's braces."""

    def __init__(self, reader: _ModuleReader, function: Function) -> None:
        self.reader = reader
        self.function = function
        self.names = Names(reader.symbols)
        self.body = function.body
        self.opcodes: dict[str, tuple[str, tuple[str, ...], bool]] = {}
        self.pending: list[tuple[int, Scope, tuple[str, ...]]] = []
        self.tables: dict[str, tuple[str, ...]] = {}
        self.line = 0
        self.home_file = 0
        self.inlined: dict[tuple[int, int, int], tuple[int, int, int] | None] = {}
        reader.source = SourceLine()
        for p in (*function.params, *function.returns):
            self.names.declare_symbol(p.name)

    def read(self) -> None:
        reader, text = self.reader, self.reader.text
        position = reader.position
        while True:
            match = _STATEMENT.match(text, position)
            if match is None:
                raise reader.error(f"cannot read '{reader.shown(position)}'", position)
            kind = match.lastindex or 0
            position = match.end()
            try:
                if kind == _OPERANDS:
                    self.instruction(match)
                    continue
                reader.position = position
                if kind == _LOC:
                    self.location(match[_LOC])
                elif kind == _LABEL:
                    self.label(match[_LABEL])
                elif kind == _DIRECTIVE:
                    self.directive(match[_DIRECTIVE])
                elif match[_BRACE] == "{":
                    if not self.names.push():
                        raise OperandError("blocks are nested too deep")
                elif not self.names.pop():
                    break
                position = reader.position
            except OperandError as e:
                raise reader.error(str(e), match.start(kind)) from None
        self.resolve_targets()
        self.function.registers = self.names.registers

    # ---------------------------------------------------------------- instructions

    def instruction(self, match: re.Match[str]) -> None:
        _, _, negated, guard_name, opcode_text, operand_text, _, _ = match.groups()
        found = self.opcodes.get(opcode_text)
        if found is None:
            name, *parts = opcode_text.split(".")
            known = refusal(Instruction(name, tuple(parts), ())) is None
            found = self.opcodes[opcode_text] = name, tuple(parts), known
        opcode, modifiers, known = found
        names = self.names
        guard = None
        if guard_name is not None:
            guard = Guard(self.predicate(guard_name).name, negated == "!")
        reader = self.reader
        self.line = line = reader.line_at(match.start(_OPCODE))
        operands: tuple[Operand, ...]
        selectors: tuple[str, ...] = ()
        if opcode in ("bra", "brx"):
            operands = self.branch(opcode, operand_text)
        elif opcode == "call":
            operands = self.call(operand_text)
        elif not known:
            operands = ()  # refused when a kernel that uses it is built
        elif opcode in VIDEO:
            pairs = [split_selector(piece) for piece in _pieces(operand_text)]
            operands = tuple([self.operand(piece, modifiers) for piece, _ in pairs])
            selectors = tuple([selector for _, selector in pairs])
        else:
            cache = names.scope.cache
            try:
                operands = tuple([cache[piece] for piece in _pieces(operand_text)])
            except KeyError:
                operands = tuple([self.operand(piece, modifiers) for piece in _pieces(operand_text)])
        if opcode in ("ld", "st") and "{" in operand_text:  # a vector of one is its element: so Triton writes it
            operands = tuple([o.elements[0] if isinstance(o, Vector) and len(o.elements) == 1 else o for o in operands])
        made = Instruction(opcode, modifiers, operands, guard, reader.source, line)
        self.body.append(replace(made, selectors=selectors) if any(selectors) else made)

    def operand(self, piece: str, modifiers: tuple[str, ...]) -> Operand:
        if piece[:1] == "!":
            return self.negated(piece[1:].strip())
        try:
            return self.names.operand(piece)
        except OperandError:
            type_name = "f32" if "fractional" in modifiers else modifiers[-1] if modifiers else ""
            bits = decimal_bits(piece, type_name)
            if bits is not None:
                return Immediate(bits)
            inner = piece[1:-1]
            if f"{{{inner}}}" != piece or "{" in inner:
                raise
            return Vector(tuple([self.operand(part.strip(), modifiers) for part in inner.split(",")]))

    def predicate(self, name: str) -> Register:
        register = self.names.operand(name)
        if not isinstance(register, Register) or self.names.registers[register.name] != "pred":
            raise OperandError(f"'{name[:40]}' is no predicate register")
        return register

    def negated(self, name: str) -> Operand:
        """`!%p` as a source: an inserted `not.pred` gives it a register of its own."""
        register = self.predicate(name)
        inverse = Register(self.names.unique("%not."))
        self.names.registers[inverse.name] = "pred"
        self.body.append(Instruction("not", ("pred",), (inverse, register), None, self.reader.source, self.line))
        return inverse

    def branch(self, opcode: str, text: str) -> tuple[Operand, ...]:
        pieces = _pieces(text)
        if len(pieces) != (1 if opcode == "bra" else 2):
            raise OperandError(f"cannot read the branch to '{text.strip()[:40]}'")
        wanted = (pieces[0],) if opcode == "bra" else ("", pieces[1])
        self.pending.append((len(self.body), self.names.scope, wanted))
        return () if opcode == "bra" else (self.names.operand(pieces[0]),)

    def call(self, text: str) -> tuple[Operand, ...]:
        """Operands of a call: returned values, callee, arguments, and for indirect calls the prototype's name."""
        pieces = _pieces(text)
        returned = _parenthesised(pieces.pop(0)) if pieces and pieces[0].startswith("(") else []
        if not pieces:
            raise OperandError("a call names no function")
        callee = self.names.operand(pieces.pop(0))
        arguments = _parenthesised(pieces.pop(0)) if pieces and pieces[0].startswith("(") else []
        if len(pieces) > 1 or any(piece not in self.tables for piece in pieces):
            raise OperandError(f"cannot read the call '{' '.join(text.split())[:60]}'")
        read = self.names.operand
        return (
            Vector(tuple([read(r) for r in returned])),
            callee,
            Vector(tuple([read(a) for a in arguments])),
            *[Symbol(piece) for piece in pieces],
        )

    # ---------------------------------------------------------------- labels

    def label(self, name: str) -> None:
        text, reader = self.reader.text, self.reader
        if text.startswith((".branchtargets", ".calltargets", ".callprototype"), reader.position):
            declaration = reader.take_until(";", "a table")
            targets = declaration.split(None, 1)[1:]
            self.tables[name] = tuple(_pieces(targets[0])) if targets and declaration[1] == "b" else ()
            return
        scope = self.names.scope
        if name in scope.labels.maps[0]:
            raise OperandError(f"label '{name[:40]}' is declared twice")
        scope.labels[name] = final = self.names.unique(name + ":")
        self.body.append(final)

    def resolve_targets(self) -> None:
        """Gives branches their targets: a label means the one of the innermost block around the branch."""
        for place, scope, wanted in self.pending:
            branch = self.body[place]
            assert isinstance(branch, Instruction)
            names = wanted if wanted[0] else self.tables.get(wanted[1], ())
            targets = []
            for name in names:
                if name not in scope.labels:
                    raise self.lost(branch, name)
                targets.append(scope.labels[name])
            if not targets:
                raise self.lost(branch, wanted[-1])
            self.body[place] = replace(branch, targets=tuple(targets))

    def lost(self, branch: Instruction, name: str) -> PtxSyntaxError:
        self.reader.source = branch.source
        return self.reader.error_on_line(f"there is no label '{name[:40]}'", branch.ptx_line)

    # ---------------------------------------------------------------- directives

    def location(self, text: str) -> None:
        """`.loc file line column`: the innermost place in the function's own file, seen from the inlined code out."""
        match = _LOCATION.match(text)
        if match is None:
            raise OperandError(f"cannot read '.loc {text[:40]}'")
        file, line, column, *outer = (int(group) if group else 0 for group in match.groups())
        place = (file, line, column)
        call = (outer[0], outer[1], outer[2]) if outer[0] else None
        if call is None and not self.home_file:
            self.home_file = file
        if call != place:
            self.inlined[place] = call
        for _ in range(MAX_INLINE_DEPTH):
            if file == self.home_file or call is None:
                break
            file, line, _ = call
            call = self.inlined.get(call)
        if line:
            self.reader.source = SourceLine(file, line, self.calls(call))

    def calls(self, call: tuple[int, int, int] | None) -> tuple[int, ...]:
        """Lines of the function's own file that a place was inlined at, the nearest first."""
        lines: list[int] = []
        for _ in range(MAX_INLINE_DEPTH):
            if call is None:
                break
            lines += [call[1]] if call[0] == self.home_file else []
            call = self.inlined.get(call)
        return tuple(lines)

    def directive(self, word: str) -> None:
        reader = self.reader
        if word == "reg":
            self.registers(reader.take_until(";", ".reg"))
        elif word in _VARIABLE_SPACES:
            self.variables(word, reader.take_until(";", "a variable"))
        elif word == "pragma":
            reader.take_until(";", ".pragma")
        else:
            raise OperandError(f"cannot read '.{word[:40]}'")

    def registers(self, text: str) -> None:
        head = re.match(r"\s*+\.(\w++)\s++", text, re.ASCII)
        if head is None:
            raise OperandError("cannot read '.reg'")
        type_name, position = head[1], head.end()
        check_register_type(type_name)
        while True:
            match = _REGISTERS.match(text, position)
            if match is None:
                raise OperandError(f"cannot read '.reg {' '.join(text.split())[:40]}'")
            name, count, more = match.groups()
            if count is None:
                self.names.declare_register(name, type_name)
            elif int(count) > MAX_REGISTERS_IN_RANGE:
                raise OperandError(f"{count} registers are too many")
            else:
                self.names.declare_range(name, type_name, int(count))
            if not more:
                return
            position = match.end()

    def variables(self, space: str, text: str) -> None:
        static = space in ("global", "const")
        found = variables(
            text,
            space,
            external=False,
            name_of=self.static_name if static else self.names.declare_symbol,
            is_symbol=self.reader.symbols.__contains__,
        )
        home = self.reader.result.globals if static else self.function.variables
        home.update({v.name: v for v in found})

    def static_name(self, name: str) -> str:
        """Name among the module's variables for a .global or .const variable declared inside the function."""
        final = f"{self.function.name}.{self.names.declare_symbol(name)}"
        self.names.scope.names[name] = Symbol(final)
        return final


def _pieces(text: str) -> list[str]:
    """Splits operands at commas outside braces, brackets and parentheses."""
    if "{" not in text and "(" not in text:
        return [piece.strip() for piece in text.split(",")] if text.strip() else []
    pieces, position = [], 0
    while True:
        match = _PIECE.match(text, position)
        if match is None:
            raise OperandError(f"cannot read the operands '{' '.join(text[:80].split())[:60]}'")
        pieces.append(match[1].strip())
        position = match.end()
        if match[2].strip() != ",":
            return pieces


def _parenthesised(piece: str) -> list[str]:
    return [part.strip() for part in piece[1:-1].split(",")] if piece[1:-1].strip() else []
