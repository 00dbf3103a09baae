"""Winograd: exact matrices, the published ones; stages, generated kernels and the pipeline agree with direct."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from warpschool.contract import parse_contract
from warpschool.course import Course
from warpschool.errors import ArgumentError
from warpschool.harness.launcher import Program
from warpschool.nn import Convolution, convolve
from warpschool.nn.pipelines import Convolved, FewChannels, Winograd, run
from warpschool.nn.winograd import (
    NEARER,
    POINTS,
    Matrices,
    convolve_in,
    magnitudes,
    matrices,
    multiply,
    paired_lines,
    sources,
    tiles,
    transform_filters,
    transform_images,
    transform_lines,
    transform_results,
)

PUBLISHED = {  # Lavin and Gray, 2016; F(4,3) also in the VGG16 thesis
    (2, 3): (
        "1 1 1 0 | 0 1 -1 -1",
        "1 0 0 | 1/2 1/2 1/2 | 1/2 -1/2 1/2 | 0 0 1",
        "1 0 -1 0 | 0 1 1 0 | 0 -1 1 0 | 0 1 0 -1",
    ),
    (4, 3): (
        "1 1 1 1 1 0 | 0 1 -1 2 -2 0 | 0 1 1 4 4 0 | 0 1 -1 8 -8 1",
        "1/4 0 0 | -1/6 -1/6 -1/6 | -1/6 1/6 -1/6 | 1/24 1/12 1/6 | 1/24 -1/12 1/6 | 0 0 1",
        "4 0 -5 0 1 0 | 0 -4 -4 1 1 0 | 0 4 -4 -1 1 0 | 0 -2 -1 2 1 0 | 0 2 -1 -2 1 0 | 0 4 0 -5 0 1",
    ),
}
TILES = [(1, 3), (2, 2), (2, 3), (4, 3), (3, 4), (6, 3), (4, 5), (8, 3), (5, 1), (5, 3), (7, 3)]
STEPS = {step.idea: step for step in Course.find().lab("lab09").steps}


def read(text: str) -> tuple[tuple[Fraction, ...], ...]:
    return tuple(tuple(map(Fraction, row.split())) for row in text.split("|"))


def program(idea: str, **constants: int) -> Program:
    path = STEPS[idea].solution
    return Program(parse_contract(path.read_text("utf-8"), name=path.name), device="sim", constants=constants)


def generated(exact: Matrices) -> dict[str, Program]:
    made = [Program(parse_contract(text, name=name), device="sim") for name, text in sources(exact).items()]
    return dict(zip(("filters", "images", "results"), made, strict=True))


# ---------------------------------------------------------------- matrices


@pytest.mark.parametrize("tile", PUBLISHED)
def test_matrices_are_the_published_ones(tile):
    exact = matrices(*tile)
    assert (exact.At, exact.G, exact.Bt) == tuple(map(read, PUBLISHED[tile]))


@pytest.mark.parametrize("tile", TILES)
def test_filtering_is_exact_in_rational_arithmetic(tile):
    exact, rng = matrices(*tile), np.random.default_rng(tile)
    g = [Fraction(int(n)) for n in rng.integers(-9, 9, exact.r)]
    d = [Fraction(int(n), 7) for n in rng.integers(-9, 9, exact.side)]
    product = [
        sum(a * b for a, b in zip(left, g, strict=True)) * sum(a * b for a, b in zip(right, d, strict=True))
        for left, right in zip(exact.G, exact.Bt, strict=True)
    ]
    y = [sum(a * b for a, b in zip(row, product, strict=True)) for row in exact.At]
    assert y == [sum(g[k] * d[i + k] for k in range(exact.r)) for i in range(exact.m)]
    assert (len(exact.At), len(exact.G), len(exact.Bt)) == (exact.m, exact.side, exact.side)


def test_other_points_give_another_exact_algorithm():
    exact = matrices(2, 3, points=[0, "1/3", -5])
    assert exact.points == (0, Fraction(1, 3), -5)
    x, w = Convolution(batch=1, channels=2, height=6, width=5, filters=3, rows=3, cols=3).arrays(
        np.random.default_rng(0), np.float64
    )
    np.testing.assert_allclose(convolve_in(x, w, exact, dtype=np.float64), convolve(x, w), atol=1e-11)


def test_multiplications_of_a_tile():
    exact = matrices(4, 3)
    assert (exact.positions, exact.direct_products) == (36, 144)
    assert (matrices(4, 5).positions, matrices(4, 5).direct_products) == (64, 400)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: matrices(0, 3), r"F\(0,3\)"),
        (lambda: matrices(2, 3, points=[0, 1]), "2 different finite points, 3 are needed"),
        (lambda: matrices(2, 3, points=[0, 1, "2/2"]), "2 different finite points"),
        (lambda: matrices(16, 3), "17 finite points are needed, 15 have a default"),
        (lambda: transform_filters(np.ones((2, 2, 5, 5)), matrices(4, 3)), r"\[2, 2, 5, 5\]"),
        (lambda: transform_images(np.ones((2, 2, 5)), matrices(4, 3)), r"\[2, 2, 5\]"),
        (lambda: convolve_in(np.ones((1, 2, 5, 5)), np.ones((1, 3, 3, 3)), matrices(4, 3)), "2 and 3 channels"),
    ],
)
def test_refusals(make, said):
    with pytest.raises(ArgumentError, match=said):
        make()


# ---------------------------------------------------------------- stages


@pytest.mark.parametrize("tile", [(2, 3), (4, 3), (6, 3), (7, 3), (4, 5), (3, 2)])
@pytest.mark.parametrize(("height", "width", "pad"), [(14, 14, 1), (9, 7, 0), (5, 12, 2)])
def test_stages_make_a_convolution(tile, height, width, pad):
    exact = matrices(*tile)
    problem = Convolution(
        batch=2, channels=3, height=height, width=width, filters=4, rows=exact.r, cols=exact.r, pad=pad
    )
    x, w = problem.arrays(np.random.default_rng(1), np.float64)
    U, V = transform_filters(w, exact), transform_images(x, exact, pad=pad)
    down, across = tiles(problem, exact)
    assert U.shape == (exact.positions, 3, 4) and V.shape == (exact.positions, 3, 2 * down * across)
    y = transform_results(multiply(U, V), exact, batch=2, height=problem.out_height, width=problem.out_width)
    np.testing.assert_allclose(y, convolve(x, w, pad=pad), atol=1e-10)


def test_errors_grow_with_the_tile_and_shrink_with_the_precision():
    x, w = Convolution(batch=1, channels=16, height=26, width=26, filters=4, rows=3, cols=3, pad=1).arrays(
        np.random.default_rng(2)
    )
    exact = convolve(x, w, pad=1)
    worst = {
        (m, dtype): np.abs(convolve_in(x, w, matrices(m, 3), pad=1, dtype=dtype) - exact).max()
        for m in (1, 2, 4, 6, 8)
        for dtype in (np.float32, np.float64)
    }
    for dtype in (np.float32, np.float64):
        errors = [worst[m, dtype] for m in (2, 4, 6, 8)]
        assert errors == sorted(errors)
    assert all(1e6 * worst[m, np.float64] < worst[m, np.float32] for m in (2, 4, 6, 8))
    bound = 2 * 16 * 2**-24 * magnitudes(x, w, matrices(4, 3), pad=1)
    assert not (np.abs(convolve_in(x, w, matrices(4, 3), pad=1) - exact) > bound).any()


def worst_error(exact: Matrices) -> float:
    """The largest of float32 at 32 channels, of the largest result."""
    x, w = Convolution(batch=1, channels=32, height=30, width=30, filters=8, rows=3, cols=3).arrays(
        np.random.default_rng(5)
    )
    wanted = convolve(x, w)
    return float(np.abs(convolve_in(x, w, exact) - wanted).max() / np.abs(wanted).max())


@pytest.mark.parametrize("tile", NEARER)
def test_points_found_by_a_search_enlarge_errors_less(tile):
    usual, nearer = matrices(*tile, points=POINTS[: sum(tile) - 2]), matrices(*tile)
    assert nearer.amplification < usual.amplification / 2
    assert worst_error(nearer) < worst_error(usual) / 1.3


def test_amplification_says_which_form_errs_more():
    """Points whose squares are each other's inverses make F(4x4,3x3) as exact as smaller tiles."""
    inverses = matrices(4, 3, points=[0, "2/3", "-2/3", "3/2", "-3/2"])
    forms = [matrices(2, 3), inverses, matrices(4, 3), matrices(7, 3), matrices(8, 3)]
    assert [exact.amplification for exact in forms] == sorted(exact.amplification for exact in forms)
    errors = [worst_error(exact) for exact in forms]
    assert errors == sorted(errors) and errors[1] < errors[2] / 2
    assert matrices(2, 3).amplification == pytest.approx(5 / 3)


# ---------------------------------------------------------------- kernels


@pytest.mark.parametrize("write", [transform_lines, paired_lines])
@pytest.mark.parametrize("tile", TILES)
def test_written_statements_compute_the_matrix(write, tile):
    exact = matrices(*tile)
    for rows in (exact.At, exact.G, exact.Bt):
        of = np.random.default_rng(3).uniform(-1, 1, len(rows[0]))
        scope = {"of": of, "to": [0.0] * len(rows), "fmaf": lambda a, b, c: a * b + c}
        for line in write(rows):
            exec(line.removeprefix("const float ").rstrip(";").replace("f *", " *").replace("f,", ",").replace(
                "0f", "0").replace("f)", ")"), scope)  # fmt: skip
        np.testing.assert_allclose(scope["to"], np.array(rows, np.float64) @ of, atol=1e-12)


def checked(pipeline: Winograd, problem: Convolution) -> Convolved:
    x, w = problem.arrays(np.random.default_rng(4))
    done = run(pipeline, x, w, pad=problem.pad)
    assert done.hazards == () and done.scratch_bytes > 0
    error = np.abs(pipeline.device.asnumpy(done.y) - convolve(x, w, pad=problem.pad))
    assert not (error > 40 * 2**-24 * magnitudes(x, w, pipeline.exact, pad=problem.pad)).any()
    return done


@pytest.mark.thinned(3)
@pytest.mark.parametrize("tile", [(4, 5), (6, 3), (3, 2), (7, 3)])
def test_generated_transforms_in_a_pipeline(tile):
    exact = matrices(*tile)
    pipeline = Winograd(**generated(exact), product=program("03_batched_gemm"))
    assert (pipeline.exact.m, pipeline.exact.r) == tile
    for height, width, pad in ((12, 12, 0), (9, 14, 1)):
        checked(pipeline, Convolution(batch=2, channels=3, height=height, width=width, filters=5, rows=exact.r,
                                      cols=exact.r, pad=pad))  # fmt: skip


@pytest.mark.parametrize(("m", "r", "shape"), [(6, 3, (1, 2, 13, 29)), (4, 3, (2, 1, 9, 11)), (3, 3, (1, 1, 50, 70))])
def test_results_of_ragged_images_are_written_by_warps(m, r, shape):
    """Tiles that do not fill a warp, that reach over edges, and rows that begin anywhere."""
    exact, (batch, filters, height, width) = matrices(m, r), shape
    count = batch * -(-height // m) * -(-width // m)
    sums = np.random.default_rng(m).standard_normal((exact.positions, filters, count)).astype(np.float32)
    contract = parse_contract(sources(exact)["output_transform.cu"], name="output_transform.cu")
    run = Program(contract, device="sim").run(
        {"BATCH": batch, "F": filters, "OH": height, "OW": width}, {"M": sums}
    )
    expected = transform_results(sums.astype(float), exact, batch=batch, height=height, width=width)
    assert np.abs(run.outputs["y"] - expected).max() < 1e-6 * np.abs(expected).max()
    assert run.hazards == ()


def test_reference_kernels_in_a_pipeline():
    pipeline = Winograd(
        filters=program("01_filter_transform"), images=program("02_input_transform"),
        product=program("03_batched_gemm"), results=program("04_output_transform"),
    )  # fmt: skip
    problem = Convolution(batch=3, channels=5, height=14, width=13, filters=7, rows=3, cols=3, pad=1)
    assert [launch.kernel for launch in checked(pipeline, problem).launches] == [
        "filter_transform", "input_transform", "batched_gemm", "output_transform",
    ]  # fmt: skip
    with pytest.raises(ArgumentError, match="filters of 5 x 5 at stride 1"):
        run(pipeline, np.ones((1, 1, 8, 8), np.float32), np.ones((1, 1, 5, 5), np.float32))


def test_few_channels():
    layer = FewChannels(filters=program("01_filter_transform"), whole=program("06_three_channels"))
    problem = Convolution(batch=1, channels=3, height=10, width=13, filters=5, rows=3, cols=3, pad=1)
    x, w = problem.arrays(np.random.default_rng(7))
    done = run(layer, x, w, pad=1)
    expected = np.maximum(convolve(x, w, pad=1), 0)
    np.testing.assert_allclose(layer.device.asnumpy(done.y), expected, atol=2e-5)
    with pytest.raises(ArgumentError, match="compiled for 3 channels, not 4"):
        run(layer, np.ones((1, 4, 8, 8), np.float32), np.ones((1, 4, 3, 3), np.float32))


def test_transforms_of_two_tiles_do_not_go_together():
    with pytest.raises(ArgumentError, match="different tiles"):
        Winograd(filters=program("01_filter_transform"), images=program("02_input_transform", TILE=2),
                 product=program("03_batched_gemm"), results=program("04_output_transform"))  # fmt: skip
