"""Functions that stay in the sandbox and are called from outside: plain values there and back, over two pipes.

A message is a line of JSON, and whoever has sent one waits. Functions among the arguments are called back:

    outside: ["call", name, args, options]     sandbox: ["value", value, args afterwards]
                                                        ["error", kind, text, args afterwards]
                                                        ["callback", number, args]
    outside, to a callback: ["value", value] or ["error", kind, text]

Lists, dicts, sets and arrays among the arguments are changed outside as the function has changed its copies.
"""

from __future__ import annotations

import base64
import builtins
import contextlib
import itertools
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import IO, Any

import numpy as np

MOST_MESSAGE_BYTES = 8 << 20
_MOST_ITEMS = 1_000_000
_MOST_DIGITS = 4000
_PLAIN = (bool, int, float, str, type(None))
_BASES: tuple[type[Any], ...] = (int, float, str, list, tuple, set, dict)
_LISTED: tuple[type[Any], ...] = (range, frozenset, type({}.keys()), type({}.values()), type({}.items()))


@dataclass
class Wire:
    """One end of a conversation."""

    read: IO[bytes]
    write: IO[bytes]

    def send(self, *message: Any) -> None:
        """Send one message. Raises ConnectionError where nobody listens."""
        self.write.write(json.dumps(message).encode() + b"\n")
        self.write.flush()

    def receive(self) -> list[Any]:
        """Wait for a message. Raises ConnectionError at the end, ValueError for what is no message."""
        line = self.read.readline(MOST_MESSAGE_BYTES)
        if not line.endswith(b"\n"):
            raise ConnectionError("the other side has ended, or says too much")
        message = json.loads(line)
        if not isinstance(message, list) or not message:
            raise ValueError("no message")
        return message


class SandboxFunction:
    """A function in the sandbox, as the check sees it."""

    def __init__(self, name: str, wire: Wire) -> None:
        self.__name__ = name
        self._wire = wire

    def __call__(self, *args: Any, **options: Any) -> Any:
        """Call it; raises what it raised, as far as that is one of Python's own exceptions."""
        functions = [arg for arg in args if callable(arg)]
        places = itertools.count()
        given = [["function", next(places)] if callable(arg) else encoded(arg) for arg in args]
        self._wire.send("call", self.__name__, given, {name: encoded(value) for name, value in options.items()})
        while True:
            kind, *rest = self._wire.receive()
            if kind != "callback":
                break
            number, values = rest
            self._wire.send(*_answer(functions[number], [decoded(value) for value in values], {}))
        *answer, afterwards = rest
        for arg, after in zip(args, afterwards, strict=True):
            _change(arg, after)
        return _value(kind, *answer)


def serve(functions: Mapping[str, Callable[..., Any]], wire: Wire) -> None:
    """In the sandbox: answer calls until nobody calls any more."""
    while True:
        try:
            _, name, args, options = wire.receive()
        except ConnectionError:
            return
        given = [_callback(arg[1], wire) if arg[0] == "function" else decoded(arg) for arg in args]
        answer = _answer(functions[name], given, {name: decoded(value) for name, value in options.items()})
        wire.send(*answer, [None if callable(arg) else encoded(arg) for arg in given])


def _callback(number: int, wire: Wire) -> Callable[..., Any]:
    """A function of the other side that was an argument."""

    def call(*args: Any) -> Any:
        wire.send("callback", number, [encoded(arg) for arg in args])
        return _value(*wire.receive())

    return call


def _value(kind: str, *answer: Any) -> Any:
    """What a function gave; raises what it raised."""
    if kind == "value":
        return decoded(*answer)
    raise _error(*answer)


def _answer(function: Callable[..., Any], args: Sequence[Any], options: Mapping[str, Any]) -> tuple[Any, ...]:
    try:
        return "value", encoded(function(*args, **options))
    except BaseException as error:  # KeyboardInterrupt is an answer too: searches are interrupted on purpose
        return "error", type(error).__name__, str(error)[:300]


def _error(kind: str, text: str) -> BaseException:
    """An exception of Python's own of that name; RuntimeError for all others, and for those that end a process."""
    found = getattr(builtins, str(kind), None)
    if isinstance(found, type) and issubclass(found, (Exception, KeyboardInterrupt)):
        with contextlib.suppress(TypeError):
            return found(str(text)[:300])
    return RuntimeError(f"{kind}: {text}"[:300])


def _change(arg: Any, after: Any) -> None:
    """Make a changed argument what the function's copy of it is now."""
    if isinstance(arg, (list, dict, set, np.ndarray)) and type(new := decoded(after)) is type(arg):
        if isinstance(arg, list | np.ndarray):
            arg[:] = new
        else:
            arg.clear()
            arg.update(new)


# ---------------------------------------------------------------- values


def encoded(value: Any) -> Any:
    """Return plain data that `decoded` turns back into the value; raises TypeError for what is more than data.

    What can be gone through once becomes a list; what is built on a number, text or list becomes just that.
    """
    kind = type(value)
    if kind in _PLAIN:
        return ["plain", value]
    if kind is Fraction:
        return ["fraction", str(value)]
    if kind in (list, tuple, set):
        return [kind.__name__, [encoded(item) for item in value]]
    if kind is dict:
        return ["dict", [[encoded(key), encoded(item)] for key, item in value.items()]]
    is_array = kind is np.ndarray or isinstance(value, np.generic)
    if is_array and value.dtype.kind in "biufc" and value.nbytes <= 1 << 22:
        return ["array", value.dtype.str, list(value.shape), base64.b64encode(value.tobytes()).decode()]
    if kind is np.ndarray and value.dtype == object and value.size <= _MOST_ITEMS:
        return encoded(value.tolist())
    if isinstance(value, _LISTED) or hasattr(value, "__next__"):
        return ["list", [encoded(item) for item in itertools.islice(value, _MOST_ITEMS)]]
    for base in _BASES:
        if isinstance(value, base):
            return encoded(base(value))
    raise TypeError(f"a {kind.__name__} is not plain data")


def decoded(data: Any) -> Any:
    """Return the value that `encoded` described; raises ValueError for anything else."""
    match data:
        case ["plain", value] if type(value) in _PLAIN:
            return value
        case ["fraction", str(text)] if len(text) <= _MOST_DIGITS:
            return Fraction(*map(int, text.split("/", 1)))
        case ["list" | "tuple" | "set" as kind, list(items)]:
            return {"list": list, "tuple": tuple, "set": set}[kind](decoded(item) for item in items)
        case ["dict", list(items)]:
            return {decoded(key): decoded(item) for key, item in items}
        case ["array", str(dtype), list(shape), str(text)] if np.dtype(dtype).kind in "biufc":
            array = np.frombuffer(base64.b64decode(text), np.dtype(dtype)).reshape(shape).copy()
            return array if shape else array[()]
    raise ValueError("this is no value of a notebook")
