"""Tokens of a header entry: names, integers and signs, each with its line and column in the kernel file."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from warpschool.errors import ContractError

_TOKEN = re.compile(
    r"(?P<space>\s+)|(?P<integer>\d[\w.]*)|(?P<name>[A-Za-z_]\w*)|(?P<sign>::|[<>=!]=|[-+*/%<>=()\[\],;&|!?:.])"
)


@dataclass(frozen=True)
class Token:
    """One token; `kind` is "name", "integer", "sign" or "end". Line and column start at 1."""

    kind: str
    text: str
    line: int
    column: int

    def __str__(self) -> str:
        return "the end of the line" if self.kind == "end" else f"'{self.text}'"


@dataclass(frozen=True)
class Piece:
    """A part of an entry's text that stands on one line; `column` is that of its first character."""

    text: str
    line: int
    column: int


def tokenize(pieces: Sequence[Piece], *, file: str) -> list[Token]:
    """Return the tokens of an entry, closed by one of kind "end"; raises ContractError at a foreign character."""
    tokens: list[Token] = []
    for piece in pieces:
        position = 0
        while position < len(piece.text):
            match = _TOKEN.match(piece.text, position)
            column = piece.column + position
            if match is None:
                found = piece.text[position]
                raise ContractError(
                    f"column {column}: '{found}' has no meaning in a kernel file's header", file=file, line=piece.line,
                    next_step=f"The line reads: {piece.text.strip()}",
                )  # fmt: skip
            if match.lastgroup != "space":
                tokens.append(Token(str(match.lastgroup), match.group(), piece.line, column))
            position = match.end()
    last = pieces[-1]
    tokens.append(Token("end", "", last.line, last.column + len(last.text)))
    return tokens


class TokenReader:
    """Walks through the tokens of one entry and words the errors: what stands where, and what should."""

    def __init__(self, tokens: Sequence[Token], *, file: str, error: type[ContractError] = ContractError) -> None:
        self._tokens = tokens
        self.index = 0
        self.file = file
        self.error = error

    @property
    def here(self) -> Token:
        return self._tokens[self.index]

    def take(self) -> Token:
        """Return the token here and step to the next one (never past the end)."""
        token = self.here
        self.index = min(self.index + 1, len(self._tokens) - 1)
        return token

    def at(self, *texts: str) -> bool:
        """Whether the token here is one of these signs or words."""
        return self.here.kind != "end" and self.here.text in texts

    def accept(self, text: str) -> bool:
        """Take the token here if it is `text`, and say whether it was."""
        if not self.at(text):
            return False
        self.take()
        return True

    def expect(self, text: str, *, write: str) -> Token:
        """Take `text` or fail; `write` says what the line should look like."""
        if not self.at(text):
            raise self.fault(f"expected '{text}' but found {self.here}", write=write)
        return self.take()

    def expect_name(self, meaning: str, *, write: str) -> Token:
        """Take a name or fail."""
        if self.here.kind != "name":
            raise self.fault(f"expected {meaning} but found {self.here}", write=write)
        return self.take()

    def finish(self, *, write: str) -> None:
        """Fail unless every token has been taken."""
        if self.here.kind != "end":
            raise self.fault(f"{self.here} is one too many here", write=write)

    def text_since(self, start: int) -> str:
        """Return the tokens from index `start` up to here as one line of text, spaced as they were written."""
        text = ""
        for before, token in zip([None, *self._tokens[start:]], self._tokens[start : self.index], strict=False):
            touches = before and before.line == token.line and before.column + len(before.text) == token.column
            text += token.text if before is None or touches else f" {token.text}"
        return text

    def fault(self, message: str, *, at: Token | None = None, write: str = "") -> ContractError:
        """Return (do not raise) the error for a token, by default the one here."""
        token = at or self.here
        return self.error(f"column {token.column}: {message}", file=self.file, line=token.line, next_step=write)
