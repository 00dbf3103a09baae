"""The version, where modules of the package can read it without importing the package's face."""

from __future__ import annotations

__version__ = "0.1.0"
