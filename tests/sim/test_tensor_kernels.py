"""Whole kernels on tensor cores: pipelines, fragments in memory, ldmatrix, and wrong uses that must be named."""

from __future__ import annotations

import numpy as np
import pytest

from warpschool.compile import compile_cuda

from . import engine_launch, oracle_launch, tensor_cases
from .test_oracle_kernels import DATA

ARCHITECTURES = ("compute_90", "compute_100")
OPTIONS = pytest.mark.parametrize(
    "options", [{}, {"parted": True}, {"tier": "stencils"}], ids=["whole", "parted", "stencils"]
)


@pytest.fixture(scope="module", params=ARCHITECTURES)
def ptx(request) -> str:
    source = (DATA / "tensor_kernels.cu").read_text()
    return compile_cuda(source, name="tensor_kernels.cu", arch=request.param).ptx


def halves(*shape: int) -> np.ndarray:
    return np.random.default_rng(shape).standard_normal(shape).astype(np.float16)


@OPTIONS
def test_pipeline(ptx, options):
    m, n, k = 48, 64, 160
    a, b = halves(m, k), halves(k, n)
    arguments = [a, b, np.zeros((m, n), np.float32), *map(np.int32, (m, n, k)), np.float32(0.5)]
    found = engine_launch.launch(ptx, "pipelined", (n // 32, -(-m // 32)), (128,), *arguments, **options)
    np.testing.assert_allclose(found.arrays[2], 0.5 * (a.astype(np.float64) @ b), atol=1e-4)
    assert not found.record.hazards
    counts = found.counters
    assert counts["tensor_instructions"] == 2 * 2 * 4 * k // 16
    assert counts["tensor_instructions_copying"] == counts["tensor_instructions"]
    assert counts["tensor_operations"] == 2 * 64 * n * k
    assert counts["shared_load_requests"] == 2 * counts["tensor_instructions"]  # one ldmatrix.x4 per fragment
    assert counts.get("shared_load_bank_conflicts", 0) == 0
    if not options:
        expected = oracle_launch.launch(ptx, "pipelined", (n // 32, -(-m // 32)), (128,), *arguments)
        np.testing.assert_array_equal(found.arrays[2], expected.arrays[2])
        for name, value in expected.counters.items():
            assert counts.get(name, 0) == value, name


@OPTIONS
@pytest.mark.parametrize("lanes_apart", [0, 5])
@pytest.mark.thinned(3)
def test_products_from_ldmatrix(ptx, options, lanes_apart):
    k = 64
    a, b = halves(16, k), halves(k, 8)
    arguments = [a, b, np.zeros((16, 8), np.float32), np.int32(k), np.int32(lanes_apart)]
    found = engine_launch.launch(ptx, "from_ldmatrix", (1,), (32,), *arguments, **options)
    np.testing.assert_allclose(found.arrays[2], a.astype(np.float64) @ b, atol=1e-4)
    expected = oracle_launch.launch(ptx, "from_ldmatrix", (1,), (32,), *arguments)
    np.testing.assert_array_equal(found.arrays[2], expected.arrays[2])
    for name in ("shared_load_requests", "shared_load_wavefronts", "shared_load_bank_conflicts"):
        assert found.counters.get(name, 0) == expected.counters.get(name, 0), name
    assert not found.record.hazards


@OPTIONS
def test_stmatrix_and_movmatrix(ptx, options):
    a = halves(8, 8)
    found = engine_launch.launch(ptx, "transposed", (1,), (32,), a, np.zeros((8, 8), np.float16), **options)
    np.testing.assert_array_equal(found.arrays[1], a.T)
    assert not found.record.hazards
    expected = oracle_launch.launch(ptx, "transposed", (1,), (32,), a, np.zeros((8, 8), np.float16))
    np.testing.assert_array_equal(found.arrays[1], expected.arrays[1])


WRONG = {
    "without_barrier": ((128,), (), "race", "shared As"),
    "partly_written": ((32,), (), "uninitialized", "shared As at byte 448"),
    "half_a_warp": ((32,), (), "warp-sync", "without all 32 lanes"),
    "unlike": ((32,), (), "warp-sync", "another address or stride"),
    "overlapping": ((64,), (), "same-value", "at byte 512"),
    "start": ((32,), (4, 16), "misaligned", "multiples of 16 bytes"),
    "stride": ((32,), (0, 17), "misaligned", "multiples of 16 bytes"),
    "end": ((32,), (16 * 24, 16), "out-of-bounds", "reads outside"),
    "before": ((32,), (-64, 16), "out-of-bounds", "128 bytes before its start"),
}


@OPTIONS
@pytest.mark.parametrize("name", WRONG)
@pytest.mark.thinned(3)
def test_wrong_use_is_named(ptx, name, options):
    block, extra, kind, message = WRONG[name]
    entry = name if not extra else "anywhere"
    out = np.zeros(1024, np.float32)
    inputs = [] if name == "overlapping" else [halves(64 * 16 if block == (128,) else 32 * 16)]
    arguments = [*inputs, out, *map(np.int32, extra)]
    record = engine_launch.launch(ptx, entry, (1,), block, *arguments, **options).record
    hazards = [h for h in (*record.hazards, *record.notes) if h.kind == kind]
    assert hazards, record
    line = next(
        n for n, text in enumerate((DATA / "tensor_kernels.cu").read_text().splitlines(), 1)
        if "matrix_sync" in text and n > _first_line(entry)
    )  # fmt: skip
    assert any(line in (h.line, h.other_line) for h in hazards), hazards
    assert any(message in h.message for h in hazards)


def _first_line(entry: str) -> int:
    lines = (DATA / "tensor_kernels.cu").read_text().splitlines()
    return next(n for n, text in enumerate(lines, 1) if f" {entry}(" in text)


def test_right_use_has_no_hazard(ptx):
    record = engine_launch.launch(
        ptx, "anywhere", (1,), (64,), halves(16, 24), np.zeros(64, np.float32), np.int32(8), np.int32(24)
    ).record
    assert not record.hazards


TURNS = {
    # steps from the last to the first -> whether they race; see in_turns
    0x1: False, 0x11: False, 0x141: False, 0x11641: False, 0x2616: False, 0x4561: False, 0x26461: False,
    0x54161: True, 0x21: True, 0x51: True, 0x2461: True, 0x15261: True, 0x6546521: True,
}  # fmt: skip

_READ_FIRST = (0x51, 0x2461)
"""A warp reads what it has not stored after the last barrier."""


@pytest.mark.parametrize("in_shared", [0, 1], ids=["global", "shared"])
def test_races_between_fragments_in_memory(ptx, in_shared):
    """All stores write the same tile: nobody can tell them apart but who reads what nothing of its own has stored."""
    for steps, races in TURNS.items():
        arguments = [np.zeros(256, np.float32), np.int32(in_shared), np.uint32(steps)]
        for blocks, found in ((1, races), (2, races or not in_shared)):
            record = engine_launch.launch(ptx, "in_turns", (blocks,), (64,), *arguments).record
            told = {h.kind for h in record.hazards}
            assert bool(told or record.notes) is found, hex(steps)
            assert told <= {"race"} and {h.kind for h in record.notes} <= {"same-value"}
            if steps in _READ_FIRST:
                assert told, hex(steps)
            if not set(hex(steps)) & set("45"):
                assert not told, hex(steps)


FROM = {"": (8, 16), "out-of-bounds": (200, 16), "misaligned": (4, 16)}


@pytest.mark.parametrize("kind", FROM)
def test_what_may_not_be_loaded_is_zero_in_products(ptx, kind):
    """Inputs that only products see are not kept as those are that lanes may look at: sums are the same."""
    (offset, stride), a = FROM[kind], halves(16 * 24)
    arguments = [a, np.zeros((16, 16), np.float32), np.int32(offset), np.int32(stride)]
    found, parted = (
        engine_launch.launch(ptx, "product_from", (1,), (32,), *arguments, parted=parted) for parted in (False, True)
    )
    np.testing.assert_array_equal(found.arrays[1], parted.arrays[1])
    assert {h.kind for h in found.record.hazards} == ({kind} if kind else set())
    loaded = np.zeros(256)
    if kind != "misaligned":
        inside = a[offset : offset + 256]
        loaded[: inside.size] = inside
    tile = loaded.reshape(16, 16)
    np.testing.assert_allclose(found.arrays[1], tile @ tile.T + 1, atol=1e-4)


# ---------------------------------------------------------------- fragments in memory


WMMA = [c for c in tensor_cases.products() if c.product.instruction == "wmma" and not c.product.saturates]


@pytest.mark.parametrize("n", range(0, len(WMMA), 7))
@pytest.mark.thinned(6)
def test_fragments_in_memory_equal_the_oracle(n):
    _compare_memory(n, "shared" if n % 2 else "global")


@pytest.mark.slow
@pytest.mark.parametrize("space", ["global", "shared"])
@pytest.mark.parametrize("n", range(len(WMMA)))
def test_every_fragment_in_memory_equals_the_oracle(n, space):
    _compare_memory(n, space)


def _compare_memory(n: int, space: str) -> None:
    """Loads, product and store with odd strides: results and counters."""
    case, rng = WMMA[n], np.random.default_rng(n)
    p = case.product
    chosen = {"a": p.layouts[0], "b": p.layouts[1], "c": "row" if n % 3 else "col", "d": "col" if n % 4 else "row"}
    arrays, strides = [], []
    for x in "abcd":
        held = p.fragment(x)
        rows, columns = tensor_cases.matrix_bytes(p, x)
        line, unit = (columns if chosen[x] == "row" else rows), 128 // held.bits
        line = -(-line // unit) * unit
        strides.append(np.int32(line + unit * int(rng.integers(0, 4))))
        numbers = rng.standard_normal(tensor_cases.SHARED_BYTES * 8 // max(8, held.bits))
        integers = held.type in ("s8", "u8", "s4", "u4", "b1", "s32")
        raw = rng.integers(0, 256, tensor_cases.SHARED_BYTES, np.uint8) if integers else None
        data = raw if raw is not None else tensor_cases.packed(numbers, held.type)
        arrays.append(np.frombuffer(data.tobytes(), np.uint8)[: tensor_cases.SHARED_BYTES].copy())
    text = tensor_cases.memory_kernel(case, space, chosen["c"], chosen["d"])
    expected = oracle_launch.launch(text, "k", (1,), (32,), *arrays, *strides)
    found = engine_launch.launch(text, "k", (1,), (32,), *arrays, *strides)
    np.testing.assert_array_equal(found.arrays[3], expected.arrays[3])
    assert not found.record.hazards
    for name, value in expected.counters.items():
        assert found.counters.get(name, 0) == value, name
