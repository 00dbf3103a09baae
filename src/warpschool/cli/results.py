"""The last result of each source, kept beside the compile cache: `check` writes it, `status` and `hint` read it."""

from __future__ import annotations

import json

from ptxsim import cache
from warpschool.errors import GradingError
from warpschool.grading import Result, Source

_KIND = "results"


def remember(result: Result) -> None:
    """Keep a result; a disk that does not take it is no failure."""
    if result.verdict != "SE":
        cache.store(_KIND, _key(result.step, result.source.get("sha256", "")), json.loads(result.to_json()))


def last_result(step: str, source: Source) -> Result | None:
    """The result of this very source, or None if it was not checked since it was changed."""
    entry = cache.load(_KIND, _key(step, source.sha256))
    if entry is None:
        return None
    try:
        return Result.from_json(json.dumps(entry))
    except GradingError:
        return None


def _key(step: str, sha256: str) -> str:
    return cache.content_key("result", step, sha256)
