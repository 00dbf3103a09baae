"""Functions stay short enough to read: what CONTRIBUTING.md promises about their length."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
SOURCE = ROOT / "src"
SIMULATOR_TESTS = ROOT / "tests" / "sim"
MODULES = sorted([*SOURCE.rglob("*.py"), *SIMULATOR_TESTS.glob("*.py")])
MOST_FUNCTION_LINES = 60
TABLES = {"opcode_cases.py"}
"""Modules that are a table: a row for every case."""


def too_long(text: str) -> list[str]:
    """Functions whose code is over the limit. Signature and docstring, which teach how to call it, do not count."""
    found = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            code = node.body[1:] if ast.get_docstring(node) is not None else node.body
            lines = code[-1].end_lineno - code[0].lineno + 1 if code else 0
            if lines > MOST_FUNCTION_LINES:
                found.append(f"{node.name}: {lines} lines")
    return found


@pytest.mark.parametrize("lines", [MOST_FUNCTION_LINES, MOST_FUNCTION_LINES + 1])
def test_a_function_over_the_limit_is_found(lines):
    text = 'def f(a,\n      b):\n    """Says\n\n    what.\n    """\n' + "    a += b\n" * lines
    assert too_long(text) == ([] if lines == MOST_FUNCTION_LINES else [f"f: {lines} lines"])


def test_functions_are_short():
    assert len(MODULES) > 100
    long = [
        f"{path.relative_to(ROOT).as_posix()}, {function}"
        for path in MODULES
        if path.name not in TABLES
        for function in too_long(path.read_text())
    ]
    assert not long, "split by concept: " + "; ".join(long)
