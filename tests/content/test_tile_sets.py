"""Every tile set that a benchmark tries is a right kernel: the benchmark only decides which is fast."""

from __future__ import annotations

import ast
import runpy
from pathlib import Path

import numpy as np
import pytest
from tests.content.channels_last import ChannelsLast

from warpschool.contract import parse_contract
from warpschool.counters import Counters
from warpschool.course import Course
from warpschool.harness.compare import compare, tolerance_for
from warpschool.harness.launcher import Program, random_inputs
from warpschool.nn import Convolution, convolve, pipelines

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
RAGGED = {"M": 139, "N": 261, "K": 45}
RAGGED_BATCH = {"POSITIONS": 2, "C": 45, "F": 139, "P": 261}


def constant(name: str, file: str = "tile_sets.py") -> tuple:
    """A constant of a benchmark, which cannot be imported without a GPU."""
    for node in ast.parse((BENCHMARKS / file).read_text("utf-8")).body:
        target = node.targets[0] if isinstance(node, ast.Assign) else getattr(node, "target", None)
        if isinstance(target, ast.Name) and target.id == name:
            return ast.literal_eval(node.value)
    raise LookupError(f"{file} has no constant {name}")


SETS = constant("PRODUCT_TILES")


@pytest.mark.parametrize(
    "tiles", [pytest.param(tiles, marks=[pytest.mark.slow] if k else [], id="x".join(map(str, tiles)))
              for k, tiles in enumerate(reversed(SETS))],
)  # fmt: skip
def test_is_right_without_hazards_and_bank_conflicts(tiles: tuple[int, ...]) -> None:
    step = Course.find().step("lab05_work_per_thread/07_warp_tiled")
    contract = parse_contract(step.solution.read_text("utf-8"), name=step.file_name)
    constants = dict(zip(constant("TILE_NAMES"), tiles, strict=True))
    inputs = random_inputs(contract.bind(RAGGED, constants=constants))
    result = Program(contract, device="sim", constants=constants).run(RAGGED, inputs)
    assert not result.hazards
    expected = inputs["A"].astype(np.float64) @ inputs["B"]
    report = compare(result.outputs["C"], expected, tolerance=tolerance_for(np.float32, k=RAGGED["K"]), name="C")
    assert report.ok, report
    assert result.counters.shared_load_bank_conflicts == result.counters.shared_store_bank_conflicts == 0


@pytest.mark.parametrize(
    "tiles", [pytest.param(tiles, marks=[pytest.mark.slow] if k else [], id="x".join(map(str, tiles)))
              for k, tiles in enumerate(reversed(constant("TILES", "winograd.py")))],
)  # fmt: skip
def test_batched_product_is_right_without_hazards_and_bank_conflicts(tiles: tuple[int, ...]) -> None:
    step = Course.find().step("lab09_winograd/03_batched_gemm")
    contract = parse_contract(step.solution.read_text("utf-8"), name=step.file_name)
    constants = dict(zip(constant("TILE_NAMES", "winograd.py"), tiles, strict=True))
    inputs = random_inputs(contract.bind(RAGGED_BATCH, constants=constants))
    result = Program(contract, device="sim", constants=constants).run(RAGGED_BATCH, inputs)
    assert not result.hazards
    expected = inputs["U"].astype(np.float64).transpose(0, 2, 1) @ inputs["V"]
    tolerance = tolerance_for(np.float32, k=RAGGED_BATCH["C"])
    report = compare(result.outputs["M"], expected, tolerance=tolerance, name="M")
    assert report.ok, report
    assert result.counters.shared_bank_conflicts == 0


@pytest.mark.parametrize(
    "tiles", [pytest.param(tiles, marks=[pytest.mark.slow] if k else [], id="x".join(map(str, tiles)))
              for k, tiles in enumerate(reversed(constant("TILES", "winograd.py")))],
)  # fmt: skip
def test_product_in_parts_is_right_without_hazards_and_bank_conflicts(tiles: tuple[int, ...]) -> None:
    sizes = RAGGED_BATCH | {"C": 75}  # two parts and a bit
    outputs, inputs, counters = _in_parts(sizes, tiles, part=32)
    scale = np.abs(inputs["U"]).transpose(0, 2, 1).astype(np.float64) @ np.abs(inputs["V"])
    expected = inputs["U"].astype(np.float64).transpose(0, 2, 1) @ inputs["V"]
    tolerance = tolerance_for(np.float32, k=sizes["C"], scale=scale)
    report = compare(outputs["M"], expected, tolerance=tolerance, name="M")
    assert report.ok, report
    assert counters.shared_bank_conflicts == 0


@pytest.mark.slow
def test_product_in_parts_errs_less() -> None:
    sizes = {"POSITIONS": 1, "C": 256, "F": 64, "P": 128}
    tiles = constant("TILES", "winograd.py")[-1]
    errors = []
    for part in (32, 256):
        outputs, inputs, _ = _in_parts(sizes, tiles, part=part)
        expected = inputs["U"].astype(np.float64).transpose(0, 2, 1) @ inputs["V"]
        errors.append(np.square(outputs["M"] - expected).mean() ** 0.5)
    assert errors[0] < errors[1] / 2


def _in_parts(
    sizes: dict[str, int], tiles: tuple[int, ...], *, part: int
) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray], Counters]:
    """Outputs, inputs and counters of benchmarks/kernels/sums_in_parts.cu on the simulator, free of hazards."""
    text = (BENCHMARKS / "kernels" / "sums_in_parts.cu").read_text("utf-8")
    contract = parse_contract(text, name="sums_in_parts.cu")
    constants = dict(zip(constant("TILE_NAMES", "winograd.py"), tiles, strict=True)) | {"PART": part}
    inputs = random_inputs(contract.bind(sizes, constants=constants))
    result = Program(contract, device="sim", constants=constants).run(sizes, inputs)
    assert not result.hazards
    return result.outputs, inputs, result.counters


@pytest.mark.slow
@pytest.mark.parametrize("sizes", [{"M": 139, "N": 264, "K": 72}, {"M": 70, "N": 261, "K": 45}], ids=["whole", "odd"])
@pytest.mark.parametrize(
    ("name", "tiles"),
    [pytest.param(name, tiles, id=f"{name[:2]}-{'x'.join(map(str, tiles))}")
     for name, sets in constant("TILES", "tensor_cores.py").items() for tiles in sets if name != "06_wgmma"],
)  # fmt: skip
def test_product_on_tensor_cores_is_right(name: str, tiles: tuple[int, ...], sizes: dict[str, int]) -> None:
    step = Course.find().step(f"lab07_tensor_cores/{name}")
    contract = parse_contract(step.solution.read_text("utf-8"), name=step.file_name)
    constants = dict(zip(constant("TILE_NAMES", "tensor_cores.py")[name], tiles, strict=True))
    inputs = random_inputs(contract.bind(sizes, constants=constants))
    result = Program(contract, device="sim", constants=constants).run(sizes, inputs)
    assert not result.hazards
    expected = inputs["A"].astype(np.float64) @ inputs["B"]
    scale = np.abs(inputs["A"].astype(np.float64)) @ np.abs(inputs["B"])
    tolerance = tolerance_for(np.float32, k=sizes["K"], scale=scale)
    report = compare(result.outputs["C"], expected, tolerance=tolerance, name="C")
    assert report.ok, report
    assert result.counters.shared_load_bank_conflicts == 0


@pytest.mark.slow
@pytest.mark.parametrize("tiles", constant("TILES", "tensor_cores.py")["06_wgmma"][1:], ids=str)
def test_product_of_warpgroups_is_right_with_other_tiles(tiles: tuple[int, ...]) -> None:
    step = Course.find().step("lab07_tensor_cores/06_wgmma")
    contract = parse_contract(step.solution.read_text("utf-8"), name=step.file_name)
    constants = dict(zip(constant("TILE_NAMES", "tensor_cores.py")["06_wgmma"], tiles, strict=True))
    sizes = {"M": 139, "N": 264, "K": 600}  # ten tiles of K: all stages, and two of them again
    inputs = random_inputs(contract.bind(sizes, constants=constants))
    result = Program(contract, device="sim", constants=constants).run(sizes, inputs)
    assert not result.hazards
    expected = inputs["A"].astype(np.float64) @ inputs["B"].astype(np.float64)
    tolerance = tolerance_for(np.float16, k=sizes["K"])
    assert compare(result.outputs["C"], expected, tolerance=tolerance, name="C").ok


@pytest.mark.parametrize(("cols", "width"), [(37, 40), (1030, 1032), (40, 37), (1, 8), (8, 1)])
def test_padded_rows_hold_what_was_there_and_zeros(cols: int, width: int) -> None:
    source = (BENCHMARKS / "kernels" / "pad_rows.cu").read_text("utf-8")
    contract = parse_contract(source, name="pad_rows.cu")
    given = np.random.default_rng(1).standard_normal((3, cols)).astype(np.float16)
    result = Program(contract, device="sim").run({"rows": 3, "cols": cols, "width": width}, {"from": given})
    assert not result.hazards
    kept = min(cols, width)
    expected = np.zeros((3, width), np.float16)
    expected[:, :kept] = given[:, :kept]
    assert np.array_equal(result.outputs["to"], expected)


def check_convolution(step: str, constants: dict[str, int], problem: Convolution, dtype: str = "float32") -> None:
    found = Course.find().step(f"lab08_convolution/{step}")
    contract = parse_contract(found.solution.read_text("utf-8"), name=found.file_name)
    own = Program(contract, device="sim", constants=constants)
    x, w = problem.arrays(np.random.default_rng(1), dtype)
    pipeline = ChannelsLast(own) if dtype == "float16" else pipelines.OneFile(own)
    result = pipelines.run(pipeline, x, w, stride=problem.stride, pad=problem.pad)
    assert not result.hazards
    expected = convolve(x, w, stride=problem.stride, pad=problem.pad)
    report = compare(result.y.get(), expected, tolerance=tolerance_for(dtype, k=problem.terms), name="y")
    assert report.ok, report
    assert result.counters.shared_bank_conflicts == 0


@pytest.mark.slow
@pytest.mark.parametrize("tiles", constant("IMPLICIT_TILES", "convolution.py"), ids=lambda t: "x".join(map(str, t)))
def test_implicit_product_is_right(tiles: tuple[int, ...]) -> None:
    constants = dict(zip(constant("IMPLICIT_NAMES", "convolution.py"), tiles, strict=True))
    constants |= {"FIXED_R": 3, "FIXED_S": 3, "FIXED_STRIDE": 1, "FIXED_PAD": 1}
    problem = Convolution(batch=2, channels=5, height=9, width=10, filters=70, rows=3, cols=3, pad=1)
    check_convolution("07_implicit_gemm", constants, problem)


@pytest.mark.slow
@pytest.mark.parametrize("tiles", constant("HALF_TILES", "convolution.py"), ids=lambda t: "x".join(map(str, t)))
def test_half_precision_product_is_right(tiles: tuple[int, ...]) -> None:
    constants = dict(zip(constant("HALF_NAMES", "convolution.py"), tiles, strict=True))
    problem = Convolution(batch=2, channels=64, height=9, width=10, filters=70, rows=3, cols=3, stride=2, pad=1)
    check_convolution("11_fp16_implicit_gemm", constants, problem, "float16")


@pytest.mark.slow
@pytest.mark.parametrize("shape", constant("SHAPES", "convolution.py"), ids=lambda s: "x".join(map(str, s)))
def test_register_tiles_are_right(shape: tuple[int, ...]) -> None:
    constants = dict(zip(("QUADS", "FPT", "IMAGES", "GROUPS", "BLOCKS"), shape, strict=True))
    problem = Convolution(batch=9, channels=2, height=12, width=12, filters=41, rows=5, cols=5)
    constants |= {"MOST": 576, "BLOCKS": 1, "SETS": 2}
    check_convolution("12_register_tiles", constants, problem)
    fixed = {"FIXED_C": 2, "FIXED_H": 12, "FIXED_W": 12, "FIXED_F": 41, "FIXED_PAD": 0}
    check_convolution("12_register_tiles", constants | fixed, problem)


@pytest.mark.parametrize(
    ("step", "more"),
    [("04_split_c_warp", {"WC": 2, "TK": 2}), ("05_split_c_block", {"BC": 2, "TK": 1}),
     ("06_split_c_grid", {"SPLITS": 2, "TK": 1})],
)  # fmt: skip
def test_channels_are_split_right_with_wide_tiles(step: str, more: dict[str, int]) -> None:
    """Planes in shared memory are padded: their rows end where no row of the next one begins."""
    problem = Convolution(batch=1, channels=5, height=9, width=19, filters=32, rows=3, cols=3, pad=1)
    found = Course.find().step(f"lab12_split_channels/{step}")
    contract = parse_contract(found.solution.read_text("utf-8"), name=found.file_name)
    x, w = problem.arrays(np.random.default_rng(1))
    given = {"x": x, "w": np.ascontiguousarray(w.transpose(1, 2, 3, 0))}
    program = Program(contract, device="sim", constants={"TH": 3, "TW": 8, "BH": 1, "BW": 2, "STEP": 4} | more)
    run = program.run(problem.sizes, given)
    assert np.abs(run.outputs["y"] - convolve(x, w, pad=1)).max() < 1e-4
    assert run.hazards == ()


def rule() -> dict:
    return runpy.run_path(str(BENCHMARKS / "tile_rule.py"), run_name="rule")


def test_the_rule_knows_every_tile_set(monkeypatch) -> None:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    found = rule()
    assert set(found["fitted_rule"]()[0]) == {(tiles, ragged) for tiles in SETS for ragged in (False, True)}
    (small, _), (large, whole) = (found["choose"](shape, sms=132) for shape in ((100, 100, 100), (4096, 4096, 4096)))
    assert small[0] * small[1] < large[0] * large[1] and whole == 1


def test_the_rule_divides_k_where_c_is_small_and_k_long(monkeypatch) -> None:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    found = rule()
    tiles, splits = found["choose"]((86, 94, 5368), sms=132)
    assert splits > 4 and splits in found["divisions"](tiles, (86, 94, 5368), sms=132)
    assert found["choose"]((86, 94, 64), sms=132)[1] == 1


@pytest.mark.parametrize("shape", [(64, 64, 8192), (333, 77, 1001), (8192, 8192, 8192)])
def test_no_part_of_k_is_empty_and_all_blocks_fit(shape, monkeypatch) -> None:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    found = rule()
    for tiles in SETS:
        for splits in found["divisions"](tiles, shape, sms=132):
            part = found["part_of_k"](tiles, shape[2], splits)
            assert (splits - 1) * part < shape[2] <= splits * part
            assert splits == 1 or splits * found["blocks"](tiles, shape) <= 132 * found["together"](tiles)


def test_the_rule_finds_the_pace_that_times_were_made_with(monkeypatch) -> None:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    found = rule()
    tiles, pace = SETS[0], found["Pace"](400.0, 700.0, 2.0, found["together"](SETS[0]))
    join = found["Join"](3.0, 0.05)
    shapes = [(64 * k, 128 * j, 256 * i) for k in (1, 9, 50) for j in (1, 7, 40) for i in (1, 8)]
    ways = [(shape, splits) for shape in shapes for splits in (1, 4) if splits == 1 or shape[0] == 64]
    times = [
        (shape, splits, found["time_us"](tiles, pace, shape, sms=132, splits=splits, join=join))
        for shape, splits in ways
    ]  # fmt: skip
    again = found["fitted"](tiles, times, sms=132, join=join)
    errors = [
        found["time_us"](tiles, again, shape, sms=132, splits=splits, join=join) / us for shape, splits, us in times
    ]
    assert min(errors) > 0.97 and max(errors) < 1.03
    added = found["joined"]({(tiles, False): times}, {(tiles, False): pace}, sms=132)
    assert added.fixed_us + 4 * tiles[0] * tiles[1] * added.float_ns * 1e-3 == pytest.approx(9.55, rel=0.05)
    assert found["blocks"](tiles, (129, 257, 8)) == 4


@pytest.mark.parametrize(("tiles", "shape", "splits"), [
    ((32, 64, 16, 16, 32, 4, 4), (70, 90, 301), 5), ((64, 64, 8, 32, 32, 8, 4), (33, 65, 40), 1),
    ((32, 32, 32, 16, 32, 4, 4), (70, 36, 300), 4),
])  # fmt: skip
def test_products_with_a_divided_k_are_right(tiles, shape, splits) -> None:
    """The counters are back at zero, too: the next launch finds them so."""
    path = BENCHMARKS / "kernels" / "split_k.cu"
    contract = parse_contract(path.read_text("utf-8"), name=path.name)
    rng = np.random.default_rng(splits)
    (m, n, k), constants = shape, dict(zip(constant("TILE_NAMES"), tiles, strict=True))
    constants["RAGGED"] = int(n % 4 > 0 or k % 4 > 0)
    a, b = (rng.standard_normal(size).astype(np.float32) for size in ((m, k), (k, n)))
    run = Program(contract, device="sim", constants=constants).run(
        {"M": m, "N": n, "K": k, "splits": splits}, {"A": a, "B": b}
    )
    assert np.abs(run.outputs["C"] - a.astype(float) @ b).max() < 1e-5 * k
    assert run.hazards == ()
    assert not run.outputs["arrived"].any()
