"""The debugger's commands: text in, text and data out. `warpschool debug` and tests talk to it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from warpschool.errors import ArgumentError, WarpschoolError
from warpschool.inspect.debugger import pages
from warpschool.inspect.debugger.pages import Reply
from warpschool.inspect.debugger.recording import Moment, Recording
from warpschool.suggest import did_you_mean


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
        self.breakpoints: dict[int, str] = {}  # line -> a condition that an active lane must fulfil there, if any
        self.last = "where"

    @property
    def moment(self) -> Moment:
        return self.recording.at(self.number)

    @property
    def prompt(self) -> str:
        line = f"line {self.moment.line}" if self.moment.line else "end"
        return f"(warp {self.recording.warp}, {line}) "

    def execute(self, text: str) -> Reply:
        """Run one command; an empty one repeats the last that moved. Never raises: an error is a reply."""
        word, _, rest = (text.strip() or self.last).partition(" ")
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

    def next(self, rest: str) -> Reply:
        number = self.number
        for _ in range(_count(rest)):
            number = self._after_calls(number)
        return self.go(number)

    def _after_calls(self, number: int) -> int:
        """The step after this one in the same function, or in the kernel that called it."""
        steps = self.recording.steps
        copy = steps[number].copy if number < len(steps) else ""
        return next((later for later in range(number + 1, len(steps)) if steps[later].copy in (copy, "")), len(steps))

    def out(self, _rest: str) -> Reply:
        steps = self.recording.steps
        copy = self.moment.step.copy if self.moment.step else ""
        leaves = (n for n in range(self.number + 1, len(steps)) if copy and steps[n].copy != copy)
        return self.go(next(leaves, len(steps)))

    def goto(self, rest: str) -> Reply:
        return self.go(_number(rest, "goto needs the number of a step", f"goto 0 to goto {len(self.recording)}"))

    def to_breakpoint(self, numbers: range) -> Reply:
        """Go to the first of these steps at which a breakpoint stops, else to where they end."""
        found = next((number for number in numbers if self._stops(number)), None)
        if found is None:
            return self.go(numbers.stop, "No breakpoint was met. " if self.breakpoints else "")
        return self.go(found)

    def _stops(self, number: int) -> bool:
        condition = self.breakpoints.get(self.recording.steps[number].line)
        if not condition:
            return condition is not None
        try:
            values = pages.evaluate(condition, self.recording.at(number))
        except ArgumentError:  # a variable that does not exist yet
            return False
        return bool((values.array[values.shown] != 0).any())

    def go(self, number: int, said: str = "") -> Reply:
        """Go to a step, or to the end of the recording that is nearer; the reply begins with `said`."""
        before = self.moment
        self.number = min(max(number, 0), len(self.recording))
        changed = pages.changed(before, self.moment) if before.number < self.number else ""
        reply = pages.where(self.moment)
        return replace(reply, text=said + reply.text + (f"\n{changed}" if changed else ""))

    # ---------------------------------------------------------------- breakpoints

    def stop_at(self, rest: str) -> Reply:
        if not rest:
            listed = [f"  line {line}" + (f" if {when}" if when else "") for line, when in self.breakpoints.items()]
            text = "\n".join(["breakpoints:", *listed]) if listed else "no breakpoints. break LINE sets one."
            return Reply(text, {"breakpoints": sorted(self.breakpoints)})
        number, _, condition = rest.partition(" if ")
        line = _line(number)
        lines = {step.line for step in self.recording.steps}
        if line not in lines:
            near = min(lines, key=lambda other: (abs(other - line), other), default=0)
            raise ArgumentError(f"this warp never comes to line {line}", next_step=f"The nearest line it does: {near}")
        self.breakpoints[line] = condition.strip()
        times = sum(step.line == line for step in self.recording.steps)
        text = f"breakpoint at line {line}: {self.recording.source_line(line).strip()}"
        told = "once" if times == 1 else f"{times} times"
        return Reply(f"{text} ({told} in this recording)", {"line": line, "times": times})

    def delete(self, rest: str) -> Reply:
        if not rest:
            self.breakpoints.clear()
            return Reply("all breakpoints deleted")
        line = _line(rest)
        if self.breakpoints.pop(line, None) is None:
            raise ArgumentError(f"there is no breakpoint at line {line}", next_step="break lists them.")
        return Reply(f"breakpoint at line {line} deleted")

    # ---------------------------------------------------------------- looking

    def show(self, rest: str) -> Reply:
        if not rest:
            return pages.variables(self.moment)
        expression, at, lane = rest.partition("@")
        values = pages.evaluate(expression, self.moment)
        reply = pages.values(values, self.moment)
        if not at:
            return reply
        if not lane.strip().isdigit() or not 0 <= int(lane) < len(values.array):
            raise ArgumentError(f"'{lane.strip()}' is no lane", next_step="For example: print sum @ 5")
        text = reply.data["values"][int(lane)]
        return replace(reply, text=f"{values.name} in lane {int(lane)} = {'no value' if text is None else text}")

    def source(self, rest: str) -> Reply:
        line = _line(rest) if rest else self.moment.line
        return pages.source(self.recording, line or self.recording.steps[-1].line, self.breakpoints)

    # ---------------------------------------------------------------- other warps

    def warp(self, rest: str) -> Reply:
        if not rest:
            return Reply(self.recording.title)
        return self._change(self.recording.block, _number(rest, f"'{rest}' is no warp", "For example: warp 3"))

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
        reply = pages.where(self.moment)
        return replace(reply, text=f"{self.recording}\n{reply.text}")

    # ---------------------------------------------------------------- the rest

    def help(self, rest: str) -> Reply:
        if not rest:
            width = max(len(command.usage) for command in COMMANDS)
            listed = "\n".join(f"  {command.usage:{width}}  {command.summary}" for command in COMMANDS)
            return Reply(_OVERVIEW.format(listed))
        command = _BY_NAME.get(rest)
        if command is None:
            raise ArgumentError(f"there is no command '{rest}'", next_step="help lists all.")
        others = ", ".join(command.names[1:])
        short = f" (short: {others})" if others else ""
        return Reply("\n".join(filter(None, (f"{command.usage}: {command.summary}{short}", command.lesson))))


def _number(text: str, trouble: str, example: str) -> int:
    if not text.strip().isdigit():
        raise ArgumentError(trouble, next_step=example)
    return int(text)


def _count(text: str) -> int:
    return _number(text or "1", f"'{text}' is no number of steps", "For example: step 5")


def _line(text: str) -> int:
    return _number(text, f"'{text}' is no line number", "For example: break 29, break 29 if k == 3")


_OVERVIEW = """The whole way of one warp is recorded: go forwards and backwards in it, and look at what each lane holds.
{}
An empty line repeats the last step. A good start: break LINE, continue, locals."""

COMMANDS = (
    Command(
        ("step", "s"), lambda debugger, rest: debugger.go(debugger.number + _count(rest)),
        "step [N]", "do the line that is shown, or N lines, into functions too",
        "A step is one source line with one set of active lanes. Where lanes take different ways, the warp does\n"
        "one way first and the other then: two steps, each with some of the lanes.",
    ),
    Command(
        ("next", "n"), Debugger.next, "next [N]", "do the line, and what it calls, as one",
        "`step` goes into __device__ functions, `next` over them.",
    ),
    Command(("out", "finish"), Debugger.out, "out", "go on until the function returns"),
    Command(
        ("continue", "c"),
        lambda debugger, _: debugger.to_breakpoint(range(debugger.number + 1, len(debugger.recording))),
        "continue", "go on to the next breakpoint, or to the end", "Set breakpoints with: break LINE",
    ),
    Command(
        ("back", "b"), lambda debugger, rest: debugger.go(debugger.number - _count(rest)),
        "back [N]", "undo the last line, or N lines",
        "The whole way of the warp is recorded: `back` and `reverse` are as quick as `step`.",
    ),
    Command(
        ("reverse", "rc"), lambda debugger, _: debugger.to_breakpoint(range(debugger.number - 1, -1, -1)),
        "reverse", "go back to the breakpoint before, or to the start",
    ),
    Command(("goto", "g"), Debugger.goto, "goto STEP", "go to a step by its number; goto 0 starts again"),
    Command(
        ("break",), Debugger.stop_at, "break LINE [if CONDITION]", "stop before a line; alone: list breakpoints",
        "With a condition it stops where an active lane fulfils it: break 29 if k == 3 && threadIdx.x == 0",
    ),
    Command(("delete", "d"), Debugger.delete, "delete [LINE]", "remove a breakpoint, or all"),
    Command(
        ("where", "w"), lambda debugger, _: pages.where(debugger.moment),
        "where", "where the warp is, and which lanes are active",
    ),
    Command(("list", "l"), Debugger.source, "list [LINE]", "the source around here"),
    Command(
        ("print", "p"), Debugger.show, "print EXPRESSION [@ LANE]", "a value in every lane, or in one",
        "print sum, print tileA[threadIdx.y][k], print row * K + k, print quad.x, print sum @ 5\n"
        "In parentheses: lanes that are not active here; they keep the value that they have where they wait.\n"
        "A dot: no value yet, or the lane has returned.",
    ),
    Command(
        ("locals", "v"), lambda debugger, _: pages.variables(debugger.moment),
        "locals", "every variable in scope, in the first active lanes",
    ),
    Command(
        ("lanes", "a"), lambda debugger, _: pages.lanes(debugger.moment),
        "lanes", "the active mask: which lanes do this line, wait, or have returned",
        "A warp executes one line for its active lanes only; the others wait until the ways meet again.\n"
        "Each such split costs the time of both ways.",
    ),
    Command(
        ("shared", "sh"),
        lambda debugger, rest: pages.shared(debugger.moment, rest),
        "shared [ARRAY]", "the block's shared memory as it is now",
        "All warps of the block write it. What another warp stores after its last barrier may be there already,\n"
        "or not yet: that is what __syncthreads() is for, and what a race is.",
    ),
    Command(
        ("touched", "t"), lambda debugger, _: pages.touched(debugger.moment),
        "touched", "what this line reads and writes, lane by lane",
        "Global memory moves in sectors of 32 bytes, shared memory in 32 banks of 4 bytes: good are few\n"
        "sectors, and no two words in one bank.",
    ),
    Command(
        ("hazards",), lambda debugger, _: pages.hazards(debugger.recording),
        "hazards", "races, out-of-bounds accesses and the like in the whole grid",
    ),
    Command(("warp",), Debugger.warp, "warp [N]", "record another warp of the block; alone: which one this is"),
    Command(("block",), Debugger.block, "block [N | X,Y,Z]", "record another block"),
    Command(("help", "h", "?"), Debugger.help, "help [COMMAND]", "this list, or more about a command"),
    Command(("quit", "q", "exit"), lambda *_: Reply("", leave=True), "quit", "leave"),
)  # fmt: skip
_BY_NAME = {name: command for command in COMMANDS for name in command.names}
_REPEATED = ("step", "next", "back", "continue", "reverse", "out")
