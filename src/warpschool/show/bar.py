"""A bar over the work of a cell that takes seconds: there from the first of them, gone when the cell is done."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

from warpschool.show.page import escape, notebook_box

Item = TypeVar("Item")


def watched(items: Sequence[Item], what: str) -> Iterator[Item]:
    """The items, one after the other; in a notebook with a bar that says how many are done of them.

    Elsewhere nothing is shown: a terminal has `warpschool.show.progress`. What stays of it in the notebook is empty,
    where an item fails as well.
    """
    with _changing(_shown(f"{what}: 0 of {len(items)}", what, 0, len(items))) as change:
        for number, item in enumerate(items, start=1):
            yield item
            if number < len(items):
                change(_shown(f"{what}: {number} of {len(items)}", what, number, len(items)))


@contextmanager
def working(what: str) -> Iterator[None]:
    """The same over one piece of work, of which nobody knows how much of it is done: a bar that moves."""
    with _changing(_shown(f"{what} …", what)):
        yield


_Shown = dict[str, str]


@contextmanager
def _changing(first: _Shown) -> Iterator[Callable[[_Shown], None]]:
    """A display, where there is a notebook, and how it is changed; empty in the end."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()  # without it nobody has asked for one
    if getattr(shell, "kernel", None) is None:
        yield lambda _: None
        return
    from IPython.display import display

    place: Any = display(first, raw=True, display_id=True)
    try:
        yield lambda shown: place.update(shown, raw=True)
    finally:
        place.update({"text/html": "", "text/plain": ""}, raw=True)


def _shown(said: str, what: str, done: int | None = None, total: int | None = None) -> _Shown:
    amount = "" if done is None else f' max="{total}" value="{done}"'
    bar = f'<progress{amount} aria-label="{escape(what)}"></progress>'
    return {"text/html": notebook_box(f'<p class="soft">{bar} {escape(said)}</p>'), "text/plain": said}
