"""A bar over a cell's work: there before the first item, right in between, empty behind the last."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import pytest

from warpschool.show.bar import watched, working


class Place:
    def __init__(self) -> None:
        self.shown: list[dict[str, str]] = []

    def update(self, data: dict[str, str], *, raw: bool) -> None:
        assert raw
        self.shown.append(data)


@pytest.fixture
def place(monkeypatch):
    """What a notebook is asked to show."""
    found = Place()

    def display(data, *, raw, display_id):
        assert display_id
        found.update(data, raw=raw)
        return found

    shell = SimpleNamespace(kernel=object())
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: shell))
    monkeypatch.setitem(sys.modules, "IPython.display", SimpleNamespace(display=display))
    return found


def test_a_notebook_sees_it_before_the_first_item_and_nothing_behind_the_last(place):
    seen = [(item, place.shown[-1]["text/plain"]) for item in watched(["a", "b"], "tiles <T>")]
    assert seen == [("a", "tiles <T>: 0 of 2"), ("b", "tiles <T>: 1 of 2")]
    assert 'max="2" value="1" aria-label="tiles &lt;T&gt;"' in place.shown[1]["text/html"]
    assert place.shown[-1] == {"text/html": "", "text/plain": ""} and len(place.shown) == 3


def test_nothing_stays_where_an_item_fails(place):
    def fail():
        for _ in watched((1, 2), "steps"):
            raise ValueError

    with pytest.raises(ValueError):
        fail()
    assert place.shown[-1]["text/html"] == ""


def test_one_piece_of_work_has_a_bar_without_a_value(place):
    with working("checking lab02/01"):
        assert place.shown[-1]["text/plain"] == "checking lab02/01 …"
        assert "<progress aria-label" in place.shown[-1]["text/html"]
    assert place.shown[-1] == {"text/html": "", "text/plain": ""} and len(place.shown) == 2


@pytest.mark.parametrize("shell", [None, SimpleNamespace()])
def test_elsewhere_the_items_come_and_nothing_is_shown(monkeypatch, shell):
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: shell))
    assert list(watched((1, 2, 3), "steps")) == [1, 2, 3]
