"""A result as compilers write it, a line for each place, for editors that put messages under lines of a file."""

from __future__ import annotations

from warpschool.grading.result import Result


def problem_lines(result: Result, path: str) -> list[str]:
    """Return `PATH:LINE: error: MESSAGE` for each place at which something is wrong; no two are the same.

    What has no place, such as wrong numbers, is told of line 1, once, and only where nothing else is told. Of cases
    that a secret seed drew nothing is said.
    """
    failed = [c for c in result.criteria if not c.ok and c.is_judged and not c.secret]
    found = {(one.line, _first(one.message)): None for one in (result, *failed) if one.line}
    if not found and failed:
        found = {(1, f"{result.verdict}: {failed[0].title}: {_first(failed[0].seen)}"): None}
    return [f"{path}:{line}: error: {message}" for line, message in found]


def _first(message: str) -> str:
    return message.split("\n")[0].removeprefix("error: ")
