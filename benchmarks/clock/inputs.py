"""Arrays of a case, from their description: the same on every machine. NumPy alone."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from typing import Any

import numpy as np


def make(array: Mapping[str, Any], seed: int) -> np.ndarray:
    """One array.

    `how`: "random" as `random_inputs` of the library draws it; "below" integers from 0 to `limit`, 0 included;
    "starts" where the rows of a sparse matrix begin, `total` elements in all; "descending", "sorted"; "positive" floats;
    "permutation" every number once; "zero"; "poison" bytes of an output before a run.
    """
    shape, dtype = tuple(array["shape"]), np.dtype(array["dtype"])
    rng = np.random.default_rng([seed, zlib.crc32(array["name"].encode())])
    count = int(np.prod(shape))
    match array["how"]:
        case "random":
            values = rng.uniform(-1, 1, shape) if dtype.kind == "f" else rng.integers(0, 8, shape)
        case "below":
            values = rng.integers(0, array["limit"], shape)
        case "starts":
            cuts = np.sort(rng.integers(0, array["total"] + 1, count - 2)) if count > 2 else np.zeros(0, np.int64)
            values = np.concatenate([[0], cuts, [array["total"]]]).reshape(shape)
        case "sorted":
            values = np.sort(rng.uniform(-1, 1, count)).reshape(shape)
        case "descending":
            values = np.arange(count, 0, -1).reshape(shape)
        case "positive":
            values = rng.uniform(0.1, 1, shape)
        case "permutation":
            values = rng.permutation(count).reshape(shape)
        case "zero":
            return np.zeros(shape, dtype)
        case "poison":
            return np.full(count * dtype.itemsize, 0x7F, np.uint8).view(dtype).reshape(shape)
        case other:
            raise ValueError(f"there is no way {other!r} to make {array['name']}")
    return values.astype(dtype)
