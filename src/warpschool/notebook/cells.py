"""The kernel cells of this session: step -> source of its last-run `%%kernel` cell."""

from __future__ import annotations

_sources: dict[str, str] = {}


def remember(step: str, source: str) -> None:
    """Record a step's cell; a later one replaces it."""
    _sources[step] = source


def last_cell(step: str) -> str | None:
    """Return the source of the step's last-run cell, or None."""
    return _sources.get(step)


def forget_all() -> None:
    """Forget every cell, as a fresh session does."""
    _sources.clear()
