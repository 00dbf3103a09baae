"""What is graded in lab06_half_precision/03_quantize_int8: X ~ scale * Q with 8-bit integers Q."""

from __future__ import annotations

import numpy as np

from warpschool.grading import criterion, practice

SHAPES = [(8, 128), (64, 256), (3, 1024)]
RAGGED = practice([(1, 1), (31, 33), (9, 127), (33, 130), (2, 6)])
COUNTED = practice([(40, 256), (24, 384)], count=1)
CLIPS = practice([0.75, 20.0])
MOST = 127
NO_CLIP = 1e30
TIE = 1e-4  # a quotient this near the middle of two integers may be rounded to either: x / scale is not exact


def numbers(rng, m, k):
    """Rows of very different magnitudes."""
    return (rng.normal(size=(m, k)) * 2.0 ** rng.integers(-8, 8, (m, 1))).astype(np.float32)


def run_and_compare(kernel, x, *, clip=NO_CLIP, per_row=True):
    (m, k), clip = x.shape, np.float32(clip)
    sizes, arrays = {"M": m, "K": k, "clip": float(clip)}, {"X": x}
    run = kernel.run(sizes, arrays, constants=None if per_row else {"PER_ROW": 0})
    largest = np.abs(x).max(axis=1) if per_row else np.full(m, np.abs(x).max())
    limit = np.minimum(largest, clip).astype(np.float64)
    kernel.check_against(run, {"scale": limit / MOST}, scale=limit / MOST, extra_ulp=1)
    exact = np.clip(x, -limit[:, None], limit[:, None]) * (MOST / np.where(limit > 0, limit, np.inf))[:, None]
    got = run.outputs["Q"].astype(np.float64)
    near = (np.abs(got - exact) <= 0.5 + TIE) & (np.abs(got) <= MOST)
    kernel.check_against(run, {"Q": np.where(near, got, np.rint(exact)).astype(np.int8)})
    return sizes, arrays, run


@criterion(
    "A scale for each row",
    weight=3,
    hint=[
        "Which element of a row becomes 127, and what does the integer 1 stand for then?",
        "limit is the largest magnitude of the row, scale = limit / 127; Q is x / scale, rounded to nearest.",
        "inverse = limit > 0 ? MOST / limit : 0; q = __float2int_rn(x * inverse), kept between -MOST and MOST",
    ],
)
def test_per_row(kernel, rng):
    for m, k in SHAPES:
        run_and_compare(kernel, numbers(rng, m, k))


@criterion(
    "One scale for all rows",
    weight=2,
    hint=[
        "With PER_ROW = 0, whose largest magnitude is the limit of every row?",
        "All warps of all blocks meet in largest[0]: only an atomic keeps the largest of their values.",
        "atomicMax(&largest[PER_ROW ? row : 0], __float_as_uint(most)), and the same index where it is read",
    ],
)
def test_per_tensor(kernel, rng):
    for m, k in SHAPES:
        run_and_compare(kernel, numbers(rng, m, k), per_row=False)


@criterion(
    "Saturation",
    weight=3,
    hint=[
        "What does x * inverse become for an x beyond clip, and what do the lowest 8 bits of that say?",
        "It is more than 127. A cast would keep the lowest 8 bits, and 130 would become -126: limit it first.",
        "max(-MOST, min(MOST, __float2int_rn(x * inverse)))",
    ],
)
def test_saturation(kernel, rng):
    x = numbers(rng, 16, 256)
    x[3] = 0
    x[5, 7], x[6, 9], x[8, 200] = 1e9, -1e9, np.inf
    for clip in CLIPS:
        run_and_compare(kernel, x, clip=clip)
        run_and_compare(kernel, x, clip=clip, per_row=False)


@criterion(
    "Ragged sizes",
    weight=2,
    hint=[
        "A row has 33 elements. Which lane has the last one, and where does the next row begin in memory?",
        "Only rows with a multiple of four elements are aligned for float4 and char4; others are taken one by one.",
        "wide ? store a char4 : store q.x, and q.y, q.z, q.w only if k + 1, k + 2, k + 3 < K",
    ],
)
def test_ragged(kernel, rng):
    for m, k in RAGGED:
        run_and_compare(kernel, numbers(rng, m, k))
        run_and_compare(kernel, numbers(rng, m, k), clip=float(rng.uniform(0.25, 1)), per_row=False)


@criterion(
    "Full sectors, X read twice",
    weight=2,
    hint=[
        "Which elements do 32 neighbouring lanes take at a time? How often is each element needed in each kernel?",
        "A lane takes four neighbours, a warp 128 of one row, and then the next 128.",
        "for (int k = lane * 4; k < K; k += 128) in both kernels, each element loaded once in each",
    ],
    counts="at M = 40, K = 256 and at M = 24, K = 384: sectors beyond the fewest that hold the requested bytes, none; "
    "bytes of global loads, at most 8 M K and 256 M for what else is read",
)
def test_bytes(kernel, rng):
    for m, k in COUNTED:
        sizes, arrays, run = run_and_compare(kernel, numbers(rng, m, k))
        kernel.no_excess_sectors(sizes, arrays)
        kernel.within(run.counters.global_load_bytes, 8 * m * k + 256 * m, "bytes of global loads", unit="bytes")
