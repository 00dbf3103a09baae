"""The one player of everything that moves: pictures that follow each other, and the steps of a recording.

What is played is in the page already: without scripts, in an export or on paper, the first of it stands still.
"""

from __future__ import annotations

from functools import cache
from importlib import resources

_SIGNS = {"first": "|◂ First", "back": "◂ Back", "play": "▸ Play", "next": "▸| Next", "last": "Last ▸|"}


def controls(count: int, what: str) -> str:
    """The buttons that step through `count` pictures or steps; the script shows them."""
    buttons = "".join(f'<button type="button" data-do="{do}">{sign}</button>' for do, sign in _SIGNS.items())
    return (
        f'<div class="controls" role="group" aria-label="Step through {count} {what}; arrow keys move" hidden>{buttons}'
        f'<span role="status" class="place">1 of {count}</span></div>'
    )


@cache
def script() -> str:
    """What brings controls to life, as an element."""
    code = (resources.files("warpschool.show") / "player.js").read_text(encoding="utf-8").strip()
    return f"<script>(() => {{\n{code}\n}})();</script>"
