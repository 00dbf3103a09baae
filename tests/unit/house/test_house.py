"""The packages' direction: `ptxsim` <- `warpschool` <- `warpcourse`, and no circles.

Each list below holds what still breaks the rule. It may only shrink: an entry that is no longer needed fails, too.
"""

from __future__ import annotations

import functools
import re
from pathlib import Path

from scripts import house

ROOT = Path(__file__).resolve().parents[3]

WRONG_WAY: set[tuple[str, str]] = set()
CIRCLES: set[str] = set()
"""The first module, by name, of every circle."""
_FACE = (
    "adders", "cache", "counters", "errors", "finding", "fragments", "isa", "lazy", "limits", "oracle", "system",
    "tensormap", "texture",
)  # fmt: skip
FACE = {f"ptxsim.{name}" for name in _FACE}
"""Modules of the simulator that others may import, beside the package itself."""
JUDGE, JUDGED = "ptxsim.oracle", ("ptxsim.codegen", "ptxsim.run")


@functools.cache
def ours():
    return house.House.read()


def test_imports_go_one_way():
    assert set(ours().wrong_way()) == WRONG_WAY


def test_nobody_reaches_into_the_simulator():
    assert ours().into_the_simulator(FACE) == []
    others = [path for folder in ("scripts", "benchmarks", "labs") for path in (ROOT / folder).rglob("*")]
    texts = [path.read_text("utf-8") for path in others if path.suffix in (".py", ".ipynb")]
    named = {name for text in texts for name in re.findall(r"\b(?:from|import) (ptxsim\.[\w.]+)", text)}
    assert "ptxsim.fragments" in named and named <= FACE


def test_the_oracle_knows_nothing_of_the_translator():
    arrows = [(a, b) for a, b in ours().arrows if a.startswith(JUDGE)]
    assert arrows and not [(a, b) for a, b in arrows if b.startswith(JUDGED)]


def test_no_modules_import_each_other_in_a_circle():
    circles = ours().circles()
    assert {group[0] for group in circles} == CIRCLES, circles


def test_a_circle_and_a_wrong_arrow_are_found(tmp_path):
    for name, text in {
        "ptxsim/a.py": "def f():\n    from ptxsim.b import g\n",
        "ptxsim/b.py": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from . import a\n",
        "ptxsim/c.py": "import warpschool.d\n",
        "warpschool/d.py": "import ptxsim.a\nimport ptxsim\n",
        "ptxsim/__init__.py": "",
    }.items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    made = house.House.read(tmp_path)
    assert made.circles() == [["ptxsim.a", "ptxsim.b"]]
    assert made.wrong_way() == [("ptxsim.c", "warpschool.d")]
    assert made.into_the_simulator(()) == [("warpschool.d", "ptxsim.a")]
    assert made.into_the_simulator({"ptxsim.a"}) == []
