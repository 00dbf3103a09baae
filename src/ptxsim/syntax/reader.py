"""The text of a PTX file while it is read: position, line, place in the student's file, errors."""

from __future__ import annotations

import re

from ptxsim.errors import PtxSyntaxError
from ptxsim.syntax.program import SourceLine

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


class Reader:
    """A PTX text without its comments, read from front to back.

    `source` is the line of CUDA C++ that the last `.loc` named.
    """

    def __init__(self, text: str) -> None:
        self.position = 0
        self.source = SourceLine()
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
