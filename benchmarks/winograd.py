"""Winograd's convolution on a GPU against cuDNN in the same run: VGG16's layers, and one of 5 x 5.

    python benchmarks/winograd.py [--out FILE] [--tune] [--seconds 0.5] [--only LAYER ...]

cuDNN twice: as PyTorch calls it, in benchmark mode, TF32 off, and by the fastest of its algorithms. Ours are four
kernels as in lab 09, the filters' transform included each time. F(7x7,3x3), by which VGG16's layers are cut without
rest, and F(4x4,5x5) take transforms written from the exact matrices; where sums are long, the product sums in parts
(kernels/sums_in_parts.cu), which errs less. The first layer takes 06_three_channels, which adds bias and ReLU too.
Every layer is first compared with a float64 convolution of some of its images and filters, then timed in turns with
each, the L2 cache flushed before each sample. `--forms` compares other forms of the method with F(4x4,3x3). Layers of
few channels take one kernel for all transforms and products (kernels/fused_winograd.cu) where it is faster;
`four_kernels_ms` and `one_kernel_ms` are both. Three layers of 1 x 1, which VGG's configuration C has, are products for
each image, of filters that are turned before. `floor_ms` is what products take at 50 TFLOP/s, or arrays at 4.3 TB/s,
whichever is longer, stage by stage.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

try:
    import cupy
    import torch
except ImportError:
    raise SystemExit("this needs a GPU, CuPy and PyTorch: pip install 'warpschool[cuda13,torch]'") from None

import numpy as np
from cudnn_algorithms import Best, against_best, fastest

import warpschool as ws
from warpschool.contract import parse_contract
from warpschool.device import DeviceArray, repeated
from warpschool.device.measurement import Rules
from warpschool.harness.launcher import Program
from warpschool.nn import Convolution
from warpschool.nn.pipelines import Convolved, FewChannels, Winograd
from warpschool.nn.winograd import Matrices, matrices, sources, tiles

LAB = Path(__file__).parent.parent / "solutions" / "lab09_winograd"
FUSED = Path(__file__).parent / "kernels" / "fused_winograd.cu"
IN_PARTS = FUSED.with_name("sums_in_parts.cu")
FUSED_SIDE, FUSED_CHANNELS = 8, 32
"""pixels of its tiles along each axis, and the most channels whose tiles a block can hold"""
TILE_NAMES = ("TSF", "TSP", "TSC", "WSF", "WSP", "WPTF", "WPTP", "BLOCKS")
TILES: tuple[tuple[int, ...], ...] = (
    (64, 128, 8, 32, 64, 8, 8, 4),
    (128, 128, 8, 32, 64, 8, 8, 2),
    (128, 64, 8, 64, 32, 8, 8, 3),
    (64, 128, 8, 32, 64, 8, 8, 3),
    (128, 64, 8, 64, 32, 8, 8, 4),
    (64, 128, 16, 32, 64, 8, 8, 3),
    (64, 128, 16, 32, 64, 8, 8, 4),
)
"""Tile sets of 03_batched_gemm that `--tune` tries: those named in TILE_NAMES, in this order."""
TALL, DEEP, DENSE = TILES[2], TILES[5], TILES[6]
FLOPS = 50e12
BYTES_PER_SECOND = 4.3e12
CHECKED_IMAGES, CHECKED_FILTERS = 2, 8


@dataclass(frozen=True)
class Form:
    """A form of Winograd's method: tiles of m x m results, by other points than the usual ones, by sums in parts."""

    m: int
    part: int = 0
    """channels that the product sums at a time; 0: all"""
    points: tuple[str, ...] = ()

    def told(self, filter_size: int) -> str:
        """As tables name it."""
        points = f", points {' '.join(self.points)}" if self.points else ""
        return f"F({self.m}x{self.m},{filter_size}x{filter_size}){points}{', sums in parts' if self.part else ''}"


SEVEN, SEVEN_IN_PARTS = Form(7), Form(7, part=64)
FORMS = (Form(4, points=("0", "2/3", "-2/3", "3/2", "-3/2")), Form(5), Form(6), SEVEN, SEVEN_IN_PARTS)
"""What `--forms` compares with F(4x4,3x3), beside F(2x2,3x3) by four kernels and by one."""


@dataclass(frozen=True, kw_only=True)
class Layer:
    """A layer; the tile set of its product, and the form, that were best on an H200."""

    name: str
    problem: Convolution
    tiles: tuple[int, ...] = ()
    form: Form = Form(4)


def _vgg(
    number: int, channels: int, filters: int, size: int, best: tuple[int, ...] = (), form: Form = SEVEN_IN_PARTS
) -> Layer:
    problem = Convolution(
        batch=32, channels=channels, height=size, width=size, filters=filters, rows=3, cols=3, pad=1
    )  # fmt: skip
    return Layer(name=f"vgg{number:02d}", problem=problem, tiles=best, form=form)


def _single(number: int, channels: int, size: int) -> Layer:
    """A layer of 1 x 1 of VGG's configuration C."""
    problem = Convolution(
        batch=32, channels=channels, height=size, width=size, filters=channels, rows=1, cols=1
    )  # fmt: skip
    return Layer(name=f"single{number:02d}", problem=problem, tiles=DEEP)


LAYERS = (
    _vgg(1, 3, 64, 224),
    _vgg(2, 64, 64, 224, DENSE, SEVEN),
    _vgg(3, 64, 128, 112, DENSE, SEVEN),
    _vgg(4, 128, 128, 112, DEEP),
    _vgg(5, 128, 256, 56, DEEP),
    *(_vgg(n, 256, 256, 56, DEEP) for n in (6, 7)),
    _vgg(8, 256, 512, 28, DEEP),
    *(_vgg(n, 512, 512, 28, DEEP) for n in (9, 10)),
    *(_vgg(n, 512, 512, 14, DEEP) for n in (11, 12, 13)),
    *(_single(n, channels, size) for n, channels, size in ((7, 256, 56), (10, 512, 28), (13, 512, 14))),
    Layer(
        name="lenet2",
        problem=Convolution(batch=10_000, channels=32, height=12, width=12, filters=64, rows=5, cols=5),
        tiles=DENSE,
    ),
)


@dataclass(frozen=True, kw_only=True)
class Row:
    """One layer; `ratio` below 1 means faster than cuDNN."""

    layer: str
    method: str
    tiles: dict[str, int]
    max_error: float
    """largest error, of the largest result"""
    cudnn_error: float
    stages_ms: dict[str, float]
    floor_ms: float
    time_ms: float
    cudnn_ms: float
    ratio: float
    ratio_error: float
    stable: bool
    best: Best
    """cuDNN's fastest algorithm"""
    four_kernels_ms: float | None = None
    one_kernel_ms: float | None = None


def program(text: str, name: str, constants: dict[str, int] | None = None) -> Program:
    return Program(parse_contract(text, name=name), device="gpu", constants=constants)


@cache
def lab(name: str, best: tuple[int, ...] = ()) -> Program:
    """A reference kernel of lab 09, with these tiles."""
    constants = dict(zip(TILE_NAMES, best, strict=True)) if best else None
    return program((LAB / name).read_text(encoding="utf-8"), name, constants)


@cache
def transforms(m: int, r: int, points: tuple[str, ...] = ()) -> tuple[Program, Program, Program]:
    """The lab's own for F(4,3), else written from the matrices."""
    if (m, r) == (4, 3) and not points:
        return lab("01_filter_transform.cu"), lab("02_input_transform.cu"), lab("04_output_transform.cu")
    exact = matrices(m, r, points or None)
    filters, images, results = (program(text, name) for name, text in sources(exact).items())
    return filters, images, results


@cache
def product(best: tuple[int, ...], part: int) -> Program:
    """The lab's own, or that which sums `part` channels at a time."""
    if not part:
        return lab("03_batched_gemm.cu", best)
    return program(IN_PARTS.read_text(encoding="utf-8"), IN_PARTS.name, _constants(best, part))


def _constants(best: tuple[int, ...], part: int) -> dict[str, int]:
    return dict(zip(TILE_NAMES, best, strict=True)) | ({"PART": part} if part else {})


@dataclass(frozen=True)
class Way:
    """A way to compute a layer that has been taken once: what does it again, whole and stage by stage."""

    method: str
    y: DeviceArray
    work: Callable[[], Any]
    stages: dict[str, Callable[[], Any]]
    floor_ms: float
    tiles: bool = True
    """whether the product has tiles to choose"""


def prepared(
    layer: Layer, best: tuple[int, ...], x: DeviceArray, w: DeviceArray, form: Form | None = None
) -> tuple[Convolved, Matrices]:
    """Run the layer once, by this form or by its own; its launches can be repeated."""
    problem = layer.problem
    if problem.channels <= 3:
        few = FewChannels(filters=lab("01_filter_transform.cu"), whole=lab("06_three_channels.cu"))
        return few(problem, x, w), few.exact
    form = form or layer.form
    filters, images, results = transforms(form.m, problem.rows, form.points)
    pipeline = Winograd(filters=filters, images=images, product=product(best, form.part), results=results)
    return pipeline(problem, x, w), pipeline.exact


@cache
def fused_program(m: int, channels: int) -> Program:
    """All stages in one kernel, by tiles of m x m results."""
    return program(FUSED.read_text(encoding="utf-8"), FUSED.name, {"TILE": m, "CHANNELS": channels})


def fits_one_kernel(problem: Convolution) -> bool:
    return 4 <= problem.channels <= FUSED_CHANNELS and problem.channels % 4 == 0 and problem.filters % 32 == 0


def fused(problem: Convolution, x: DeviceArray, w: DeviceArray) -> tuple[Convolved, Matrices]:
    """Run the layer once by one kernel, and one for its filters."""
    exact = matrices(FUSED_SIDE - problem.rows + 1, problem.rows)
    device = ws.get_device("gpu")
    y = device.empty(problem.output_shape, np.float32, name="y")
    u = device.empty(exact.positions * problem.channels * problem.filters, np.float32, name="U")
    sizes = {name: problem.sizes[name] for name in ("BATCH", "C", "H", "W", "F", "PAD")}
    launches = fused_program(exact.m, problem.channels).enqueue(sizes, {"x": x, "w": w, "U": u, "y": y})
    return Convolved(y, launches, u.nbytes), exact


def fused_floor_ms(problem: Convolution, exact: Matrices) -> float:
    """The same where nothing of a tile is stored but its results."""
    down, across = tiles(problem, exact)
    shapes = (problem.image_shape, problem.filter_shape, problem.output_shape)
    nbytes = 4 * (sum(math.prod(shape) for shape in shapes) + 2 * exact.positions * problem.channels * problem.filters)
    products = 2 * exact.positions * problem.channels * problem.filters * problem.batch * down * across
    return 1e3 * max(products / FLOPS, nbytes / BYTES_PER_SECOND)


def floor_ms(problem: Convolution, exact: Matrices) -> float:
    """The least that the stages take: each by its products or by its bytes."""
    down, across = tiles(problem, exact)
    count = problem.batch * down * across
    shapes = (problem.image_shape, problem.filter_shape, problem.output_shape)
    image, filters, result = (4 * math.prod(shape) for shape in shapes)
    if problem.channels <= 3:
        return 1e3 * (image + result) / BYTES_PER_SECOND
    u, v, m = (4 * exact.positions * a * b for a, b in (
        (problem.channels, problem.filters), (problem.channels, count), (problem.filters, count)))  # fmt: skip
    products = 2 * exact.positions * problem.channels * problem.filters * count / FLOPS
    transforms_s = (filters + u + image + v + m + result) / BYTES_PER_SECOND
    return 1e3 * (transforms_s + max(products, (u + v + m) / BYTES_PER_SECOND))


def errors(layer: Layer, x: Any, w: Any, results: Sequence[Any]) -> list[float]:
    """Largest errors of some images and filters of each result, of the largest result; raises ArithmeticError."""
    problem, pad = layer.problem, layer.problem.pad
    some, few = x[:CHECKED_IMAGES].astype(cupy.float64), w[:CHECKED_FILTERS].astype(cupy.float64)
    padded = cupy.pad(some, ((0, 0), (0, 0), (pad, pad), (pad, pad)))
    height, width = problem.out_height, problem.out_width
    exact = sum(
        cupy.einsum("nchw,fc->nfhw", padded[:, :, r : r + height, s : s + width], few[:, :, r, s])
        for r in range(problem.rows)
        for s in range(problem.cols)
    )
    found = []
    for k, result in enumerate(results):
        part = result[: exact.shape[0], : exact.shape[1]].astype(cupy.float64)
        expected = cupy.maximum(exact, 0) if k == 0 and problem.channels <= 3 else exact
        found.append(float(cupy.abs(part - expected).max() / cupy.abs(exact).max()))
        if not found[-1] < 1e-3:
            raise ArithmeticError(f"{layer.name}: an error of {found[-1]:.2g} of the largest result")
    return found


def transformed(layer: Layer, best: tuple[int, ...], x: DeviceArray, w: DeviceArray) -> tuple[Way, float, float | None]:
    """By Winograd's method: the faster of four kernels and one, and the times of both."""
    done, exact = prepared(layer, best, x, w)
    few = layer.problem.channels <= 3
    name = f"{exact}, 06_three_channels" if few else layer.form.told(layer.problem.rows)
    stages: dict[str, Callable[[], Any]] = {launch.kernel: launch.again for launch in done.launches}
    way = Way(name, done.y, repeated(done.launches), stages, floor_ms(layer.problem, exact), bool(best))
    four_ms = _quick(way.work)
    if not fits_one_kernel(layer.problem):
        return way, four_ms, None
    done, exact = fused(layer.problem, x, w)
    stages = {launch.kernel: launch.again for launch in done.launches}
    other = Way(f"{exact}, one kernel", done.y, repeated(done.launches), stages,
                fused_floor_ms(layer.problem, exact), tiles=False)  # fmt: skip
    one_ms = _quick(other.work)
    return (other if one_ms < four_ms else way), four_ms, one_ms


def multiplied(layer: Layer, best: tuple[int, ...], x: DeviceArray, w: DeviceArray) -> Way:
    """A layer of 1 x 1: filters x channels times channels x places, for each image; filters turned, once for each."""
    problem, device = layer.problem, ws.get_device("gpu")
    y = device.empty(problem.output_shape, np.float32, name="y")
    places = problem.height * problem.width
    sizes = {"POSITIONS": problem.batch, "C": problem.channels, "F": problem.filters, "P": places}
    turned = cupy.empty((problem.batch, problem.channels, problem.filters), cupy.float32)
    filters = w.native.reshape(problem.filters, problem.channels).T[None]

    def turn() -> None:
        turned[...] = filters

    turn()
    launches = lab("03_batched_gemm.cu", best).enqueue(sizes, {"U": device.asarray(turned), "V": x, "M": y})
    product = repeated(launches)

    def work() -> None:
        turn()
        product()

    nbytes = 4 * (math.prod(problem.image_shape) + math.prod(problem.output_shape) + turned.size)
    floor = 1e3 * max(2 * turned.size * places / FLOPS, nbytes / BYTES_PER_SECOND)
    return Way("products for each image", y, work, {"turn": turn, "batched_gemm": product}, floor)


def measure(layer: Layer, rules: Rules, *, tune: bool) -> Row:
    """Check a layer and time it in turns with cuDNN."""
    cupy.get_default_memory_pool().free_all_blocks()
    device, problem = ws.get_device("gpu"), layer.problem
    x, w = (cupy.random.uniform(-1, 1, shape, dtype=cupy.float32) for shape in
            (problem.image_shape, problem.filter_shape))  # fmt: skip
    dx, dw = device.asarray(x, name="x"), device.asarray(w, name="w")
    best = tuned(layer, dx, dw) if tune and problem.channels > 3 and problem.rows > 1 else layer.tiles
    four_ms = one_ms = None
    if problem.rows == 1:
        way = multiplied(layer, best, dx, dw)
    else:
        way, four_ms, one_ms = transformed(layer, best, dx, dw)
    tx, tw = torch.from_dlpack(x), torch.from_dlpack(w)
    reference = torch.nn.functional.conv2d(tx, tw, padding=problem.pad)
    own, library = errors(layer, x, w, [way.y.native, cupy.from_dlpack(reference)])
    library_call = partial(torch.nn.functional.conv2d, tx, tw, padding=problem.pad)
    found = ws.benchmark_ratio(way.work, library_call, device="gpu", rules=rules)
    mine, other = found.candidate.median_ms, found.reference.median_ms
    assert mine is not None and other is not None and found.speed is not None and found.error is not None
    row = Row(
        layer=layer.name, method=way.method, max_error=own, cudnn_error=library,
        tiles=_constants(best, layer.form.part) if way.tiles else {},
        stages_ms={name: _quick(stage) for name, stage in way.stages.items()},
        floor_ms=way.floor_ms, time_ms=mine, cudnn_ms=other, ratio=1 / found.speed,
        ratio_error=found.error, stable=found.stable,
        best=against_best(way.work, fastest(problem, tx, tw), rules),
        four_kernels_ms=four_ms, one_kernel_ms=one_ms,
    )  # fmt: skip
    print(_text(row), flush=True)
    return row


_tuned: dict[Convolution, tuple[int, ...]] = {}


def tuned(layer: Layer, x: DeviceArray, w: DeviceArray) -> tuple[int, ...]:
    """The tile set with which the product is fastest."""
    if layer.problem not in _tuned:
        times: dict[tuple[int, ...], float] = {}
        for candidate in TILES:
            launches = prepared(layer, candidate, x, w)[0].launches
            times[candidate] = _quick(next(launch for launch in launches if launch.kernel == "batched_gemm").again)
        _tuned[layer.problem] = min(times, key=lambda candidate: times[candidate])
        for candidate in sorted(times, key=lambda candidate: times[candidate])[:4]:
            print(f"  {times[candidate]:.4f} ms: {candidate}")
    return _tuned[layer.problem]


@dataclass(frozen=True, kw_only=True)
class FormRow:
    """One form of Winograd's method at a layer; `ratio` is its time as a multiple of F(4x4,3x3)'s, in turns."""

    layer: str
    form: str
    time_ms: float
    f4_ms: float
    ratio: float
    max_error: float
    """largest error, of the largest result"""
    f4_error: float


def forms(layer: Layer, rules: Rules) -> list[FormRow]:
    """Each of FORMS, and F(2x2,3x3) by four kernels and in one, in turns with F(4x4,3x3) as lab 09 has it."""
    cupy.get_default_memory_pool().free_all_blocks()
    device, problem = ws.get_device("gpu"), layer.problem
    x, w = (cupy.random.uniform(-1, 1, shape, dtype=cupy.float32) for shape in
            (problem.image_shape, problem.filter_shape))  # fmt: skip
    dx, dw = device.asarray(x, name="x"), device.asarray(w, name="w")
    middle, _ = prepared(layer, layer.tiles, dx, dw, Form(4))
    ways = {"F(2x2,3x3), one kernel": partial(_small_in_one_kernel, problem, dx, dw)}
    for form in (Form(2), *FORMS):
        if form.part < problem.channels:
            ways[form.told(problem.rows)] = partial(_by_form, layer, dx, dw, form)
    rows = []
    for name, make in ways.items():
        done = make()
        own, other = errors(layer, x, w, [done.y.native, middle.y.native])
        found = ws.benchmark_ratio(repeated(done.launches), repeated(middle.launches), device="gpu", rules=rules)
        mine, reference = found.candidate.median_ms, found.reference.median_ms
        assert mine is not None and reference is not None and found.speed is not None
        rows.append(FormRow(layer=layer.name, form=name, time_ms=mine, f4_ms=reference, ratio=1 / found.speed,
                            max_error=own, f4_error=other))  # fmt: skip
        print(f"{layer.name} {name}: {mine:.4f} ms, F(4x4,3x3) {reference:.4f}: {1 / found.speed:.3f}, errors "
              f"{own:.1e} and {other:.1e}", flush=True)  # fmt: skip
    return rows


def _by_form(layer: Layer, x: DeviceArray, w: DeviceArray, form: Form) -> Convolved:
    return prepared(layer, layer.tiles, x, w, form)[0]


def _small_in_one_kernel(problem: Convolution, x: DeviceArray, w: DeviceArray) -> Convolved:
    """F(2x2,3x3) by lab 09's 07."""
    y = ws.get_device("gpu").empty(problem.output_shape, np.float32, name="y")
    sizes = {name: problem.sizes[name] for name in ("BATCH", "C", "H", "W", "F", "PAD")}
    return Convolved(y, lab("07_fused_f2.cu").enqueue(sizes, {"x": x, "w": w, "y": y}))


def _quick(work: Callable[[], Any]) -> float:
    rules = Rules(warmup_ms=5.0, min_samples=5, max_samples=15, max_seconds=0.1)
    return ws.benchmark(work, device="gpu", rules=rules).median_ms or math.inf


def _text(row: Row) -> str:
    stages = " ".join(f"{name.split('_')[0]} {ms:.3f}" for name, ms in row.stages_ms.items())
    doubt = "" if row.stable else ", not stable"
    return (
        f"{row.layer:7s} {row.time_ms:7.4f} ms, cuDNN {row.cudnn_ms:7.4f}: {row.ratio:5.3f} (error "
        f"{row.ratio_error:.1%}{doubt}), {row.best.name} {row.best.time_ms:.4f}: {row.best.ratio:5.3f}; "
        f"floor {row.floor_ms:6.3f} [{stages}] error {row.max_error:.1e} "
        f"(cuDNN {row.cudnn_error:.1e}) {','.join(map(str, row.tiles.values()))}"
    )


def summary(rows: Sequence[Row]) -> dict[str, float]:
    """The figures that are asked for."""
    vgg = [row for row in rows if row.layer.startswith("vgg")]
    found = {row.layer: row.ratio for row in rows if not row.layer.startswith(("vgg", "single"))}
    if vgg:
        ours, theirs = sum(row.time_ms for row in vgg), sum(row.cudnn_ms for row in vgg)
        found |= {"vgg_ms": ours, "vgg_cudnn_ms": theirs, "vgg_ratio": ours / theirs}
        found["vgg_worst_layer"] = max(row.ratio for row in vgg)
        best = sum(row.best.time_ms for row in vgg)
        found |= {"vgg_best_ms": best, "vgg_ratio_to_best": ours / best}
    return found


def main() -> None:
    """Measure the layers, print a line for each, write them all as JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, help="write the results to this JSON file")
    parser.add_argument("--tune", action="store_true", help="search the product's tiles for each layer")
    parser.add_argument("--seconds", type=float, default=0.5, help="at most this long for one measurement")
    parser.add_argument("--forms", action="store_true", help="compare forms with F(4x4,3x3), too")
    names = tuple(layer.name for layer in LAYERS)
    parser.add_argument("--only", nargs="+", choices=names, default=names)
    options = parser.parse_args()
    torch.backends.cudnn.benchmark = True
    torch.backends.cudnn.allow_tf32 = False
    cupy.random.seed(1)
    rules = Rules(max_seconds=options.seconds, target_error=0.005, min_samples=10)
    chosen = [layer for layer in LAYERS if layer.name in options.only]
    rows = [measure(layer, rules, tune=options.tune) for layer in chosen]
    small = [layer for layer in chosen if layer.problem.rows == 3 and layer.problem.channels > 3]
    compared = [asdict(row) for layer in small for row in forms(layer, rules)] if options.forms else []
    if options.out and options.out.exists() and not options.forms:
        compared = json.loads(options.out.read_text(encoding="utf-8")).get("forms", [])
    print(json.dumps(summary(rows), indent=1))
    singles = [row for row in rows if row.layer.startswith("single")]
    if options.out:
        device = ws.get_device("gpu")
        result = {
            "device": device.description, "cuda_driver": device.driver, "cupy": cupy.__version__,
            "torch": torch.__version__, "cudnn": torch.backends.cudnn.version(),
            "nvrtc": ".".join(map(str, cupy.cuda.nvrtc.getVersion())), "flush": "L2 flushed before each sample",
            "tf32": False, "summary": summary(rows), "rows": [asdict(row) for row in rows if row not in singles],
            "singles": [asdict(row) for row in singles], "forms": compared,
        }  # fmt: skip
        options.out.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
