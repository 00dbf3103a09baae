"""What is timed for the clock: every reference of the course and our own kernels, each at three sizes.

A case becomes plain data here, so that the machine with the GPU needs nothing but NumPy: cubins by their digests, grids,
blocks, and how each array is made. Inputs are those of `random_inputs(plan, seed=SEED)`, except where an array is named
in `INPUTS`: then whoever runs the same case on the simulator calls `inputs_of` for them.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))
from cubins import CARRIED, text_digest
from inputs import make
from tile_sets import Choice, layer_choice, product_choice

from warpschool.clock.machine import find_machine
from warpschool.clock.subject import machine_arch
from warpschool.compile import compile_cuda
from warpschool.contract import Contract, Plan, parse_contract
from warpschool.contract.expressions import evaluate, names_in
from warpschool.course import Course
from warpschool.device.tensors import described
from warpschool.errors import NeedsError, WarpschoolError
from warpschool.inspect.profile import usual_sizes

ROOT = Path(__file__).parents[2]
KERNELS = Path(__file__).parent / "kernels"
FOLDER = CARRIED / "record"
SEED = 19
KINDS = ("small", "medium", "large")
OWN, TILES = "own/", "tiles/"
"""How the names of our own kernels begin, and of those with many tile sets."""
PRODUCTS = (
    (256, 256, 256), (384, 640, 512), (512, 512, 2048), (640, 1280, 320), (777, 999, 555), (1024, 512, 4096),
    (1500, 1500, 1500), (1024, 1024, 1024), (1792, 1792, 896), (2000, 3000, 1000), (2560, 640, 1280),
    (3072, 3072, 512), (3000, 1111, 2222), (4096, 1024, 1024), (128, 4096, 2048), (4096, 128, 2048),
    (5000, 2500, 640), (3584, 3584, 3584),
)  # fmt: skip
LAYER_NAMES = ("Y2", "Y4", "Y5", "Y8", "Y13", "R2", "R4", "R6", "R8", "R9", "R11", "R12")
"""Sizes and layers whose tiles are chosen by prediction; nothing was set on them."""

_PRODUCT = {"small": {"M": 100, "N": 75, "K": 50}, "medium": {"M": 500, "N": 770, "K": 260},
            "large": {"M": 2048, "N": 2048, "K": 2048}}  # fmt: skip
_TENSOR = {"small": {"M": 144, "N": 80, "K": 64}, "medium": {"M": 1008, "N": 752, "K": 528},
           "large": {"M": 4096, "N": 4096, "K": 4096}}  # fmt: skip
_MATRIX: dict[str, dict[str, Any]] = {"small": {"M": 100, "N": 75, "K": 50, "clip": 1.0}, "medium": {"M": 1000, "N": 700, "K": 700},
           "large": {"M": 5000, "N": 7000, "K": 7000}}  # fmt: skip
_CONVOLUTION = {
    "small": {"BATCH": 2, "C": 8, "H": 13, "W": 11, "F": 16, "R": 3, "S": 3, "PAD": 1, "PART": 16, "OH": 13, "OW": 11,
              "P": 96, "POINTS": 96},
    "medium": {"BATCH": 8, "C": 32, "H": 28, "W": 28, "F": 64, "R": 3, "S": 3, "PAD": 1, "PART": 32, "OH": 28, "OW": 28,
               "P": 1568, "POINTS": 512},
    "large": {"BATCH": 32, "C": 64, "H": 56, "W": 56, "F": 128, "R": 3, "S": 3, "PAD": 1, "PART": 28, "OH": 56,
              "OW": 56, "P": 25088, "POINTS": 2048},
}  # fmt: skip
_DENSE = {
    "small": {"BATCH": 10, "IN": 100, "OUT": 84, "CLASSES": 10, "RELU": 1, "MASK": 1},
    "medium": {"BATCH": 64, "IN": 784, "OUT": 500, "CLASSES": 1000, "RELU": 1, "MASK": 1},
    "large": {"BATCH": 256, "IN": 4096, "OUT": 4096, "CLASSES": 1000, "RELU": 1, "MASK": 1},
}  # fmt: skip
_LINE = {"small": {"n": 1000, "N": 1000}, "medium": {"n": 300_001, "N": 300_001}, "large": {"n": 1 << 25, "N": 1 << 25}}
_POOLS = {"small": {"BATCH": 3, "C": 5, "H": 13, "W": 11, "P": 99}, "medium": {"BATCH": 16, "C": 32, "H": 30, "W": 26,
          "P": 700}, "large": {"BATCH": 64, "C": 64, "H": 112, "W": 112, "P": 12544}}  # fmt: skip
_ROWS = {"small": {"ROWS": 50, "COLS": 100, "centred": 1}, "medium": {"ROWS": 1000, "COLS": 777, "centred": 0},
         "large": {"ROWS": 16384, "COLS": 2048, "centred": 1}}  # fmt: skip
_ATTENTION = {"small": {"HEADS": 2, "N": 100, "causal": 1}, "medium": {"HEADS": 8, "N": 1000, "causal": 1},
              "large": {"HEADS": 16, "N": 2048, "causal": 0}}  # fmt: skip
_DECODING = {"small": {"TEXTS": 1, "GROUPS": 2, "N": 100}, "medium": {"TEXTS": 4, "GROUPS": 8, "N": 1000},
             "large": {"TEXTS": 16, "GROUPS": 8, "N": 4096}}  # fmt: skip
SIZES: dict[str, Mapping[str, dict[str, Any]]] = {
    "lab03/02": _MATRIX, "lab03/03": _MATRIX, "lab04/01": _MATRIX, "lab04/02": _MATRIX, "lab00/02": _MATRIX,
    "lab00": _LINE, "lab06/03": _MATRIX, "lab07": _TENSOR, "lab08": _CONVOLUTION, "lab09": _CONVOLUTION,
    "lab12": _CONVOLUTION, "lab13/04": _DENSE, "lab13/05": _DENSE, "lab13": _CONVOLUTION, "lab10/06": _DENSE,
    "lab10/07": _DENSE, "lab10/08": _DENSE, "lab10/09": _CONVOLUTION, "lab10/11": _CONVOLUTION,
    "lab10/12": _CONVOLUTION, "lab10": _POOLS, "lab11/01": _DENSE, "lab11/02": _DENSE, "lab11/03": _POOLS,
    "lab11/04": _CONVOLUTION, "lab11/05": _CONVOLUTION, "lab11/06": _LINE, "lab11/07": _LINE, "lab11/08": _POOLS,
    "lab15": _LINE, "lab16/01": _ROWS, "lab16/02": _ROWS, "lab16/03": _ROWS, "lab16/08": _DECODING, "lab16": _ATTENTION,
}  # fmt: skip
"""By the beginning of a step's name, the longest that fits; all others are products."""
_MORE: dict[str, dict[str, dict[str, Any]]] = {
    "lab05/08": {"small": {"BATCH": 3, "SHARE": 1}, "medium": {"BATCH": 16, "SHARE": 2, "M": 200, "N": 136, "K": 72},
                 "large": {"BATCH": 64, "SHARE": 4, "M": 512, "N": 512, "K": 512}},
    "lab05/10": {"small": {"NNZ": 700}, "medium": {"NNZ": 10_000}, "large": {"NNZ": 200_000}},
    "lab10/07": {"large": {"BATCH": 65_536}}, "lab10/08": {"large": {"BATCH": 65_536}},
    "lab11/01": {"large": {"BATCH": 65_536}},
    "lab13/04": {"medium": {"BATCH": 8}, "large": {"BATCH": 16}},
    "lab13/05": {"medium": {"BATCH": 8}, "large": {"BATCH": 16}},
    "lab12": {"large": {"BATCH": 1, "H": 56, "W": 56, "C": 256, "F": 256}},
    "lab12/09": {"large": {"BATCH": 4, "H": 50, "W": 50, "C": 128, "F": 128}},
    "lab08/08": {"small": {"H": 14, "W": 12}}, "lab08/09": {"small": {"STRIDE": 2}},
    "lab08/12": {"medium": {"H": 14, "W": 14}, "large": {"H": 14, "W": 14, "C": 256, "F": 256}},
    "lab10/09": {"large": {"H": 28, "W": 28, "BATCH": 256}},
    "lab15/06": {"large": {"n": 1 << 23}}, "lab15/07": {"large": {"n": 1 << 22}},
}  # fmt: skip
INPUTS: dict[str, dict[str, dict[str, Any]]] = {
    "lab05/10": {"row_start": {"how": "starts", "total": "NNZ"}, "column": {"how": "below", "limit": "K"}},
    "lab11/01": {"label": {"how": "below", "limit": "CLASSES"}},
    "lab15/07": {"keys": {"how": "below", "limit": 1 << 30}},
}
"""Step -> array -> how it is made; see `inputs.make`."""
SHAPES = {"part": ("PART", "C", "R", "S")}
"""Arrays to which the headers give no shape: what a pipeline would hand over."""


@dataclass(frozen=True)
class Case:
    """A kernel file with sizes: `lab05/07_warp_tiled@medium`."""

    name: str
    contract: Contract
    plan: Plan
    inputs: Mapping[str, Mapping[str, Any]]
    constants: Mapping[str, int] = field(default_factory=dict)


def cases(only: str = "") -> Iterator[Case]:
    """References in the order of the course, then our own kernels: those with `only` in their names."""
    wanted = only.partition("@")[0]
    for path in [s.solution for s in Course(ROOT).kernels() if s.solution is not None]:
        name = f"{path.parent.name.split('_')[0]}/{path.stem}"
        if wanted not in name:
            continue
        contract = parse_contract(path.read_text(encoding="utf-8"), name=path.name)
        for kind in KINDS:
            wish = _of(SIZES, name, _PRODUCT)[kind] | _of(_MORE, name, {}).get(kind, {})
            yield from _case(f"{name}@{kind}", contract, wish, _of(INPUTS, name, {}))
    own = json.loads((KERNELS / "cases.json").read_text()) if (KERNELS / "cases.json").exists() else {}
    for path in sorted(KERNELS.glob("*.cu")):
        if wanted not in f"{OWN}{path.stem}":
            continue
        contract = parse_contract(path.read_text(encoding="utf-8"), name=path.name)
        told = own.get(path.stem, {})
        for kind in (kind for kind in KINDS if kind in told):
            yield from _case(f"own/{path.stem}@{kind}", contract, told[kind], told.get("inputs", {}))


def tile_cases() -> Iterator[Case]:
    """Every candidate of each choice of tiles: `tiles/R22/7@choice`."""
    for choice in tile_choices():
        for number, constants in enumerate(choice.candidates):
            plan = choice.contract.bind(choice.sizes, constants=constants)
            yield Case(f"{TILES}{choice.name}/{number}@choice", choice.contract, plan, {}, constants)


def tile_choices() -> Iterator[Choice]:
    """Products and layers for which the best of some tile sets is to be found."""
    for rows, cols, inner in PRODUCTS:
        yield product_choice(rows, cols, inner)
    for name in LAYER_NAMES:
        yield layer_choice(name)


def _of(table: Mapping[str, Any], name: str, otherwise: Any) -> Any:
    """The entry of the longest key that `name` begins with."""
    keys = [key for key in table if name.startswith(key)]
    return table[max(keys, key=len)] if keys else otherwise


def _case(name: str, contract: Contract, wish: Mapping[str, Any], inputs: Mapping[str, Any]) -> Iterator[Case]:
    try:
        plan = _fitted(contract, wish)
    except WarpschoolError as reason:
        print(f"left out: {name}: {reason.message}")
        return
    yield Case(name, contract, plan, inputs)


def _fitted(contract: Contract, wish: Mapping[str, Any]) -> Plan:
    """The sizes that are wished for; those that a Needs line speaks of stay as usual where it does not hold."""
    usual = usual_sizes(contract)
    sizes = usual | {name: value for name, value in wish.items() if name in usual}
    try:
        return contract.bind(sizes)
    except NeedsError:
        pass
    known = contract.declarations.constexpr_values({})
    for condition in contract.needs:
        values: dict[str, Any] = {**known, **sizes}
        for size in contract.sizes:
            values[size.name] = evaluate(size.tree, values)
        if not evaluate(condition.tree, values):
            sizes |= {name.name: usual[name.name] for name in names_in(condition.tree) if name.name in usual}
    return contract.bind(sizes)


def inputs_of(case: Case) -> dict[str, np.ndarray]:
    """The arrays that a case is given, as the machine with the GPU makes them."""
    return {one["name"]: make(one, SEED) for one in _arrays(case) if one["how"] not in ("poison", "zero")}


def _arrays(case: Case) -> list[dict[str, Any]]:
    found = []
    for name, array in case.plan.arrays.items():
        shape = array.shape
        if shape is None:
            shape = tuple(int(case.plan.scalars[size]) for size in SHAPES[name])
        how: dict[str, Any] = {"how": "zero" if array.zeroed else "poison"}
        if array.is_given:
            how = {"how": "random"} | dict(case.inputs.get(name, {}))
        limits = {
            key: int(case.plan.scalars[value]) for key, value in how.items() if key != "how" and isinstance(value, str)
        }
        found.append({"name": name, "dtype": array.dtype.str, "shape": list(shape), "direction": array.direction,
                      **how, **limits})  # fmt: skip
    return found


# ---------------------------------------------------------------- as plain data


def cubin_of(contract: Contract, constants: Mapping[str, int] | None = None) -> bytes:
    """The machine code that the clock disassembles."""
    arch = machine_arch(contract.arch, find_machine("h200"))
    return compile_cuda(contract.source, name=contract.name, arch=arch, constants=constants).cubin


def data_of(case: Case, digest: str) -> dict[str, Any]:
    """All that the machine with the GPU needs to know."""
    arrays = _arrays(case)
    places = {one["name"]: k for k, one in enumerate(arrays)}
    launches = []
    for launch in case.plan.launches:
        arguments: list[list[Any]] = []
        for parameter in launch.arguments:
            if parameter.box:
                one = arrays[places[parameter.name]]
                stand_in = SimpleNamespace(
                    shape=tuple(one["shape"]), dtype=np.dtype(one["dtype"]), address=1 << 20, name=parameter.name
                )
                found = described(stand_in, launch.boxes[parameter.name], launch.windows.get(parameter.name, ()))  # type: ignore[arg-type]  # it asks for no more
                arguments.append(["map", places[parameter.name], vars(found)])
            elif parameter.is_array:
                arguments.append(["array", places[parameter.name]])
            else:
                value = parameter.ctype.dtype.type(case.plan.scalars[parameter.name])
                arguments.append(["bytes", value.tobytes().hex()])
        launches.append({"entry": launch.entry, "grid": launch.grid, "block": launch.block,
                         "shared": launch.shared_bytes, "arguments": arguments})  # fmt: skip
    fills = [[fill.symbol, places[fill.array]] for fill in case.contract.constants]
    return {"case": case.name, "cubin": digest, "sizes": dict(case.plan.scalars), "arrays": arrays,
            "constants": fills, "launches": launches}  # fmt: skip


def write_plan(only: str = "") -> None:
    """Cubins and manifest into the folder that travels."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    for old in FOLDER.iterdir():
        old.unlink()
    rows = []
    digests: dict[str, tuple[str, str]] = {}
    for case in tile_cases() if only.startswith(TILES) else cases(only):
        if only not in case.name:
            continue
        key = case.name.split("@")[0]
        if case.constants:
            key = " ".join((case.contract.name, *(f"{name}={value}" for name, value in case.constants.items())))
        if key not in digests:
            code = cubin_of(case.contract, case.constants)
            digest = hashlib.sha256(code).hexdigest()
            (FOLDER / f"{digest[:16]}.cubin").write_bytes(code)
            digests[key] = digest, text_digest(code)
        rows.append(data_of(case, digests[key][0][:16]))
    about = {key: {"cubin": whole, "text": text} for key, (whole, text) in digests.items()}
    manifest = {"seed": SEED, "files": about, "nvrtc": _nvrtc(), "cases": rows}
    (FOLDER / "manifest.json").write_text(json.dumps(manifest))
    size = sum(path.stat().st_size for path in FOLDER.iterdir())
    launches = sum(len(row["launches"]) for row in rows)
    print(f"{len(rows)} cases, {launches} launches, {len(digests)} cubins, {size:,} bytes")


def _nvrtc() -> str:
    from warpschool.compile import compiler_report

    return str(compiler_report().get("nvrtc"))
