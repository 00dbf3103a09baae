"""`functools.cached_property` without its lock, which up to Python 3.11 takes longer than most of what it guards."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

Value = TypeVar("Value")


class computed(Generic[Value]):
    """A property that is an attribute once it has been asked for; two threads may both compute it."""

    def __init__(self, compute: Callable[[Any], Value]) -> None:
        self.compute = compute
        self.name = compute.__name__
        self.__doc__ = compute.__doc__

    def __get__(self, instance: Any, owner: type | None = None) -> Value:
        if instance is None:
            return self  # type: ignore[return-value]  # of the class, for documentation
        value = instance.__dict__[self.name] = self.compute(instance)
        return value
