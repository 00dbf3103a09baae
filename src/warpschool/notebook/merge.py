"""Two versions of a notebook in one: the student's work, and what the course has changed since it was delivered.

Cells are told apart by their grade ids, else by their cell ids; of what was delivered a hash of each cell is known. A
cell that the student left alone follows the course, and keeps its output while its source stays the same. A cell that
the student edited stays as it is. The student's own cells stay behind the cell that they stand behind, cells that the
student removed stay away, and the course's order holds.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

Cell = dict[str, Any]

_LEAST_KNOWN = 0.5  # of the delivered cells, on both sides: who renames cells must not look like one who removes them
_FIRST_MINOR_WITH_IDS = 5


@dataclass(frozen=True)
class Merged:
    """The notebook in one; `both` names the cells that both sides have changed: the student's stand in it."""

    content: bytes
    both: tuple[str, ...]


def cell_hashes(content: bytes) -> dict[str, str]:
    """Cell name -> hash of its kind and source; empty where cells lack names or share them, and for no notebook."""
    notebook = _read(content)
    if notebook is None:
        return {}
    found = {_name(cell): _hash(cell) for cell in notebook["cells"]}
    return found if len(found) == len(notebook["cells"]) and "" not in found else {}


def merge(mine: bytes, theirs: bytes, delivered: Mapping[str, str]) -> Merged | None:
    """Return the student's notebook brought up to the course's, or None where the two do not fit together.

    `delivered` is `cell_hashes` of the version that the student was last given.
    """
    own, course = _read(mine), _read(theirs)
    if own is None or course is None or not delivered or not cell_hashes(theirs):
        return None
    offered = [_name(cell) for cell in course["cells"]]
    had, extras = _sorted_out(own["cells"], {*offered, *delivered}, offered, delivered)
    if min(len(delivered.keys() & had), len(delivered.keys() & set(offered))) < _LEAST_KNOWN * len(delivered):
        return None
    cells, both = list(extras.get("", ())), []
    for new in course["cells"]:
        name = _name(new)
        chosen, clash = _chosen(had.get(name), new, delivered.get(name))
        cells += [] if chosen is None else [chosen]
        cells += extras.get(name, ())
        both += [name] if clash else []
    if own.get("nbformat_minor", 0) < _FIRST_MINOR_WITH_IDS:
        cells = [{key: value for key, value in cell.items() if key != "id"} for cell in cells]
    text = json.dumps({**own, "cells": cells}, indent=1, sort_keys=True, ensure_ascii=False)
    return Merged(f"{text}\n".encode(), tuple(both))


def _sorted_out(
    cells: list[Cell], known: set[str], offered: list[str], delivered: Mapping[str, str]
) -> tuple[dict[str, Cell], dict[str, list[Cell]]]:
    """(the course's cells by name, the student's own ones by the name of the cell that they stand behind)."""
    had: dict[str, Cell] = {}
    extras: dict[str, list[Cell]] = {}
    behind = ""
    for cell in cells:
        name = _name(cell)
        is_own = name not in known or name in had  # a copied cell brings its grade id along
        if not is_own:
            had[name] = cell
        if not is_own and name in offered:
            behind = name
        elif is_own or _hash(cell) != delivered[name]:  # what the course has dropped stays where it holds work
            extras.setdefault(behind, []).append(cell)
    return had, extras


def _chosen(mine: Cell | None, new: Cell, delivered: str | None) -> tuple[Cell | None, bool]:
    """(the cell that the notebook gets, whether both sides have changed it)."""
    if mine is None:
        return (new, False) if delivered is None else (None, False)
    if _hash(mine) == delivered != _hash(new):
        return new, False
    return mine, _hash(new) not in (delivered, _hash(mine))


def _name(cell: Cell) -> str:
    grade_id = cell.get("metadata", {}).get("nbgrader", {}).get("grade_id", "")
    return str(grade_id or cell.get("id", ""))


def _hash(cell: Cell) -> str:
    text = json.dumps([cell["cell_type"], "".join(cell["source"])])
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _read(content: bytes) -> dict[str, Any] | None:
    """The notebook, or None for what cannot be read as one of version 4."""
    try:
        notebook = json.loads(content)
        for cell in notebook["cells"]:
            _name(cell), _hash(cell)
    except (ValueError, KeyError, TypeError, AttributeError):
        return None
    return notebook if notebook.get("nbformat") == 4 else None
