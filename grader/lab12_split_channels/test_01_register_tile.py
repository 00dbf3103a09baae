"""What is graded in lab12_split_channels/01_register_tile: a tile of results in registers."""

from __future__ import annotations

from warpcourse.cases import convolution
from warpcourse.lab12_split_channels.cases import check_split, require_no_local_memory, require_thread_loads
from warpschool.grading import criterion, practice
from warpschool.grading.budgets import require_registers

PLAIN = [convolution(1, 4, 8, 64, 3, pad=1), convolution(1, 8, 18, 64, 3)]
ODD = practice([
    convolution(1, 1, 3, 64, 3),
    convolution(1, 5, (7, 9), 128, 3, pad=1),
    convolution(1, 3, (17, 4), 64, 3, pad=2),
])
COUNTED = practice([convolution(1, 16, 16, 64, 3, pad=1)], count=1, scaled="filters")
LEAST = 5  # multiply-adds for each load; 4 x 4 places and two filters have 288 / 54 = 5.3


@criterion(
    "Right answers",
    weight=3,
    hint=[
        "Which pixel of the piece does the result at (i, j) of the tile need for (r, s)?",
        "The piece begins at the first place's window: r rows and s columns on from the place itself.",
        "sum[k][i][j] += weight * in[i + r][j + s], weight = filters[(r*FILTER_S + s)*F + k]",
    ],
)
def test_correct(kernel, rng):
    for problem in PLAIN:
        check_split(kernel, rng, problem)


@criterion(
    "Right for every padding and size",
    weight=2,
    hint=[
        "Where does the piece leave the image? What is it worth there?",
        "A pixel is read only if its row and its column lie inside; else it is zero.",
        "row = row0 + top + i/PW - PAD; col = col0 + left + i%PW - PAD; in = inside ? x[(c*H + row)*W + col] : 0",
    ],
)
def test_odd(kernel, rng):
    for problem in ODD:
        check_split(kernel, rng, problem)


@criterion(
    "Loads as the tile promises",
    weight=4,
    hint=[
        "How many loads does a thread need for a channel, if it loads each pixel of its piece and each weight once?",
        "The piece is loaded before the loops over k, r and s; a weight inside them, but outside the loop "
        "over the places.",
        "for the piece: in = x...; for k, r, s: weight = filters[...]; for the places: sum += weight * in",
    ],
    counts="bytes that threads load, at 16 channels of 16 x 16 and 64 filters: within a tenth of (TH + 2)(TW +"
    " 2) + 9 TK floats for each channel, with the file's own TH, TW and TK (figure 4.6 of the thesis)",
)
def test_loads(kernel, rng):
    for problem in COUNTED:
        case = check_split(kernel, rng, problem)
        require_thread_loads(kernel, case, LEAST)


@criterion(
    "No local memory",
    weight=2,
    hint=[
        "Which arrays of a thread are indexed by something that the compiler cannot know?",
        "Registers have no addresses: sum and in stay there only if every loop over them is unrolled completely.",
        "#pragma unroll in front of every loop over k, r, s and the places; constants only in array indices",
    ],
    counts="requests to local memory: none; bytes spilled, for sm_80: at most 64; registers of a block: at most 65536",
)
def test_local(kernel, rng):
    for problem in COUNTED:
        case = check_split(kernel, rng, problem)
        require_no_local_memory(kernel, case)
        require_registers(kernel, case.run, where_known=True)
