"""A bar over the work of a cell that takes seconds: there from the first of them, gone when the cell is done."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from typing import Any, TypeVar

from warpschool.show.page import escape, notebook_box

Item = TypeVar("Item")


def watched(items: Sequence[Item], what: str) -> Iterator[Item]:
    """The items, one after the other; in a notebook with a bar that says how many are done of them.

    Elsewhere nothing is shown: a terminal has `warpschool.show.progress`. What stays of it in the notebook is empty.
    """
    place = _place(_shown(0, len(items), what))
    for number, item in enumerate(items, start=1):
        yield item
        if place is not None:
            place.update(_shown(number, len(items), what) if number < len(items) else _EMPTY, raw=True)


_EMPTY = {"text/html": "", "text/plain": ""}


def _place(first: dict[str, str]) -> Any:
    """A display that can be changed, where there is a notebook."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()  # without it nobody has asked for one
    if getattr(shell, "kernel", None) is None:
        return None
    from IPython.display import display

    return display(first, raw=True, display_id=True)


def _shown(done: int, total: int, what: str) -> dict[str, str]:
    said = f"{what}: {done} of {total}"
    bar = f'<progress max="{total}" value="{done}" aria-label="{escape(what)}"></progress>'
    return {"text/html": notebook_box(f'<p class="soft">{bar} {escape(said)}</p>'), "text/plain": said}
