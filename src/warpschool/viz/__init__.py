"""Pictures: drawn from data and from what a device recorded."""

from __future__ import annotations
