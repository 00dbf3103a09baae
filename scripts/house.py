"""The structure of `src/`, read off its imports: rooms, arrows, circles, statements.

    python scripts/house.py                what there is: modules, statements, circles, arrows the wrong way
    python scripts/house.py --write        writes the picture and the table of docs/design/house.md
    python scripts/house.py --check        writes nothing; fails if the page is out of date

Imports are read from the syntax tree, those below `if TYPE_CHECKING` and inside functions too: an arrow is an arrow.
"""

from __future__ import annotations

import argparse
import ast
import sys
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("ptxsim", "warpschool", "warpcourse")
"""In the direction of the arrows: each may import what stands before it."""


@dataclass(frozen=True)
class House:
    """Every module below a source folder: its statements, and the modules that it imports."""

    statements: Mapping[str, int]
    imports: Mapping[str, frozenset[str]]

    @staticmethod
    def read(source: Path = ROOT / "src") -> House:
        """Parse all modules of the packages."""
        paths = {_name(path, source): path for package in PACKAGES for path in sorted((source / package).rglob("*.py"))}
        paths = {name: path for name, path in paths.items() if "_content" not in name}
        trees = {name: ast.parse(path.read_text("utf-8")) for name, path in paths.items()}
        imports = {name: frozenset(_imported(name, tree, paths)) - {name} for name, tree in trees.items()}
        return House({name: _statements(tree) for name, tree in trees.items()}, imports)

    @cached_property
    def arrows(self) -> tuple[tuple[str, str], ...]:
        """(importer, imported), sorted."""
        return tuple(sorted((name, other) for name, others in self.imports.items() for other in others))

    def wrong_way(self) -> list[tuple[str, str]]:
        """Arrows against the direction of `PACKAGES`."""
        place = {name: number for number, name in enumerate(PACKAGES)}
        return [(a, b) for a, b in self.arrows if place[_package(a)] < place[_package(b)]]

    def into_the_simulator(self, public: Iterable[str]) -> list[tuple[str, str]]:
        """Arrows from outside into modules of the simulator that are not its face."""
        face = {"ptxsim", *public}
        return [(a, b) for a, b in self.arrows if _package(a) != "ptxsim" == _package(b) and b not in face]

    def circles(self) -> list[list[str]]:
        """Groups of modules that import each other, however long the way round (Tarjan's components of several)."""
        number: dict[str, int] = {}
        low: dict[str, int] = {}
        waiting: list[str] = []
        found: list[list[str]] = []

        def visit(name: str) -> None:
            number[name] = low[name] = len(number)
            waiting.append(name)
            for other in sorted(self.imports[name]):
                if other not in number:
                    visit(other)
                    low[name] = min(low[name], low[other])
                elif other in waiting:
                    low[name] = min(low[name], number[other])
            if low[name] == number[name]:
                place = waiting.index(name)
                group = waiting[place:]
                del waiting[place:]
                if len(group) > 1:
                    found.append(sorted(group))

        for name in self.imports:
            if name not in number:
                visit(name)
        return sorted(found)

    def rooms(self) -> dict[str, tuple[int, int]]:
        """Room -> (modules, statements); a room is a folder directly in a package, or the package's loose modules."""
        modules, statements = Counter(map(room, self.statements)), Counter[str]()
        for name, count in self.statements.items():
            statements[room(name)] += count
        return {name: (modules[name], statements[name]) for name in sorted(modules)}

    def room_arrows(self) -> Counter[tuple[str, str]]:
        """How many imports lead from one room into another."""
        return Counter((room(a), room(b)) for a, b in self.arrows if room(a) != room(b))


def room(module: str) -> str:
    """The room of a module: `ptxsim.run`, or `ptxsim` for the modules that stand loose in it."""
    parts = module.split(".")
    is_folder = len(parts) > 1 and (ROOT / "src" / parts[0] / parts[1]).is_dir()
    return ".".join(parts[:2]) if is_folder else parts[0]


def _name(path: Path, source: Path) -> str:
    parts = path.relative_to(source).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _package(module: str) -> str:
    return module.split(".")[0]


def _statements(tree: ast.Module) -> int:
    """Statements of a module; docstrings do not count."""
    return sum(isinstance(node, ast.stmt) and not _is_text(node) for node in ast.walk(tree))


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def _imported(name: str, tree: ast.Module, known: Mapping[str, Path]) -> Iterable[str]:
    package = name if known[name].name == "__init__.py" else name.rpartition(".")[0]
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in known)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                above = package.split(".")[: len(package.split(".")) - node.level + 1]
                base = ".".join([*above, base] if base else above)
            for alias in node.names:
                inner = f"{base}.{alias.name}"
                yield from [inner] if inner in known else [base] if base in known else []


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.parse_args()
    house = House.read()
    print(f"{len(house.statements)} modules, {sum(house.statements.values()):,} statements")
    for name, (modules, statements) in house.rooms().items():
        print(f"  {name:28s} {modules:4d} modules {statements:6,d} statements")
    print("arrows the wrong way:", *[f"{a} -> {b}" for a, b in house.wrong_way()], sep="\n  ")
    print("circles:", *[", ".join(group) for group in house.circles()], sep="\n  ")
    return 0


if __name__ == "__main__":
    sys.exit(main())
