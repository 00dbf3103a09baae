"""Tables 7 to 11 of the thesis on VGG16 that lab 13 follows: a GTX 1080, 32 images of 224 x 224, times in ms.

Each entry is what it compares itself with, and its own time: cuDNN by hand (tables 7, 8, 10, and "ours" of 9) or
TensorFlow 2.2 (11, and what is called from it).
"""

from __future__ import annotations

from collections.abc import Mapping

Pair = tuple[float, float]

_FORWARD = (
    (9.1, 9.06), (18, 16.65), (7.1, 6.65), (9.9, 9.9), (4.22, 4.08), (6.74, 7.04), (6.74, 7.04), (3.2, 3.31),
    (5.73, 5.97), (5.73, 5.97), (1.83, 1.86), (1.83, 1.86), (1.83, 1.86),
)  # fmt: skip
_BACKWARD = (
    (27.6, 9.4), (56.5, 26), (19, 11.2), (26, 15.1), (10, 8), (15.6, 12.2), (16.9, 12), (7, 5.9), (11.7, 10.8),
    (12.2, 10.7), (3.9, 3.45), (3.9, 3.45), (4.2, 3.4), (3.75, 3.6), (0.96, 0.65), (0.4, 0.18),
)  # fmt: skip
_LAYERS = (*(f"conv{k}" for k in range(1, 14)), "fc1", "fc2", "fc3")

TIMES_MS: Mapping[int, Mapping[str, Pair]] = {
    7: {**dict(zip(_LAYERS, _FORWARD, strict=False)), "total": (81.95, 81.25)},
    8: {"fc1": (1.82, 1.7), "fc2": (0.31, 0.29), "fc3": (0.1, 0.2), "total": (2.23, 2.19)},
    9: {"ours": (91.5, 84), "ours, called from PyTorch": (116, 86)},
    10: {**dict(zip(_LAYERS, _BACKWARD, strict=True)), "total": (219.6, 136)},
    11: {"ours": (355, 243), "ours, called from PyTorch": (355, 252)},
}
"""table -> row -> the other's time and the thesis's own; totals as they are printed there"""
