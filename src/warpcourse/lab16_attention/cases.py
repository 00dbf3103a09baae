"""Cases of lab 16: attention, its gradients and norms in float64, and what several of its graders hold."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from warpcourse.cases import Case, run_case
from warpschool.grading.submission import Submission

Float64 = npt.NDArray[np.float64]
EPSILON = 1e-5
"""What layer norm adds to a variance."""
SPREAD = 4
"""Queries are so many times as large as keys: some scores stand out, as they do in trained networks."""


@dataclass(frozen=True, eq=False)
class Attention:
    """Attention of one or more heads in float64. Q, K, V and all that follows: [..., N, D], but for `log`: [..., N]."""

    q: Float64
    k: Float64
    v: Float64
    probabilities: Float64
    """[..., N, N]; 0 where a query may not look"""
    log: Float64
    """the logarithm of a row's sum of exp(score)"""

    @property
    def out(self) -> Float64:
        return self.probabilities @ self.v

    def gradients(self, d_out: npt.ArrayLike) -> tuple[Float64, Float64, Float64]:
        """dQ, dK, dV for a gradient of `out`."""
        d_out = np.asarray(d_out, np.float64)
        changes = d_out @ _turned(self.v)
        mean = (d_out * self.out).sum(axis=-1, keepdims=True)
        d_scores = self.probabilities * (changes - mean) / np.sqrt(self.q.shape[-1])
        return d_scores @ self.k, _turned(d_scores) @ self.q, _turned(self.probabilities) @ d_out


def attend(q: npt.ArrayLike, k: npt.ArrayLike, v: npt.ArrayLike, causal: bool) -> Attention:
    """softmax(Q K' / sqrt(D)) V; with `causal` a query looks at itself and what comes before it."""
    q, k, v = (np.asarray(array, np.float64) for array in (q, k, v))
    scores = q @ _turned(k) / np.sqrt(q.shape[-1])
    if causal:
        scores = np.where(np.tril(np.ones(scores.shape[-2:], bool)), scores, -np.inf)
    largest = scores.max(axis=-1, keepdims=True)
    powers = np.exp(scores - largest)
    total = powers.sum(axis=-1, keepdims=True)
    return Attention(q, k, v, powers / total, (largest + np.log(total))[..., 0])


def _turned(array: Float64) -> Float64:
    return np.swapaxes(array, -1, -2)


def normalised(x: npt.ArrayLike, centred: int) -> tuple[Float64, Float64, Float64]:
    """(x - mean) * rstd, mean and rstd of each row; the mean is 0 without centring."""
    x = np.asarray(x, np.float64)
    mean = centred * x.mean(axis=1)
    rstd = 1 / np.sqrt(((x - mean[:, None]) ** 2).mean(axis=1) + EPSILON)
    return (x - mean[:, None]) * rstd[:, None], mean, rstd


def largest_score(q: npt.ArrayLike, k: npt.ArrayLike) -> float:
    """What a score's products come to at most, signs left out: its rounding is for that."""
    q, k = (np.abs(np.asarray(array, np.float64)) for array in (q, k))
    return float((q @ _turned(k)).max() / np.sqrt(q.shape[-1]))


def check_attention(
    kernel: Submission, rng: np.random.Generator, n: int, *, causal: int, heads: int = 1, d: int | None = None,
    spread: int = SPREAD, rising: bool = False, falling: bool = False,
) -> Case:  # fmt: skip
    """O and L of a forward step, of halves or floats. Raises Judgement.

    `rising`: keys grow along the text, so that nearly every tile brings larger scores than all before it; `falling`:
    the same for a kernel that takes the last tile first.
    """
    sizes = {"causal": causal, "HEADS": heads, "N": n}
    width = d or int(kernel.contract.declarations.constexpr_values({})["D"])
    q, k, v = (rng.uniform(-1, 1, (heads, n, width)).astype(np.float32) for _ in range(3))
    if rising or falling:
        growth = np.linspace(0, 4, n, dtype=np.float32)[:, None]
        q, k = abs(q), k * (growth if rising else growth[::-1])
    case = run_case(kernel, rng, sizes, {"D": width}, Q=spread * q, K=k, V=v)
    q, k, v = (case.arrays[name] for name in "QKV")
    right = attend(q, k, v, bool(causal))
    score = largest_score(q, k)
    case.check({"L": right.log}, k=n + width, scale=np.full(right.log.shape, 1 + score))
    # What a score is off by, its power is off by in parts of itself, and so is the sum by which it is divided.
    weighed = right.probabilities @ abs(right.v)
    if q.dtype == np.float16:  # each probability is rounded once
        return case.check({"O": right.out}, k=1, accumulator="float16", scale=weighed)
    return case.check({"O": right.out}, k=n + width, scale=(1 + 2 * score) * weighed)


def products_of(n: int, d: int, *, causal: int, tile: int, each: int = 2) -> int:
    """Multiply-adds of `each` products for one head whose tiles of `tile` x `tile` scores are computed whole."""
    tiles = -(-n // tile)
    return each * d * tile * tile * (tiles * (tiles + 1) // 2 if causal else tiles * tiles)
