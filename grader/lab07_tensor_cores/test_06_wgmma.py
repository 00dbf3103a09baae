"""What is graded in lab07_tensor_cores/06_wgmma, on a GPU of sm_90a only: C = A * B by wgmma and the TMA.

Everywhere else the step is skipped and says so. There are no counters: the simulator runs neither.
"""

from __future__ import annotations

import numpy as np

from warpschool.grading import criterion, practice

FULL_TILES = [(256, 256, 64), (512, 768, 256)]
RAGGED = practice([(1, 8, 8), (31, 40, 24), (300, 264, 72), (129, 520, 1000)])


def check_half_product(kernel, rng, m, n, k):
    sizes = {"M": m, "N": n, "K": k}
    arrays = kernel.inputs(sizes, rng)
    expected = arrays["A"].astype(np.float64) @ arrays["B"].astype(np.float64)
    kernel.check_against(kernel.run(sizes, arrays), {"C": expected}, k=k)


@criterion(
    "Right answers",
    weight=3,
    hint=[
        "Who tells the warpgroups that a tile has landed, and who tells the sender that a stage is free?",
        "full[stage] counts bytes; empty[stage] counts warpgroups of all blocks of the cluster that read the stage.",
        "send: wait(empty), expect_bytes, copy_box; multiply: wait(full), fence, multiply, commit, wait, arrive(empty)",
    ],
)
def test_correct(kernel, rng):
    for m, n, k in FULL_TILES:
        check_half_product(kernel, rng, m, n, k)


@criterion(
    "Right answers at ragged sizes",
    weight=2,
    hint=[
        "What does the TMA bring where a box sticks out of the array, and how many bytes does it announce?",
        "Zeros, and always the bytes of the whole box; a box of C that sticks out is cut off when it is stored.",
        "expect_bytes(&full[stage], BYTES_A + BYTES_B) for every tile, the last one too",
    ],
)
def test_ragged(kernel, rng):
    for m, n, k in RAGGED:
        check_half_product(kernel, rng, m, n, k)
