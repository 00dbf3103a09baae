"""Precisions: roundings against NumPy's own types, bounds that hold, quantisation and calibration."""

from __future__ import annotations

import matplotlib

matplotlib.use("Agg")

import numpy as np
import pytest

from warpcourse import lab06_half_precision as lab
from warpschool.errors import ArgumentError
from warpschool.harness.compare import tolerance_for

RNG = np.random.default_rng(5)
KS = (16, 256, 2048)


def test_rounding_agrees_with_numpy_types():
    values = RNG.normal(size=2000) * 2.0 ** RNG.integers(-12, 12, 2000)
    assert np.array_equal(lab.rounded(values, 11, smallest_exponent=-14), lab.to_half(values))
    assert np.array_equal(lab.rounded(values, 24), lab.to_float(values))
    assert np.all(lab.to_bfloat16(values).astype(np.float32).view(np.uint32) & 0xFFFF == 0)
    assert np.all(lab.to_tf32(values).astype(np.float32).view(np.uint32) & 0x1FFF == 0)
    assert lab.to_half(1e6) == np.inf


def test_ties_go_to_even():
    assert lab.to_half([2049.0, 2051.0]).tolist() == [2048.0, 2052.0]
    assert lab.rounded([2049.0, 2051.0], 11).tolist() == [2048.0, 2052.0]


def test_a_product_rounds_after_each_multiply_add():
    a, b = np.ones((1, 5000), np.float32), np.ones((5000, 1), np.float32)
    assert lab.product(a, b, stored=lab.to_half, summed=lab.to_half) == 2048
    assert lab.product(a, b, stored=lab.to_half, summed=lab.to_half, promoted_every=16) == 5000
    assert lab.product(a, b, stored=lab.to_half, summed=lab.to_half, promoted_every=4096) == 2048 + 904


@pytest.mark.parametrize("kind", ["well", "ill"])
def test_every_precision_stays_within_its_bound(kind):
    found = {errors.name: errors for errors in lab.errors(kind, KS)}
    for errors in found.values():
        if errors.allowed is not None:
            assert all(worst <= allowed for worst, allowed in zip(errors.worst, errors.allowed, strict=True)), errors
    order = ["float", "half, summed as float", "half2, promoted every 16", "half, summed as half"]
    assert [found[name].mse[-1] for name in order] == sorted(found[name].mse[-1] for name in order)


def test_the_bound_of_promoted_sums_refuses_a_sum_that_is_never_promoted():
    a, b = np.ones((1, 64), np.float32), np.ones((64, 1), np.float32)
    a[0, 0], b[0, 0] = 64, 32
    exact, scale = 2048 + 63, 2048 + 63
    allowed = tolerance_for("float32", 64, "float16", promoted_every=16).accumulated * scale
    never = lab.product(a, b, stored=lab.to_half, summed=lab.to_half)
    every = {n: lab.product(a, b, summed=lab.to_half, promoted_every=n) for n in (8, 16, 32)}
    assert abs(never - exact) > allowed and abs(every[32] - exact) > allowed
    assert abs(every[8] - exact) < abs(every[16] - exact) <= allowed


def test_the_reason_names_the_promotion():
    reason = tolerance_for("float32", 64, "float16", promoted_every=16, scale=1.0).reason
    assert "17 roundings in float16" in reason and "promoted there to float32" in reason
    assert tolerance_for("float32", 12, "float16", promoted_every=16) == tolerance_for("float32", 12, "float16")


def test_ill_conditioned_inputs_cancel():
    for kind, least, most in (("well", 1, 1.0001), ("ill", 200, np.inf)):
        a, b = (matrix.astype(np.float64) for matrix in lab.inputs(kind, 8, 8, 512))
        condition = np.median((abs(a) @ abs(b)) / abs(a @ b))
        assert least <= condition <= most
    with pytest.raises(ArgumentError, match="no kind of input"):
        lab.inputs("bad", 1, 1, 1)


def test_quantised_values_are_the_nearest_multiples_of_the_scale():
    x = (RNG.normal(size=(6, 50)) * 2.0 ** np.arange(6)[:, None]).astype(np.float32)
    rows, whole = lab.quantise(x), lab.quantise(x, per_row=False)
    assert (rows.scale.shape, whole.scale.shape) == ((6, 1), (1, 1))
    assert np.all(abs(rows.values - x) <= rows.scale * 0.5000001)
    assert np.all(abs(rows.q).max(axis=1) == lab.MOST) and rows.saturated == whole.saturated == 0
    assert lab.mean_squared_error(rows.values, x) < lab.mean_squared_error(whole.values, x)


def test_what_is_beyond_the_limit_saturates_and_zeros_stay():
    x = np.array([[0, 0, 0], [1, -8, 0.25]], np.float32)
    found = lab.quantise(x, clip=2.0)
    assert found.q.tolist() == [[0, 0, 0], [64, -127, 16]]
    assert found.saturated == pytest.approx(1 / 6)


def test_calibration_orders_its_limits():
    x = np.abs(RNG.normal(size=(100, 200))).astype(np.float32)
    x[0, 0] = 40
    clips = lab.calibrations(x)
    assert clips["99.9 %"] < clips["99.99 %"] < clips["largest"] == 40
    errors = {
        rule: lab.mean_squared_error(lab.quantise(x, per_row=False, clip=clip).values, x)
        for rule, clip in clips.items()
    }
    assert min(errors, key=errors.__getitem__) == "smallest error"
    with pytest.raises(ArgumentError, match="nothing to calibrate"):
        lab.calibrations(np.zeros((2, 2)))


def test_int8_products_with_scales_of_rows():
    a, b = (RNG.normal(size=(9, 300)) * 2.0 ** np.arange(9)[:, None]).astype(np.float32), RNG.normal(size=(300, 7))
    exact = a @ b
    rows, whole = (lab.int8_product(a, b.astype(np.float32), per_row=per_row) for per_row in (True, False))
    assert abs(rows - exact)[0].max() < 0.1 * abs(whole - exact)[0].max()


def test_of_a_kernel_without_results_nothing_is_drawn():
    none = lab.Errors("yours", (16, 64), (float("nan"),) * 2, (float("nan"),) * 2, (1.0, 1.0))
    picture = lab.draw_errors({"well": [none, *lab.errors("well", (16, 64))]})
    assert "yours: no results" in picture.alt and "nan" not in picture._repr_html_().lower().split("base64")[0]
    assert "yours" not in {line.get_label() for line in picture.figure.axes[0].get_lines()}


def test_pictures_say_what_they_show():
    picture = lab.draw_errors({"well": lab.errors("well", (16, 64))})
    assert "half, summed as half from" in picture.alt and picture.alt in repr(picture)
    assert 'alt="Errors of precisions' in picture._repr_html_()
    lines = picture.figure.axes[1].get_lines()
    assert len(lines) == len(lab.PRECISIONS) + sum(p.bound is not None for p in lab.PRECISIONS)
    x = np.abs(RNG.normal(size=(10, 20)))
    clips = lab.calibrations(x)
    alt = lab.draw_calibration(x, clips, dict.fromkeys(clips, 0.5)).alt
    assert "200 magnitudes" in alt and "with an MSE of 0.5" in alt
