"""Close matches for misspelt names, as they appear at the end of error messages."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def closest(word: str, options: Iterable[str], *, cutoff: float = 0.6) -> str:
    """Return the option that looks most like `word` (case ignored), or "" when none is close."""
    by_fold = {option.casefold(): option for option in options}
    found = difflib.get_close_matches(word.casefold(), by_fold, n=1, cutoff=cutoff)
    return by_fold[found[0]] if found else ""


def did_you_mean(word: str, options: Iterable[str]) -> str:
    """Return "Did you mean X?", or the list of what there is when nothing is close."""
    names = list(options)
    if match := closest(word, names):
        return f"Did you mean {match}?"
    if not names:
        return ""
    return f"There is: {', '.join(names[:12])}{', ...' if len(names) > 12 else '.'}"
