"""The structure of `src/`, read off its imports: rooms, arrows, circles, statements.

    python -m scripts.house            what there is: modules, statements, circles, arrows the wrong way
    python -m scripts.pages house      writes the picture and the table of docs/design/house.md

Imports are read from the syntax tree, those below `if TYPE_CHECKING` and inside functions too: an arrow is an arrow.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from scripts.pages import between

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("ptxsim", "warpschool", "warpcourse")
"""In the direction of the arrows: each may import what stands before it."""
PAGE = ROOT / "docs" / "design" / "house.md"
PICTURE = ROOT / "docs" / "images" / "house.svg"


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

    def room_arrows(self, *, leave_out: Iterable[str] = ()) -> Counter[tuple[str, str]]:
        """How many imports lead from one room into another, those of some modules left out."""
        return Counter((room(a), room(b)) for a, b in self.arrows if room(a) != room(b) and a not in leave_out)


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
    return sum(not _is_text(node) for node in statements(tree))


def statements(of: ast.AST) -> Iterator[ast.stmt]:
    """All statements below a node. No expression holds one, and a module is nine parts expressions."""
    for block in ("body", "handlers", "cases", "orelse", "finalbody"):
        for child in getattr(of, block, ()):
            if isinstance(child, ast.stmt):
                yield child
            yield from statements(child)


def _is_text(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def _imported(name: str, tree: ast.Module, known: Mapping[str, Path]) -> Iterable[str]:
    package = name if known[name].name == "__init__.py" else name.rpartition(".")[0]
    for node in statements(tree):
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


# ---------------------------------------------------------------- the picture

_WIDTH, _HEIGHT, _GAP, _LEVEL, _MARGIN = 206, 46, 14, 92, 26
_COLOURS = {"ptxsim": "#2a6f97", "warpschool": "#52796f", "warpcourse": "#9c6644"}


def layered(house: House) -> tuple[Counter[tuple[str, str]], Counter[tuple[str, str]]]:
    """Arrows between rooms that can all point down, and those left out for it: of every circle the thinnest.

    A package's face (its `__init__`) names what others may use, so its arrows say nothing about layers.
    """
    down = house.room_arrows(leave_out=PACKAGES)
    up = Counter[tuple[str, str]]()
    while True:
        below = {name: {b for a, b in down if a == name} for name in house.rooms()}
        reach = {name: _reach(name, below) for name in below}
        round_about = [(count, pair) for pair, count in down.items() if pair[0] in reach[pair[1]]]
        if not round_about:
            return down, up
        count, pair = min(round_about)
        up[pair] = count
        del down[pair]


def levels(house: House) -> dict[str, int]:
    """Room -> how many rooms lie below it on the longest way down."""
    below: dict[str, set[str]] = {name: set() for name in house.rooms()}
    for a, b in layered(house)[0]:
        below[a].add(b)
    found: dict[str, int] = {}

    def level(name: str) -> int:
        if name not in found:
            found[name] = 1 + max(map(level, below[name]), default=-1)
        return found[name]

    return {name: level(name) for name in below}


def _reach(start: str, below: Mapping[str, set[str]]) -> set[str]:
    seen: set[str] = set()
    waiting = [start]
    while waiting:
        for other in below[waiting.pop()] - seen:
            seen.add(other)
            waiting.append(other)
    return seen


def picture(house: House) -> str:
    """An SVG: a box for each room, what it stands on below it, an arrow for what no arrow over a third room says."""
    level, rooms = levels(house), house.rooms()
    rows = {number: [name for name in rooms if level[name] == number] for number in sorted(set(level.values()))}
    widest = max(map(len, rows.values()))
    width = 2 * _MARGIN + widest * (_WIDTH + _GAP) - _GAP
    height = 2 * _MARGIN + (len(rows) - 1) * _LEVEL + _HEIGHT
    place = {}
    for number, names in rows.items():
        left = (width - len(names) * (_WIDTH + _GAP) + _GAP) / 2
        for k, name in enumerate(names):
            place[name] = (left + k * (_WIDTH + _GAP), height - _MARGIN - _HEIGHT - number * _LEVEL)
    direct = set(layered(house)[0])
    shown = {(a, b) for a, b in direct if not any((a, c) in direct and (c, b) in direct for c in rooms)}
    lines = [_arrow(place[a], place[b]) for a, b in sorted(shown)]
    boxes = [_box(name, place[name], *rooms[name]) for name in rooms]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        f'font-family="sans-serif" font-size="12"><rect width="100%" height="100%" fill="#fcfcfa"/>\n'
        + "\n".join([*lines, *boxes]) + "\n</svg>\n"
    )  # fmt: skip


def _arrow(above: tuple[float, float], below: tuple[float, float]) -> str:
    (x1, y1), (x2, y2) = (above[0] + _WIDTH / 2, above[1] + _HEIGHT), (below[0] + _WIDTH / 2, below[1])
    bend = (y2 - y1) / 2
    return (
        f'<path d="M{x1:.0f} {y1:.0f}C{x1:.0f} {y1 + bend:.0f} {x2:.0f} {y2 - bend:.0f} {x2:.0f} {y2:.0f}" '
        f'fill="none" stroke="#8a929a" stroke-width="1.1"/>'
        f'<path d="M{x2 - 4:.0f} {y2 - 7:.0f}L{x2:.0f} {y2:.0f}L{x2 + 4:.0f} {y2 - 7:.0f}z" fill="#8a929a"/>'
    )


def _box(name: str, corner: tuple[float, float], modules: int, statements: int) -> str:
    x, y = corner
    package, _, inner = name.partition(".")
    return (
        f'<rect x="{x:.0f}" y="{y:.0f}" width="{_WIDTH}" height="{_HEIGHT}" rx="5" fill="{_COLOURS[package]}"/>'
        f'<text x="{x + _WIDTH / 2:.0f}" y="{y + 19:.0f}" fill="#fff" text-anchor="middle" font-weight="600">'
        f"{package}{'/' + inner if inner else ''}</text>"
        f'<text x="{x + _WIDTH / 2:.0f}" y="{y + 36:.0f}" fill="#fff" text-anchor="middle" font-size="11">'
        f"{modules} module{'s' * (modules != 1)}, {statements:,} statements</text>"
    )


# ---------------------------------------------------------------- the page


def table(house: House) -> str:
    """What each room holds and what it stands on, as Markdown."""
    arrows = house.room_arrows()
    lines = ["| room | modules | statements | imports |", "|---|---:|---:|---|"]
    for name, (modules, statements) in house.rooms().items():
        others = ", ".join(f"`{b}`" for a, b in sorted(arrows) if a == name)
        lines.append(f"| `{name}` | {modules} | {statements:,} | {others or 'nothing here'} |")
    total = f"| in all | {len(house.statements)} | {sum(house.statements.values()):,} | |"
    back = ", ".join(f"`{a}` → `{b}` ({count})" for (a, b), count in sorted(layered(house)[1].items()))
    return "\n".join([*lines, total, "", f"Imports against the layers of the picture: {back or 'none'}."])


def files() -> dict[Path, str]:
    """The page with its table anew, and the picture."""
    house = House.read()
    return {PICTURE: picture(house), PAGE: between(PAGE.read_text("utf-8"), "rooms", table(house))}


def main() -> None:
    """Print what there is."""
    house = House.read()
    print(f"{len(house.statements)} modules, {sum(house.statements.values()):,} statements")
    for name, (modules, statements) in house.rooms().items():
        print(f"  {name:32s} {modules:4d} modules {statements:6,d} statements")
    print("arrows the wrong way:", *[f"{a} -> {b}" for a, b in house.wrong_way()], sep="\n  ")
    print("circles:", *[", ".join(group) for group in house.circles()], sep="\n  ")


if __name__ == "__main__":
    main()
