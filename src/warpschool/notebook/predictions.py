"""Predictions: a number that the student writes down before the counters are read."""

from __future__ import annotations

import math
from numbers import Real

from warpschool.show.page import show_text


def check_prediction(
    said: object, counted: object, *, what: str = "", points: float = 1.0, tolerance: float = 0.01
) -> float:
    """Compare a prediction with what was counted, display both, and return the points earned: all or none.

    Numbers agree within the relative `tolerance`; anything else must be equal. None, as in the starter, says nothing.
    """
    name = f"{what}: " if what else ""
    if said is None:
        show_text(f"{name}write your prediction first, then run this cell again.", failed=True)
        return 0.0
    right = _agree(said, counted, tolerance)
    show_text(f"{name}you said {_text(said)}, counted {_text(counted)}.", failed=not right)
    return float(points) if right else 0.0


def _agree(said: object, counted: object, tolerance: float) -> bool:
    if isinstance(said, Real) and isinstance(counted, Real):
        return math.isclose(float(said), float(counted), rel_tol=tolerance)
    return type(said) is type(counted) and said == counted


def _text(value: object) -> str:
    return f"{value:,.6g}" if isinstance(value, Real) and not isinstance(value, bool) else str(value)
