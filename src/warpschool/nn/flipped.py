"""Filters turned round: the gradient of a convolution's images is a convolution, too, by any kernel that has one.

A pixel (h, v) of channel c took part in the results (h + PAD - r, v + PAD - s) of each filter f, through w[f, c, r, s].
So its slope is a sum over filters and their elements, as a result is one over channels: the slopes of the results are
the images, padded by R - 1 - PAD, and the filters are w with f and c exchanged and rows and columns backwards.
"""

from __future__ import annotations

from functools import cache

from warpschool.contract import Contract, parse_contract

_SOURCE = """// flip.cu: a convolution's filters for the way back.
// Entry:   flip(const float w[F,C,R,S] in, float flipped[C,F,R,S] out, int F, int C, int R, int S)
// Launch:  flip block=(THREADS) grid=(cdiv(F * C * R * S, THREADS))

constexpr int THREADS = 256;

extern "C" __global__ void flip(const float* __restrict__ w, float* __restrict__ flipped, int F, int C, int R, int S)
{
    const int i = blockIdx.x * THREADS + threadIdx.x;  // an element of `flipped`
    if (i >= F * C * R * S) return;
    const int place = R * S - 1 - i % (R * S);
    const int f = i / (R * S) % F;
    const int c = i / (R * S) / F;
    flipped[i] = w[(f * C + c) * R * S + place];
}
"""


@cache
def flip() -> Contract:
    """The kernel that turns filters round."""
    return parse_contract(_SOURCE, name="flip.cu")
