"""What is graded in lab08_convolution/10_fft: the product in frequency space."""

from __future__ import annotations

import math

import numpy as np

from warpschool.grading import criterion, practice

PLAIN = [(4, 1, 8, 64), (4, 3, 4, 128), (8, 5, 4, 32)]
ODD = practice([(1, 1, 1, 1), (3, 2, 5, 77), (5, 7, 3, 130), (2, 1, 9, 33)])
COUNTED = practice([(8, 4, 16, 256), (16, 3, 8, 192)], count=1)
REUSE = 4  # images and filters that a thread computes in the reference


def check_spectra(kernel, rng, batch, channels, filters, points):
    sizes = {"BATCH": batch, "C": channels, "F": filters, "POINTS": points}
    arrays = kernel.inputs(sizes, rng)
    x, w = (arrays[name][..., 0].astype(np.float64) + 1j * arrays[name][..., 1] for name in ("X", "W"))
    y = np.einsum("ncp,fcp->nfp", x, w.conj())
    expected = np.stack([y.real, y.imag], axis=-1)
    scale = np.einsum("ncp,fcp->nfp", abs(x), abs(w))[..., None]
    kernel.check_against(kernel.run(sizes, arrays), {"Y": expected}, k=2 * channels, scale=scale)
    return sizes, arrays


@criterion(
    "Right answers",
    weight=4,
    hint=[
        "What is (a + bi) times the conjugate of (c + di)?",
        "(ac + bd) + (bc - ad) i, summed over the channels.",
        "sum.x += a.x*b.x + a.y*b.y; sum.y += a.y*b.x - a.x*b.y",
    ],
)
def test_correct(kernel, rng):
    for case in PLAIN:
        check_spectra(kernel, rng, *case)


@criterion(
    "Right at ragged sizes",
    weight=3,
    hint=[
        "A thread computes NPT images. What if BATCH is no multiple of NPT?",
        "Do not read what is not there: take the last image once more, and store only what exists.",
        "X[(min(n0 + i, BATCH - 1)*C + c)*POINTS + point]",
    ],
)
def test_odd(kernel, rng):
    for case in ODD:
        check_spectra(kernel, rng, *case)


@criterion(
    "A loaded number serves several products",
    weight=3,
    hint=[
        "Which products need X of image n in channel c? Which of them does your thread compute?",
        "NPT images and FPT filters are NPT + FPT loads for NPT * FPT products: load them before the products.",
        "for c: a[NPT], b[FPT]; for i: for j: sum[i][j] += a[i] * conj(b[j])",
    ],
    counts="bytes of global loads for each complex product, at 8 images, 4 channels, 16 filters, 256 "
    "frequencies and at 16 images, 3 channels, 8 filters, 192 frequencies: at most 8 (1/4 + 1/4) = 4; additions and "
    "multiplications, a multiply-add is two: at most eight for each complex product",
)
def test_loads(kernel, rng):
    for case in COUNTED:
        counters = kernel.counters(*check_spectra(kernel, rng, *case))
        products = math.prod(case)
        kernel.within(counters.global_load_bytes / products, 8 * 2 / REUSE, "bytes of global loads for each product")
        work = counters.operations
        kernel.at_least(work, 4 * products, "additions and multiplications")
        kernel.within(work, 8 * products, "additions and multiplications")


@criterion(
    "No waste of global memory",
    weight=2,
    hint=[
        "In which direction are neighbours in memory?",
        "POINTS is the last axis: lanes along frequencies.",
        "point = blockIdx.x * THREADS + threadIdx.x",
    ],
    counts="sectors of global loads and stores beyond those that the bytes fill, at the same cases: none",
)
def test_sectors(kernel, rng):
    for case in COUNTED:
        kernel.no_excess_sectors(*check_spectra(kernel, rng, *case))
