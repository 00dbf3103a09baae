"""Modules and functions stay short enough to read: what CONTRIBUTING.md promises about their length."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "warpschool"
SIMULATOR_TESTS = ROOT / "tests" / "sim"
MODULES = sorted([*SOURCE.rglob("*.py"), *SIMULATOR_TESTS.glob("*.py")])
MOST_MODULE_LINES = 400
MOST_FUNCTION_LINES = 60
TABLES = {"tests/sim/opcode_cases.py"}
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


def test_modules_and_functions_are_short():
    assert len(MODULES) > 300
    long = []
    for path in MODULES:
        name, text = path.relative_to(ROOT).as_posix(), path.read_text()
        if name in TABLES:
            continue
        if (lines := text.count("\n")) > MOST_MODULE_LINES:
            long.append(f"{name}: {lines} lines")
        long += [f"{name}, {function}" for function in too_long(text)]
    assert not long, "split by concept: " + "; ".join(long)
