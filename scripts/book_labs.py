"""The figures of the chapters of single labs."""

from __future__ import annotations

from collections.abc import Callable

TABLES: dict[str, dict[str, Callable[[], str]]] = {}
IMAGES: dict[str, dict[str, Callable[[], str]]] = {}
