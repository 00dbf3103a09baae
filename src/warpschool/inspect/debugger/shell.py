"""The debugger's commands: text in, text and data out. `warpschool debug` and tests talk to it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from warpschool.errors import ArgumentError, WarpschoolError
from warpschool.inspect.debugger import pages
from warpschool.inspect.debugger.recording import Moment, Recording
from warpschool.suggest import did_you_mean


@dataclass(frozen=True)
class Reply:
    """The answer to a command: text, the same as plain data, whether it was an error, and whether to leave."""

    text: str
    data: dict[str, Any] = field(default_factory=dict)
    failed: bool = False
    leave: bool = False


@dataclass(frozen=True)
class Breakpoint:
    """Stops before `line`, where a condition holds in an active lane, if it has one."""

    line: int
    condition: str = ""


@dataclass(frozen=True)
class Command:
    """One command: its names, the longest first, what may follow, one line of help, and more of it."""

    names: tuple[str, ...]
    run: Callable[[Debugger, str], Reply]
    usage: str
    summary: str
    lesson: str = ""


class Debugger:
    """A place in a recording, breakpoints, and the commands that move and look.

    `record(block, warp)` makes another recording of the same kernel, for the commands `block` and `warp`.
    """

    def __init__(self, recording: Recording, record: Callable[[Any, int | None], Recording] | None = None) -> None:
        self.recording = recording
        self.record = record
        self.number = 0
        self.breakpoints: dict[int, Breakpoint] = {}
        self.last = ""

    @property
    def moment(self) -> Moment:
        return self.recording.at(self.number)

    @property
    def prompt(self) -> str:
        line = f"line {self.moment.line}" if self.moment.line else "end"
        return f"(warp {self.recording.warp}, {line}) "

    def execute(self, text: str) -> Reply:
        """Run one command; an empty one repeats the last that moved. Never raises: an error is a reply."""
        word, _, rest = text.strip().partition(" ")
        if not word:
            word, _, rest = (self.last or "where").partition(" ")
        command = _BY_NAME.get(word)
        if command is None:
            hint = did_you_mean(word, [c.names[0] for c in COMMANDS])
            return Reply(f"there is no command '{word}'. {hint} `help` lists all.", failed=True)
        if command.names[0] in _REPEATED:
            self.last = f"{word} {rest}".strip()
        try:
            return command.run(self, rest.strip())
        except WarpschoolError as error:
            text = f"{error.message}\n{error.next_step}" if error.next_step else error.message
            return Reply(text, {"error": error.message}, failed=True)

    # ---------------------------------------------------------------- moving

    def where(self, _rest: str = "") -> Reply:
        return Reply(pages.where(self.moment), pages.where_data(self.moment))

    def step(self, rest: str) -> Reply:
        return self._go(self.number + _count(rest))

    def back(self, rest: str) -> Reply:
        return self._go(self.number - _count(rest))

    def next(self, rest: str) -> Reply:
        before = self.number
        for _ in range(_count(rest)):
            self.number = self._after_calls(self.number)
        return self._arrived(before)

    def _after_calls(self, number: int) -> int:
        """The step after this one in the same function, or in the kernel that called it."""
        steps = self.recording.steps
        copy = steps[number].copy if number < len(steps) else ""
        for later in range(number + 1, len(steps)):
            if steps[later].copy in (copy, ""):
                return later
        return len(steps)

    def out(self, _rest: str) -> Reply:
        steps = self.recording.steps
        here = self.moment.step
        if here is None or not here.copy:
            return self._go(len(steps))
        leaves = (n for n in range(self.number + 1, len(steps)) if steps[n].copy != here.copy)
        return self._go(next(leaves, len(steps)))

    def resume(self, _rest: str) -> Reply:
        return self._go(self._find(range(self.number + 1, len(self.recording))), len(self.recording))

    def reverse(self, _rest: str) -> Reply:
        return self._go(self._find(range(self.number - 1, -1, -1)), 0)

    def goto(self, rest: str) -> Reply:
        if not rest.isdigit():
            raise ArgumentError("goto needs the number of a step", next_step=f"goto 0 to goto {len(self.recording)}")
        return self._go(int(rest))

    def _find(self, numbers: range) -> int | None:
        return next((n for n in numbers if self._stops(n)), None)

    def _stops(self, number: int) -> bool:
        found = self.breakpoints.get(self.recording.steps[number].line)
        if found is None or not found.condition:
            return found is not None
        try:
            values = pages.evaluate(found.condition, self.recording.at(number))
        except ArgumentError:  # a variable that does not exist yet
            return False
        return bool((values.array[values.shown] != 0).any())

    def _go(self, number: int | None, otherwise: int = 0) -> Reply:
        before = self.number
        missed = number is None and bool(self.breakpoints)
        target = otherwise if number is None else number
        self.number = min(max(target, 0), len(self.recording))
        return self._arrived(before, "No breakpoint was met. " if missed else "")

    def _arrived(self, before: int, said: str = "") -> Reply:
        moment = self.moment
        changed = pages.changed(self.recording.at(before), moment) if before < self.number else ""
        data = pages.where_data(moment)
        return Reply(said + pages.where(moment) + (f"\n{changed}" if changed else ""), data)

    # ---------------------------------------------------------------- breakpoints

    def stop_at(self, rest: str) -> Reply:
        if not rest:
            found = self.breakpoints.values()
            listed = [f"  line {b.line}" + (f" if {b.condition}" if b.condition else "") for b in found]
            text = "\n".join(["breakpoints:", *listed]) if listed else "no breakpoints. break LINE sets one."
            return Reply(text, {"breakpoints": sorted(self.breakpoints)})
        number, _, condition = rest.partition(" if ")
        line = self._line(number)
        lines = {step.line for step in self.recording.steps}
        if line not in lines:
            near = min(lines, key=lambda other: (abs(other - line), other), default=0)
            raise ArgumentError(f"this warp never comes to line {line}", next_step=f"The nearest line it does: {near}")
        self.breakpoints[line] = Breakpoint(line, condition.strip())
        times = sum(step.line == line for step in self.recording.steps)
        text = f"breakpoint at line {line}: {self.recording.source_line(line).strip()}"
        told = "once" if times == 1 else f"{times} times"
        return Reply(f"{text} ({told} in this recording)", {"line": line, "times": times})

    def delete(self, rest: str) -> Reply:
        if not rest:
            self.breakpoints.clear()
            return Reply("all breakpoints deleted")
        line = self._line(rest)
        if self.breakpoints.pop(line, None) is None:
            raise ArgumentError(f"there is no breakpoint at line {line}", next_step="break lists them.")
        return Reply(f"breakpoint at line {line} deleted")

    def _line(self, text: str) -> int:
        if not text.strip().isdigit():
            raise ArgumentError(f"'{text}' is no line number", next_step="For example: break 29, break 29 if k == 3")
        return int(text)

    # ---------------------------------------------------------------- looking

    def show(self, rest: str) -> Reply:
        if not rest:
            return self.locals("")
        expression, at, lane = rest.partition("@")
        values = pages.evaluate(expression, self.moment)
        data = pages.values_data(values, self.moment)
        if not at:
            return Reply(pages.values(values, self.moment), data)
        if not lane.strip().isdigit() or not 0 <= int(lane) < len(values.array):
            raise ArgumentError(f"'{lane.strip()}' is no lane", next_step="For example: print sum @ 5")
        text = data["values"][int(lane)]
        return Reply(f"{values.name} in lane {int(lane)} = {'no value' if text is None else text}", data)

    def locals(self, _rest: str) -> Reply:
        return Reply(pages.locals_table(self.moment), pages.locals_data(self.moment))

    def lanes(self, _rest: str) -> Reply:
        return Reply(pages.lanes(self.moment), pages.lanes_data(self.moment))

    def shared(self, rest: str) -> Reply:
        if not rest:
            return Reply(pages.shared_list(self.moment), {"arrays": [a.name for a in self.recording.shared]})
        return Reply(pages.shared_array(self.moment, rest), {"name": rest, "values": _plain(self.moment.shared(rest))})

    def touched(self, _rest: str) -> Reply:
        return Reply(pages.touched(self.moment), pages.touched_data(self.moment))

    def source(self, rest: str) -> Reply:
        line = self._line(rest) if rest else self.moment.line
        return Reply(pages.source(self.recording, line or self.recording.steps[-1].line, self.breakpoints))

    def hazards(self, _rest: str) -> Reply:
        found = self.recording.findings
        data = {"hazards": [{"kind": h.kind, "line": h.line, "message": h.message} for h in found]}
        return Reply(pages.hazards(self.recording), data)

    # ---------------------------------------------------------------- other warps

    def warp(self, rest: str) -> Reply:
        if not rest:
            return Reply(self.recording.title)
        if not rest.isdigit():
            raise ArgumentError(f"'{rest}' is no warp", next_step="For example: warp 3")
        return self._change(self.recording.block, int(rest))

    def block(self, rest: str) -> Reply:
        if not rest:
            return Reply(self.recording.title)
        numbers = rest.strip("()").replace(",", " ").split()
        if not all(number.isdigit() for number in numbers) or len(numbers) > 3:
            raise ArgumentError(f"'{rest}' is no block", next_step="For example: block 3, or block 1,2")
        chosen = int(numbers[0]) if len(numbers) == 1 else tuple(map(int, numbers))
        return self._change(chosen, self.recording.warp)

    def _change(self, block: Any, warp: int) -> Reply:
        if self.record is None:
            raise ArgumentError("this recording holds one warp", next_step="Record another: ws.trace(..., warp=3)")
        self.recording = self.record(block, warp)
        self.number = 0
        return Reply(f"{self.recording}\n{pages.where(self.moment)}", pages.where_data(self.moment))

    # ---------------------------------------------------------------- the rest

    def help(self, rest: str) -> Reply:
        if not rest:
            return Reply(pages.overview([(c.usage, c.summary) for c in COMMANDS]))
        command = _BY_NAME.get(rest)
        if command is None:
            raise ArgumentError(f"there is no command '{rest}'", next_step="help lists all.")
        others = ", ".join(command.names[1:])
        short = f" (short: {others})" if others else ""
        return Reply("\n".join(filter(None, (f"{command.usage}: {command.summary}{short}", command.lesson))))

    def quit(self, _rest: str) -> Reply:
        return Reply("", leave=True)


def _count(text: str) -> int:
    if not text:
        return 1
    if not text.isdigit():
        raise ArgumentError(f"'{text}' is no number of steps", next_step="For example: step 5")
    return int(text)


def _plain(array: np.ndarray) -> Any:
    """An array as JSON: numbers, NaN as None, structs as lists."""
    if array.dtype.kind == "f":
        numbers = array.astype(object)
        numbers[~np.isfinite(array)] = None
        return numbers.tolist()
    return array.tolist()


_LESSONS = {
    "step": "A step is one source line with one set of active lanes. Where lanes take different ways, the warp does\n"
    "one way first and the other then: two steps, each with some of the lanes.",
    "next": "`step` goes into __device__ functions, `next` over them.",
    "continue": "Set breakpoints with: break LINE",
    "back": "The whole way of the warp is recorded: `back` and `reverse` are as quick as `step`.",
    "break": "With a condition it stops where an active lane fulfils it: break 29 if k == 3 && threadIdx.x == 0",
    "print": "print sum, print tileA[threadIdx.y][k], print row * K + k, print quad.x, print sum @ 5\n"
    "In parentheses: lanes that are not active here; they keep the value that they have where they wait.\n"
    "A dot: no value yet, or the lane has returned.",
    "lanes": "A warp executes one line for its active lanes only; the others wait until the ways meet again.\n"
    "Each such split costs the time of both ways.",
    "shared": "All warps of the block write it. What another warp stores after its last barrier may be there already,\n"
    "or not yet: that is what __syncthreads() is for, and what a race is.",
    "touched": "Global memory moves in sectors of 32 bytes, shared memory in 32 banks of 4 bytes: good are few\n"
    "sectors, and no two words in one bank.",
}
"""what `help COMMAND` adds"""


def _command(names: str, run: Callable[[Debugger, str], Reply], usage: str, summary: str) -> Command:
    first, *others = names.split()
    return Command((first, *others), run, usage, summary, _LESSONS.get(first, ""))


COMMANDS = (
    _command("step s", Debugger.step, "step [N]", "do the line that is shown, or N lines, into functions too"),
    _command("next n", Debugger.next, "next [N]", "do the line, and what it calls, as one"),
    _command("out finish", Debugger.out, "out", "go on until the function returns"),
    _command("continue c", Debugger.resume, "continue", "go on to the next breakpoint, or to the end"),
    _command("back b", Debugger.back, "back [N]", "undo the last line, or N lines"),
    _command("reverse rc", Debugger.reverse, "reverse", "go back to the breakpoint before, or to the start"),
    _command("goto g", Debugger.goto, "goto STEP", "go to a step by its number; goto 0 starts again"),
    _command("break", Debugger.stop_at, "break LINE [if CONDITION]", "stop before a line; alone: list breakpoints"),
    _command("delete d", Debugger.delete, "delete [LINE]", "remove a breakpoint, or all"),
    _command("where w", Debugger.where, "where", "where the warp is, and which lanes are active"),
    _command("list l", Debugger.source, "list [LINE]", "the source around here"),
    _command("print p", Debugger.show, "print EXPRESSION [@ LANE]", "a value in every lane, or in one"),
    _command("locals v", Debugger.locals, "locals", "every variable in scope, in the first active lanes"),
    _command("lanes a", Debugger.lanes, "lanes", "the active mask: which lanes do this line, wait, or have returned"),
    _command("shared sh", Debugger.shared, "shared [ARRAY]", "the block's shared memory as it is now"),
    _command("touched t", Debugger.touched, "touched", "what this line reads and writes, lane by lane"),
    _command("hazards", Debugger.hazards, "hazards", "races, out-of-bounds accesses and the like in the whole grid"),
    _command("warp", Debugger.warp, "warp [N]", "record another warp of the block; alone: which one this is"),
    _command("block", Debugger.block, "block [N | X,Y,Z]", "record another block"),
    _command("help h ?", Debugger.help, "help [COMMAND]", "this list, or more about a command"),
    _command("quit q exit", Debugger.quit, "quit", "leave"),
)
_BY_NAME = {name: command for command in COMMANDS for name in command.names}
_REPEATED = ("step", "next", "back", "continue", "reverse", "out")
