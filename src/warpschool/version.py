"""The version of this distribution: a module of its own, so that the package's face is imported by nobody inside."""

__version__ = "0.1.0"
