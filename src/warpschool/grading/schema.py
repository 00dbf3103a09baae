"""The JSON schema of results, made from the dataclasses, so that the two cannot drift apart."""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any

from warpschool.grading.records import FORMAT as RECORD_FORMAT
from warpschool.grading.records import Record
from warpschool.grading.result import FORMAT, Result

DIALECT = "https://json-schema.org/draft/2020-12/schema"
_PLAIN = {str: {"type": "string"}, int: {"type": "integer"}, float: {"type": "number"}, bool: {"type": "boolean"},
          type(None): {"type": "null"}}  # fmt: skip
_OBSERVED = {
    "said": "the words of a comparison, a budget or a compiler", "file": "the file's name, where the place is told",
    "line": "the student's line, 0 for none", "code": "its text", "case": "sizes at which it was observed",
    "finding": "what the simulator found there", "more": "how many others it found",
}  # fmt: skip
_WORDS = {
    "Result": ("seen", "why the file could not be run at all, for people"),
    "Criterion": ("seen", "what was observed, for people"),
    "Finding": ("message", "the sentence that tells it"),
}
"""What is written beside the fields: a sentence made of some of them."""
_NOTES = {
    "Result": {
        **_OBSERVED,
        "step": "labNN_topic/NN_idea", "verdict": "the gravest of all criteria's", "seed": "of all random inputs",
        "source": "name, sha256 and origin of what was graded",
        "provenance": "versions and places; results that differ in them are not compared",
    },
    "Record": {
        "assignment": "the lab", "student": "nbgrader's id", "handin": "sha256 of the notebook",
        "cells": "one for each cell with points", "outcomes": "grade id -> what a check cell in Python gave",
        "problem": "why the notebook could not be read", "notes": "what a grader should know",
        "versions": "what a class must have in common", "kernel_cells": "grade id -> step",
        "report": "what is to be said of a PDF beside the notebook",
        "drawings": "id of a cell that people grade -> PNGs that it drew when it was run again, and where that was",
    },
    "CellScore": {
        "points": "what the cell is worth", "score": "null while it waits", "state": "graded, person, failed",
        "answer": "a hash of what was graded", "text": "what the check said",
    },
    "Criterion": {
        **_OBSERVED,
        "id": "name of the test function", "title": "what people read", "weight": "its share of the step's points",
        "fraction": "of the weight that was earned",
        "counts": "what is counted, and why", "hint": "a nudge, a place, pseudocode",
        "secret": "observed in a case of the secret seed: not for students", "measured": "counts held against limits",
        "wrong": "where an output is wrong",
    },
    "Finding": {
        "kind": "race, out-of-bounds, uninitialized, divergent-barrier, misaligned or warp-sync",
        "access": "read, write, atomic or barrier", "address": "byte offset into the array, or into shared memory",
        "others": "how many the other side is: thread, warp, warps, blocks", "other_warp": "that warp's first thread",
        "other_did": "read, write, atomic, read and write, copy, returned or waits",
        "detail": "what the kind does not tell", "size": "of the array, or the alignment asked for, in bytes",
    },
    "WrongMap": {
        "name": "the array", "shape": "its dimensions", "height": "rows after folding", "columns": "likewise",
        "box_rows": "rows of elements that a character stands for", "box_columns": "columns of elements, likewise",
        "rows": ". right, 1 to 9 tenths wrong, # all wrong", "wrong": "elements", "pattern": "what they have in common",
    },
}  # fmt: skip


def result_schema() -> dict[str, Any]:
    """Return the JSON schema of what `Result.to_json` writes."""
    whole = schema_of(Result, title="A result of warpschool")
    whole["properties"] |= {
        "format": {"const": FORMAT, "description": "of this document"},
        "score": {"type": ["number", "null"], "description": "sum of weight x fraction; null for SE: no grade"},
        "max_score": {"type": "number", "description": "sum of the weights that were counted"},
    }
    whole["required"] = sorted(whole["properties"])
    return {"$schema": DIALECT, **whole}


def record_schema() -> dict[str, Any]:
    """Return the JSON schema of what `Record.to_json` writes: one graded submission of a class."""
    whole = schema_of(Record, title="A graded submission of warpschool")
    result = {key: value for key, value in result_schema().items() if key != "$schema"}
    whole["properties"] |= {
        "format": {"const": RECORD_FORMAT, "description": "of this document"},
        "results": {"type": "object", "additionalProperties": result, "description": "step -> its result"},
    }
    whole["required"] = sorted(whole["properties"])
    return {"$schema": DIALECT, **whole}


def schema_of(record: type, *, title: str = "") -> dict[str, Any]:
    """Return the schema of a dataclass; every field is required, and no other is allowed."""
    hints = typing.get_type_hints(record)
    notes = _NOTES.get(record.__name__, {})
    properties = {}
    for field in dataclasses.fields(record):
        properties[field.name] = _of_type(hints[field.name])
        if field.name in notes:
            properties[field.name]["description"] = notes[field.name]
    if record.__name__ in _WORDS:
        name, what = _WORDS[record.__name__]
        properties[name] = {"type": "string", "description": what}
    return {
        "title": title or record.__name__, "type": "object", "properties": properties, "required": sorted(properties),
        "additionalProperties": False,
    }  # fmt: skip


def _of_type(kind: Any) -> dict[str, Any]:
    """The schema of an annotation; raises TypeError for one that has none here."""
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if kind in _PLAIN:
        return dict(_PLAIN[kind])
    if isinstance(kind, type) and issubclass(kind, StrEnum):
        return {"enum": [str(member) for member in kind]}
    if dataclasses.is_dataclass(kind) and isinstance(kind, type):
        return schema_of(kind)
    if origin in (tuple, list, Sequence):
        return {"type": "array", "items": _of_type(arguments[0])}
    if origin in (Mapping, dict):
        return {"type": "object", "additionalProperties": _of_type(arguments[1])}
    if origin in (types.UnionType, typing.Union):
        return {"anyOf": [_of_type(argument) for argument in arguments]}
    raise TypeError(f"no schema for {kind}")


