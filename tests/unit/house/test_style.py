"""Functions stay short enough to read, as CONTRIBUTING.md promises, and what mypy is to overlook says why."""

from __future__ import annotations

import ast
import re
import tokenize
from pathlib import Path

import pytest
from scripts.house import statements

ROOT = Path(__file__).parents[3]
SOURCE = ROOT / "src"
SIMULATOR_TESTS = ROOT / "tests" / "sim"
MODULES = sorted([*SOURCE.rglob("*.py"), *SIMULATOR_TESTS.glob("*.py")])
CHECKED = sorted(path for name in ("src", "benchmarks", "scripts") for path in (ROOT / name).rglob("*.py"))
"""what mypy reads"""
MOST_FUNCTION_LINES = 60
TABLES = {"opcode_cases.py"}
"""Modules that are a table: a row for every case."""


def too_long(text: str) -> list[str]:
    """Functions whose code is over the limit. Signature and docstring, which teach how to call it, do not count."""
    found = []
    for node in statements(ast.parse(text)):
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


def unexplained(path: Path) -> list[int]:
    """Lines with a `type: ignore` that does not name its errors, or that no reason follows."""
    if b"# type: ignore" not in path.read_bytes():
        return []
    with path.open("rb") as file:
        comments = [(t.start[0], t.string) for t in tokenize.tokenize(file.readline) if t.type == tokenize.COMMENT]
    return [
        line
        for line, text in comments
        if text.startswith("# type: ignore") and not re.match(r"# type: ignore\[[\w, -]+\] +# \w", text)
    ]


def test_an_ignored_type_error_without_a_reason_is_found(tmp_path):
    path = tmp_path / "module.py"
    path.write_text("a = 1  # type: ignore[misc] # why\nb = 1  # type: ignore[misc]\nc = 1  # type: ignore # why\n")
    assert unexplained(path) == [2, 3]


def test_ignored_type_errors_say_why():
    found = {path.relative_to(ROOT).as_posix(): lines for path in CHECKED if (lines := unexplained(path))}
    assert len(CHECKED) > 100 and not found
