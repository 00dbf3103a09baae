"""The tile sets among which searches choose: of lab 05's last product, and of lab 12's convolutions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from warpcourse.lab12_split_channels.tiles import LAYERS, constant_names, is_flat, ranked
from warpschool.contract import Contract, parse_contract

ROOT = Path(__file__).parents[1]
PRODUCT = "lab05_work_per_thread/07_warp_tiled"
TILE_NAMES = ("TSM", "TSN", "TSK", "WSM", "WSN", "WPTM", "WPTN")
PRODUCT_TILES = (
    (128, 256, 8, 64, 64, 16, 8),
    (256, 128, 8, 64, 64, 16, 8),
    (128, 128, 8, 64, 64, 16, 8),
    (128, 128, 8, 64, 64, 8, 16),
    (128, 128, 16, 64, 64, 16, 8),
    (128, 128, 8, 32, 64, 8, 8),
    (128, 128, 16, 32, 64, 8, 8),
    (128, 64, 8, 64, 32, 8, 8),
    (128, 64, 16, 64, 32, 8, 8),
    (64, 128, 8, 32, 64, 8, 8),
    (64, 128, 16, 32, 64, 8, 8),
    (96, 128, 16, 48, 64, 12, 8),
    (64, 64, 8, 32, 32, 8, 4),
    (64, 64, 16, 32, 32, 4, 8),
    (64, 64, 16, 32, 32, 8, 4),
    (64, 64, 32, 32, 32, 8, 4),
    (64, 64, 16, 64, 32, 8, 8),
    (64, 32, 16, 32, 16, 4, 4),
    (64, 32, 32, 32, 16, 4, 4),
    (32, 64, 16, 16, 32, 4, 4),
    (32, 64, 32, 16, 32, 4, 4),
    (32, 32, 32, 16, 32, 4, 4),
)
"""Values of TILE_NAMES, in this order."""
LAYER_CANDIDATES = 20
"""Tiles of a layer that are compared: those that lab 12's own model ranks first."""


@dataclass(frozen=True)
class Choice:
    """A kernel with sizes, and the sets of constants that it may have."""

    name: str
    contract: Contract
    sizes: Mapping[str, int]
    candidates: tuple[Mapping[str, int], ...]


def product_choice(rows: int, cols: int, inner: int) -> Choice:
    """A product of lab 05's last step, with every set of PRODUCT_TILES."""
    sets = tuple(dict(zip(TILE_NAMES, tiles, strict=True)) for tiles in PRODUCT_TILES)
    return Choice(f"{rows} x {cols} x {inner}", _contract(PRODUCT), {"M": rows, "N": cols, "K": inner}, sets)


def layer_choice(name: str) -> Choice:
    """A layer of lab 12's table, with the tiles that its model ranks first. Raises KeyError for no layer."""
    problem = LAYERS[name]
    flat = is_flat(problem)
    window = {} if flat else {"FILTER_R": problem.rows, "FILTER_S": problem.cols, "FILTER_STRIDE": problem.stride}
    sets = tuple(
        {constant: getattr(found.tiles, field) for field, constant in constant_names(flat=flat).items()} | window
        for found in ranked(problem)[:LAYER_CANDIDATES]
    )
    step = "07_one_by_one" if flat else "08_strided"
    return Choice(name, _contract(f"lab12_split_channels/{step}"), problem.sizes, sets)


def _contract(step: str) -> Contract:
    path = ROOT / "solutions" / f"{step}.cu"
    return parse_contract(path.read_text(encoding="utf-8"), name=path.name)
