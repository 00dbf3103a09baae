"""What is graded in lab11_training/01_cross_entropy_backward: the loss of each image, and its slope in the scores."""

from __future__ import annotations

from warpcourse.lab11_training.cases import check_loss, check_slope
from warpschool.grading import criterion, practice
from warpschool.nn.references import cross_entropy

WHOLE = [(8, 10), (64, 32), (16, 10)]
RAGGED = practice([(1, 1), (7, 10), (33, 31), (5, 127), (70, 33)])
COUNTED = practice([(64, 32), (40, 96)], count=1)
READS = 4  # of each score: three are enough
WARP = 32


@criterion(
    "Right losses and slopes",
    weight=3,
    hint=[
        "What is the slope of -log p[label] in the score of the label, and in any other score?",
        "p[c] - 1 for the label's class and p[c] for the others, divided by the number of images.",
        "to[c] = (expf(score) * share - (c == right ? 1 : 0)) * scale;  loss = logf(sum) - score of the label",
    ],
)
def test_correct(kernel, rng):
    for batch, classes in WHOLE:
        check_loss(kernel, rng, batch, classes)


@criterion(
    "Every number of images and classes",
    weight=2,
    hint=[
        "Which classes does lane 5 have if there are 127 of them?",
        "5, 37, 69 and 101: lanes walk on by 32. A warp past the last image has nothing to do.",
        "for (int c = lane; c < CLASSES; c += 32); all 32 lanes take part in the shuffles behind the loop",
    ],
)
def test_ragged(kernel, rng):
    for batch, classes in RAGGED:
        check_loss(kernel, rng, batch, classes)


@criterion(
    "Large scores",
    weight=2,
    hint=[
        "What is expf(100), and what is infinity divided by infinity?",
        "Subtracting one number from all scores changes no probability. Subtract the largest.",
        "sum += expf(from[c] - largest);  loss = logf(sum) - (from[right] - largest)",
    ],
)
def test_large(kernel, rng):
    check_loss(kernel, rng, 9, 10, shift=1000.0)
    check_loss(kernel, rng, 9, 10, shift=-1000.0)
    check_loss(kernel, rng, 17, 40, scale=200.0)


@criterion(
    "Finite differences agree",
    weight=1,
    hint=[
        "By how much does the mean loss change if all scores change a little?",
        "By the sum of slope times change: the slope must be that of the mean, not of the sum.",
        "const float scale = 1.0f / BATCH",
    ],
)
def test_slope(kernel, rng):
    case = check_loss(kernel, rng, 12, 10)
    labels = case.arrays["label"]
    check_slope(kernel, rng, case, "dx", lambda x: float(cross_entropy(x, labels)[0].mean()), case.arrays["x"])


@criterion(
    "Few passes over memory",
    weight=1,
    hint=[
        "How often is a score read, and is anything written that nobody asked for?",
        "Once for the largest, once for the sum, once for the slope; probabilities need not be stored.",
        "compute expf again instead of storing it",
    ],
    counts="bytes that threads load and store at BATCH = 64, CLASSES = 32 and at BATCH = 40, CLASSES = 96: each score "
    "four times at most, and the label by every lane; each slope and loss stored once",
)
def test_bytes(kernel, rng):
    for batch, classes in COUNTED:
        case = check_loss(kernel, rng, batch, classes)
        scores = 4 * batch * classes
        labels = 4 * WARP * batch  # read by every lane, as the starter does
        kernel.within(case.counters.global_load_bytes, READS * scores + labels, "bytes of global loads", unit="bytes")
        kernel.within(case.counters.global_store_bytes, scores + 4 * batch, "bytes of global stores", unit="bytes")
