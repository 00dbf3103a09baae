"""Direct convolution with split channels: the tiles of lab 12, what they load, which are legal, and a model of their
speed. `benchmarks/tile_search.py` measures what the model ranks first.

    tiles = Tiles(filters=2, rows=4, cols=4, warp_rows=2, warp_cols=2, splits=4)
    thread_intensity(tiles, problem), block_intensity(tiles, problem)     # multiply-adds for each float loaded
    candidates = [found.tiles for found in ranked(problem, gpu="h200")[:20]]

Source of the design and its equations: E. Barton, "C Split Globally" (University of Utah, 2022), figures 4.6 and 5.2.
The thesis's names: T_k, T_h, T_w are `filters`, `rows`, `cols`; B_h, B_w are `warp_rows`, `warp_cols`.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, replace

from ptxsim.limits import LIMITS, WARP
from warpschool.contract import Contract
from warpschool.errors import ArgumentError
from warpschool.model import GpuSpec, find_gpu
from warpschool.nn import Convolution

PADDED = WARP + 1
"""floats from one place to the next where results wait for their stores"""


@dataclass(frozen=True, kw_only=True)
class Tiles:
    """How a convolution is cut: a thread's results, a block's warps, the parts of the channels."""

    filters: int = 2
    """of a thread, 32 apart"""
    rows: int = 4
    """and its places"""
    cols: int = 4
    warp_rows: int = 2
    """warps of a block for neighbouring places"""
    warp_cols: int = 2
    groups: int = 1
    """warps of a block for the same places, each with its own channels"""
    splits: int = 1
    """parts of the channels across the grid"""
    step: int = 4
    """channels of a stage"""
    stages: int = 2
    unroll: int = 1
    """channels that become straight code"""
    blocks: int = 1
    """blocks that must fit on a multiprocessor: what bounds a thread's registers"""

    @property
    def threads(self) -> int:
        """Of a block."""
        return WARP * self.warp_rows * self.warp_cols * self.groups

    @property
    def block_filters(self) -> int:
        return WARP * self.filters

    @property
    def places(self) -> int:
        """Results of a block in each channel of the result."""
        return self.rows * self.warp_rows * self.cols * self.warp_cols

    @property
    def sums(self) -> int:
        """Results of a thread."""
        return self.filters * self.rows * self.cols


def constant_names(*, flat: bool = False) -> dict[str, str]:
    """The constant of a kernel file that stands for each field of its tiles; `flat`: for filters of 1 x 1."""
    places = {"cols": "TP", "warp_cols": "BP"}
    if not flat:
        places = {"rows": "TH", "cols": "TW", "warp_rows": "BH", "warp_cols": "BW"}
    return places | {
        "filters": "TK", "groups": "BC", "splits": "SPLITS", "step": "STEP", "stages": "STAGES", "unroll": "UNROLL",
        "blocks": "BLOCKS",
    }  # fmt: skip


def tiles_of(contract: Contract, *, flat: bool = False) -> Tiles:
    """The tiles that a kernel file's constants describe; what it does not name is 1."""
    values, names = contract.declarations.constexpr_values({}), constant_names(flat=flat)
    return Tiles(**{field.name: values.get(names.get(field.name, ""), 1) for field in fields(Tiles)})


def is_flat(problem: Convolution) -> bool:
    """Whether filters are 1 x 1: then results are one long row of places."""
    return problem.rows == problem.cols == 1


def result_shape(problem: Convolution) -> tuple[int, int]:
    """Rows and columns of a channel of the result, as tiles see it."""
    if is_flat(problem):
        return 1, problem.out_height * problem.out_width
    return problem.out_height, problem.out_width


# ---------------------------------------------------------------- the thesis's equations


def piece(count: int, window: int, stride: int) -> int:
    """Rows (or columns) of the image that `count` neighbouring results need; T + r - 1 at stride 1."""
    return (count - 1) * stride + window


def step_of(problem: Convolution) -> int:
    """Pixels of the image from a result to the next: with filters of 1 x 1 only those that count are read."""
    return 1 if is_flat(problem) else problem.stride


def _pieces(problem: Convolution, rows: int, cols: int) -> int:
    """Pixels of the image that so many neighbouring rows and columns of results need."""
    return piece(rows, problem.rows, step_of(problem)) * piece(cols, problem.cols, step_of(problem))


def thread_loads(tiles: Tiles, problem: Convolution) -> tuple[int, int]:
    """Floats of the image and of the filters that a thread loads for each channel (figure 4.6's denominator)."""
    return _pieces(problem, tiles.rows, tiles.cols), problem.rows * problem.cols * tiles.filters


def thread_products(tiles: Tiles, problem: Convolution) -> int:
    """Multiply-adds of a thread for each channel (figure 4.6's numerator)."""
    return problem.rows * problem.cols * tiles.sums


def thread_intensity(tiles: Tiles, problem: Convolution) -> float:
    """Multiply-adds of a thread for each float that it loads (figure 4.6)."""
    return thread_products(tiles, problem) / sum(thread_loads(tiles, problem))


def block_loads(tiles: Tiles, problem: Convolution) -> tuple[int, int]:
    """Floats of the image and of the filters that a block loads for each channel (figure 5.2's volumes)."""
    image = _pieces(problem, tiles.rows * tiles.warp_rows, tiles.cols * tiles.warp_cols)
    return image, problem.rows * problem.cols * tiles.block_filters


def block_intensity(tiles: Tiles, problem: Convolution) -> float:
    """Multiply-adds of a block for each float that it loads from global memory (figure 5.2)."""
    products = problem.rows * problem.cols * tiles.places * tiles.block_filters
    return products / sum(block_loads(tiles, problem))


# ---------------------------------------------------------------- legal tiles and the model


def blocks_of_channel(tiles: Tiles, problem: Convolution) -> int:
    """Blocks that cover a channel of the result."""
    height, width = result_shape(problem)
    return -(-height // (tiles.rows * tiles.warp_rows)) * -(-width // (tiles.cols * tiles.warp_cols))


def blocks_of(tiles: Tiles, problem: Convolution) -> int:
    """Blocks of the grid."""
    filters = -(-problem.filters // tiles.block_filters)
    return blocks_of_channel(tiles, problem) * filters * tiles.splits * problem.batch


def shared_bytes(tiles: Tiles, problem: Convolution) -> int:
    """Shared memory of a block: its stages, or its results on their way out."""
    width = piece(tiles.cols * tiles.warp_cols, problem.cols, step_of(problem))
    plane = piece(tiles.rows * tiles.warp_rows, problem.rows, step_of(problem)) * (-(-width // 4) * 4)
    stage = tiles.step * (plane + problem.rows * problem.cols * tiles.block_filters)
    return 4 * max(tiles.stages * stage, tiles.groups * tiles.places * PADDED)


def registers(tiles: Tiles, problem: Convolution) -> int:
    """About how many registers the compiler gives a thread: its results, its copies' places, and what keeps books.

    A least-squares fit to what NVRTC 13.0 used on sm_90: pieces of the image come and go by rows. `blocks` bounds it.
    """
    copies = tiles.step * block_loads(tiles, problem)[0] / tiles.threads
    wanted = 46 + tiles.sums + 5.5 * min(9.0, copies)
    return int(min(wanted, 65536 / (tiles.threads * tiles.blocks)))


def shares(tiles: Tiles, problem: Convolution) -> int:
    """Stages of the part of the grid that has most."""
    stages = math.ceil(problem.channels / tiles.step)
    return math.ceil(stages / tiles.splits)


def used(tiles: Tiles, problem: Convolution) -> float:
    """The part of the computed results that exists: tiles reach over the edges, and shares of channels are rounded."""
    places = blocks_of_channel(tiles, problem) * tiles.places
    channels = shares(tiles, problem) * tiles.step * tiles.splits
    return math.prod(result_shape(problem)) * problem.channels / (places * channels)


def why_not(tiles: Tiles, problem: Convolution, gpu: str | GpuSpec = "h200") -> str:
    """Why tiles cannot be used for a problem on a GPU, in a few words; empty where they can."""
    spec = find_gpu(gpu)
    if problem.filters % tiles.block_filters:
        return f"{problem.filters} filters are no multiple of a block's {tiles.block_filters}"
    if tiles.threads % (tiles.block_filters // 4):
        return f"{tiles.threads} threads do not copy whole rows of {tiles.block_filters} filters"
    if tiles.step % tiles.groups:
        return f"{tiles.step} channels of a stage cannot be dealt out to {tiles.groups} groups"
    if tiles.splits > -(-problem.channels // tiles.step):
        return f"{tiles.splits} parts, but only {-(-problem.channels // tiles.step)} stages of channels"
    if is_flat(problem) and (tiles.rows * tiles.warp_rows != 1 or tiles.cols % 4):
        return "filters of 1 x 1 take one row of places, in groups of four"
    if tiles.threads > spec.sm.threads_per_block:
        return f"{tiles.threads} threads in a block"
    if shared_bytes(tiles, problem) > min(spec.sm.shared_bytes_per_block, LIMITS[8, 0].shared_bytes_per_block):
        return f"{shared_bytes(tiles, problem):,} bytes of shared memory"
    results = 1.1 * tiles.sums + 32
    if results > min(255, spec.sm.registers // (tiles.threads * tiles.blocks)):
        return f"{results:.0f} registers at least, for {tiles.sums} results of a thread"
    return ""


@dataclass(frozen=True, kw_only=True)
class TilesEstimate:
    """What the model says of tiles; `time_us` serves to compare tiles, not to foretell."""

    tiles: Tiles
    time_us: float
    blocks: int
    resident: int
    """blocks that share a multiprocessor"""
    thread_intensity: float
    block_intensity: float


def estimate(tiles: Tiles, problem: Convolution, gpu: str | GpuSpec = "h200") -> TilesEstimate:
    """Return the model's figures. Raises ArgumentError for tiles that are not legal.

    The multiprocessor with most to do decides, wave by wave. A warp's instruction takes a quarter of a clock of it; few
    warps cannot hide each other's waiting; each stage waits for memory, and stages in flight wait together. The
    constants are those that fit 1,347 measurements on an H200 best, to 9 % on average.
    """
    reason = why_not(tiles, problem, gpu)
    if reason:
        raise ArgumentError(f"{tiles} cannot be used: {reason}")
    spec = find_gpu(gpu)
    blocks = blocks_of(tiles, problem)
    resident = _resident(tiles, problem, spec)
    waves, rest = divmod(blocks, spec.sms * resident)
    time_us = waves * _wave_us(tiles, problem, spec, resident)
    if rest:
        time_us += _wave_us(tiles, problem, spec, math.ceil(rest / spec.sms))
    share = shares(tiles, problem)
    loaded_us = 4 * blocks * sum(block_loads(tiles, problem)) * share * tiles.step / _L2_BYTES_PER_US
    time_us = (time_us**3 + loaded_us**3) ** (1 / 3) + _START_US
    if tiles.splits > 1:
        time_us += _SECOND_US + 8 * tiles.splits * math.prod(problem.output_shape) / _PART_BYTES_PER_US
    return TilesEstimate(
        tiles=tiles, time_us=time_us, blocks=blocks, resident=resident,
        thread_intensity=thread_intensity(tiles, problem), block_intensity=block_intensity(tiles, problem),
    )  # fmt: skip


_LOAD, _COPY, _CHANNEL, _RESULT = 2.7, 2.8, 2.9, 8.3
"""what a load from shared memory, a copy, a channel's loop and a result's way out cost, in multiply-adds"""
_WAITING = 0.44
_LATENCY_US, _START_US, _SECOND_US = 0.42, 6.3, 1.4
_L2_BYTES_PER_US, _PART_BYTES_PER_US = 4.6e6, 3e6


def _resident(tiles: Tiles, problem: Convolution, spec: GpuSpec) -> int:
    """Blocks that share a multiprocessor."""
    per_thread = math.ceil(registers(tiles, problem) / 8) * 8
    by_registers = spec.sm.registers // (tiles.threads * per_thread)
    by_memory = spec.sm.shared_bytes // (shared_bytes(tiles, problem) + 1024)
    return max(1, min(by_registers, by_memory, spec.sm.warps * WARP // tiles.threads, spec.sm.blocks))


def _row_loads(tiles: Tiles, problem: Convolution) -> int:
    """Instructions that load a row of a thread's piece: by four, two or one floats, as the rows are aligned."""
    width = piece(tiles.cols, problem.cols, step_of(problem))
    aligned = 4 if tiles.warp_cols == 1 else math.gcd(tiles.cols * step_of(problem), 4)
    if aligned == 4:
        return width // 4 + width % 4 // 2 + width % 2
    return width // 2 + width % 2 if aligned == 2 else width


def _wave_us(tiles: Tiles, problem: Convolution, spec: GpuSpec, blocks: int) -> float:
    """Time of a multiprocessor for so many blocks at once."""
    warps = tiles.threads / WARP
    image, weights = block_loads(tiles, problem)
    wide = is_flat(problem) and problem.height * problem.width % 4 == 0
    copies = tiles.step * (image / (4 if wide else 1) + weights / 4) / tiles.threads
    rows, own_weights = piece(tiles.rows, problem.rows, step_of(problem)), thread_loads(tiles, problem)[1]
    loads = rows * _row_loads(tiles, problem) + own_weights
    channel = thread_products(tiles, problem) + _LOAD * loads + _CHANNEL
    share = shares(tiles, problem)
    clocks = share * (tiles.step / tiles.groups * channel + _COPY * copies) + _RESULT * tiles.sums * tiles.groups
    at_once = max(blocks * warps / 4, 0.25)
    issued = blocks * warps * clocks / 4 * (1 + _WAITING / at_once) / spec.clock_mhz
    waited = _LATENCY_US * (1 + share / (tiles.stages - 1))
    return (issued**3 + waited**3) ** (1 / 3)


def candidates(problem: Convolution, gpu: str | GpuSpec = "h200") -> Iterator[Tiles]:
    """Every legal set of tiles from a grid of sensible sizes, as long as most of its work is of use.

    A block has as many stages as it has a use for, up to eight and half of the multiprocessor's memory. With 1 x 1
    filters a channel is little code, and four of them in a row hide each other's loads.
    """
    spec = find_gpu(gpu)
    flat = is_flat(problem)
    spans, warps, all_groups, all_steps, least = _FLAT if flat else _WINDOWED
    steps = [step for step in all_steps if step <= problem.channels] or [problem.channels]
    for filters, (rows, cols), (down, across), groups, step in itertools.product(
        (1, 2, 4), spans, warps, all_groups, steps
    ):
        if not least <= filters * rows * cols <= MOST_SUMS:
            continue
        for splits in (1, 2, 3, 4, 6, 8, 12, 16, 24, 32):
            tiles = Tiles(
                filters=filters, rows=rows, cols=cols, warp_rows=down, warp_cols=across, groups=groups, splits=splits,
                step=step, unroll=min(4, max(1, step // groups)) if flat else 1,
            )  # fmt: skip
            if not 64 <= tiles.threads <= 512 or used(tiles, problem) < 0.7:
                continue
            tiles = deepened(tiles, problem, spec)
            if not why_not(tiles, problem, spec):
                yield tiles


MOST_SUMS = 72
_WINDOWED = (
    [*itertools.product((1, 2, 3, 4, 5, 6, 7, 8), (2, 3, 4, 5, 6, 7, 8, 9, 12))],
    [(1, 1), (1, 2), (2, 1), (2, 2), (4, 1), (1, 4), (4, 2), (2, 4)], (1, 2, 4), (4, 8), 12,
)  # fmt: skip
"""rows and columns of a thread, and of a block's warps; its groups; channels of a stage; the least sums of a thread"""
_FLAT = (
    [(1, cols) for cols in (4, 8, 12, 16, 20, 24, 28, 32, 36)], [(1, cols) for cols in (1, 2, 3, 4, 6, 8)],
    (1, 2, 4, 8), (8, 16, 32), 4,
)  # fmt: skip
"""the same for filters of 1 x 1"""


def deepened(tiles: Tiles, problem: Convolution, spec: GpuSpec) -> Tiles:
    """The same tiles with as many stages as are of use."""
    room = spec.sm.shared_bytes // 2
    stages = max(2, min(8, shares(tiles, problem) + 1))
    while stages > 2 and shared_bytes(replace(tiles, stages=stages), problem) > room:
        stages -= 1
    return replace(tiles, stages=stages)


def ranked(problem: Convolution, gpu: str | GpuSpec = "h200") -> list[TilesEstimate]:
    """All candidates with the model's figures, the fastest first."""
    found = [estimate(tiles, problem, gpu) for tiles in candidates(problem, gpu)]
    return sorted(found, key=lambda item: item.time_us)


# ---------------------------------------------------------------- the layers of table 9.1


def _square(channels: int, size: int, filters: int, window: int, stride: int = 1) -> Convolution:
    return Convolution(
        batch=1, channels=channels, height=size, width=size, filters=filters, rows=window, cols=window,
        stride=stride, pad=window // 2,
    )  # fmt: skip


YOLO: Mapping[str, Convolution] = {
    "Y0": _square(3, 544, 32, 3),
    "Y2": _square(32, 272, 64, 3),
    "Y4": _square(64, 136, 128, 3),
    "Y5": _square(128, 136, 64, 1),
    "Y8": _square(128, 68, 256, 3),
    "Y9": _square(256, 68, 128, 1),
    "Y12": _square(256, 34, 512, 3),
    "Y13": _square(512, 34, 256, 1),
    "Y18": _square(512, 17, 1024, 3),
    "Y19": _square(1024, 17, 512, 1),
}
RESNET: Mapping[str, Convolution] = {
    "R1": _square(3, 224, 64, 7, 2),
    "R2": _square(64, 56, 64, 3),
    "R3": _square(64, 56, 64, 1),
    "R4": _square(64, 56, 128, 3, 2),
    "R5": _square(64, 56, 128, 1, 2),
    "R6": _square(128, 28, 128, 3),
    "R7": _square(128, 28, 256, 3, 2),
    "R8": _square(128, 28, 256, 1),
    "R9": _square(256, 14, 256, 3),
    "R10": _square(512, 14, 512, 3, 2),
    "R11": _square(256, 14, 512, 1, 2),
    "R12": _square(512, 7, 512, 3),
}
"""Table 9.1 of the thesis that lab 12 follows (Barton 2022): one image; its last layer, of 28269 filters, is left out.

The table gives the size of the image; PAD is half the filter's, so that stride 1 keeps the size.
"""
LAYERS: Mapping[str, Convolution] = {**YOLO, **RESNET}
