"""Tensor maps as programs ask for them: which the driver refuses, with what error, and what is told.

The rows were given to an H200's driver (13.0), which did the same: but for sizes of 2^64 - 1, for null corners, where
it crashes, and for `OURS`.
"""

from __future__ import annotations

import struct

import pytest

from ptxsim.tensormap import TensorMap
from warpschool.model import find_gpu
from warpschool.programs import errors
from warpschool.programs.tensor_maps import Asked, NoTensorMap, moved
from warpschool.programs.wire import Fields

H200 = find_gpu("h200")
NAMES = ("globalDim", "globalStrides", "boxDim", "elementStrides", "pixelBoxLowerCorner", "pixelBoxUpperCorner")
AT = 1 << 20
TILED = {
    "call": "cuTensorMapEncodeTiled", "target": 128, "data_type": 7, "rank": 2, "address": AT, "interleave": 0,
    "swizzle": 3, "promotion": 0, "fill": 0, "globalDim": (64, 64, 4, 4, 4),
    "globalStrides": (256, 16384, 65536, 262144), "boxDim": (32, 8, 2, 2, 2), "elementStrides": (1,) * 5,
    "pixelBoxLowerCorner": None, "pixelBoxUpperCorner": None,
}  # fmt: skip
IM2COL = {
    **TILED, "call": "cuTensorMapEncodeIm2col", "data_type": 6, "rank": 4, "globalDim": (64, 32, 32, 4, 4),
    "globalStrides": (128, 4096, 131072, 524288), "boxDim": (64, 128), "pixelBoxLowerCorner": (-1, -1),
    "pixelBoxUpperCorner": (-1, -1),
}  # fmt: skip


def asked(given: dict, **changes) -> Asked:
    """As `tensor_maps.cpp` sends it: of each array as many numbers as the rank says."""
    all_ = {**given, **changes}
    rank = all_["rank"]
    two = all_["call"] == IM2COL["call"]
    counts = dict(zip(NAMES, (rank, max(rank - 1, 0), 2 if two else rank, rank, rank - 2, rank - 2), strict=True))
    name = all_["call"].encode()
    data = struct.pack("<Q", len(name)) + name + bytes(-len(name) % 8)
    numbers = ("target", "data_type", "rank", "address", "interleave", "swizzle", "promotion", "fill")
    data += struct.pack("<8Q", *(all_[k] for k in numbers))
    for key in NAMES:
        array = all_[key]
        part = () if array is None else array[: min(counts[key], 5)]
        data += struct.pack(f"<QQ{len(part)}{'q' if 'Corner' in key else 'Q'}", array is not None, 8 * len(part), *part)
    return Asked.of(Fields(data))


@pytest.mark.parametrize("changes", [
    {}, {"address": AT + 16}, {"address": 0}, {"globalDim": (64, 1 << 32)}, {"globalStrides": (0,)},
    {"globalStrides": (16,)}, {"globalStrides": ((1 << 40) - 16,)}, {"boxDim": (32, 256)},
    {"boxDim": (64, 8), "swizzle": 0}, {"boxDim": (32, 128)}, {"elementStrides": (8, 8)}, {"rank": 1}, {"rank": 5},
    {"promotion": 3}, {"fill": 1}, {"fill": 1, "data_type": 11}, {"target": 64}, {"target": 16},
    {"swizzle": 1, "boxDim": (8, 8)}, {"swizzle": 2, "boxDim": (16, 8)}, {"data_type": 0, "boxDim": (128, 8)},
    {"data_type": 0, "rank": 3, "swizzle": 0, "boxDim": (256, 228, 4)},
    {"data_type": 0, "rank": 3, "swizzle": 0, "boxDim": (256, 256, 4), "elementStrides": (1, 2, 2)},
], ids=str)  # fmt: skip
def test_boxes_that_the_driver_takes(changes):
    found = TensorMap.decode(asked(TILED, **changes).encoded(H200))
    assert found.address == {**TILED, **changes}["address"] and found.corners is None


@pytest.mark.parametrize(("changes", "says"), [
    ({"address": AT + 8}, "multiple of 16 bytes, not at 0x100008"), ({"globalDim": (0, 64)}, "sizes"),
    ({"globalDim": (64, (1 << 32) + 1)}, "sizes"), ({"globalDim": (64, (1 << 64) - 1)}, "sizes"),
    ({"globalStrides": (8,)}, r"strides .*\(8,\)"), ({"globalStrides": (1 << 40,)}, "strides"),
    ({"boxDim": (0, 8)}, "sides"), ({"boxDim": (32, 257)}, "sides of a box are 1 to 256"),
    ({"boxDim": (3, 8)}, "16 bytes, not 12"), ({"boxDim": (64, 8)}, "256 bytes and may have 128"),
    ({"boxDim": (256, 256), "swizzle": 0}, "233,472 bytes, not 262,144"),
    ({"elementStrides": (9, 1)}, "element strides are 1 to 8"),
    ({"elementStrides": (1, 0)}, "element strides"), ({"interleave": 1}, "3 dimensions"),
    ({"interleave": 1, "rank": 3, "boxDim": (1, 8, 2)}, "16 bytes, not 4"),
    ({"interleave": 2, "rank": 3, "swizzle": 1, "address": AT + 16}, "multiple of 32"),
    ({"interleave": 2, "rank": 3, "swizzle": 1, "globalStrides": (272, 16384)}, "multiples of 32"),
    ({"interleave": 3, "rank": 3}, "interleave is 3"), ({"swizzle": 4}, "128B_ATOM_32B needs"),
    ({"swizzle": 6}, "needs compute capability 10.0"), ({"swizzle": 7}, "swizzle is 7"),
    ({"data_type": 13}, "16U4_ALIGN8B needs"), ({"data_type": 16}, "tensorDataType is 16"),
    ({"data_type": (1 << 32) - 1}, "tensorDataType"), ({"rank": 0}, "tensorRank is 0"),
    ({"rank": 6}, "tensorRank is 6"),
    ({"promotion": 4}, "l2Promotion is 4"), ({"fill": 1, "data_type": 3}, "NaN"), ({"fill": 2}, "oobFill is 2"),
    ({"target": 0}, "tensorMap is a null"), ({"globalDim": None}, "globalDim is a null"),
    ({"globalStrides": None}, "globalStrides is a null"),
    ({"globalStrides": None, "rank": 1}, "globalStrides is a null"),
    ({"boxDim": None}, "boxDim is a null"), ({"elementStrides": None}, "elementStrides is a null"),
    ({"swizzle": 1, "boxDim": (16, 8)}, "64 bytes and may have 32"),
    ({"swizzle": 2, "boxDim": (32, 8)}, "128 bytes and may have 64"),
], ids=str)  # fmt: skip
def test_boxes_that_it_refuses(changes, says):
    with pytest.raises(NoTensorMap, match=says) as caught:
        asked(TILED, **changes).encoded(H200)
    assert caught.value.error == errors.INVALID_VALUE


@pytest.mark.parametrize("changes", [
    {}, {"rank": 3, "pixelBoxLowerCorner": (-32768,)}, {"rank": 5, "pixelBoxLowerCorner": (-16,) * 3,
     "pixelBoxUpperCorner": (0, 0, 0)}, {"pixelBoxLowerCorner": (-128, -1)}, {"pixelBoxUpperCorner": (127, 0)},
    {"pixelBoxLowerCorner": (31, 0), "pixelBoxUpperCorner": (0, 0)}, {"boxDim": (256, 128), "swizzle": 0},
    {"boxDim": (64, 1024)}, {"elementStrides": (1, 2, 2, 1)}, {"elementStrides": (1, 1, 1, 2)},
], ids=str)  # fmt: skip
def test_windows_that_the_driver_takes(changes):
    found = TensorMap.decode(asked(IM2COL, **changes).encoded(H200))
    assert found.corners is not None and found.box == {**IM2COL, **changes}["boxDim"]


@pytest.mark.parametrize(("changes", "says"), [
    ({"rank": 2}, "3 to 5 dimensions, not 2"), ({"pixelBoxLowerCorner": (-129, -1)}, "corners are -128 to 127"),
    ({"pixelBoxUpperCorner": (128, 0)}, "corners are"), ({"rank": 3, "pixelBoxLowerCorner": (-32769,)}, "corners are"),
    ({"rank": 5, "pixelBoxLowerCorner": (-17, 0, 0), "pixelBoxUpperCorner": (0, 0, 0)}, "corners are -16 to 15"),
    ({"pixelBoxUpperCorner": (-40, -1)}, "no place"),
    ({"pixelBoxLowerCorner": (32, 0), "pixelBoxUpperCorner": (0, 0)}, "no place"), ({"boxDim": (0, 128)}, "channels"),
    ({"boxDim": (257, 128), "swizzle": 0}, "channels"), ({"boxDim": (4, 128), "swizzle": 0}, "16 bytes, not 8"),
    ({"boxDim": (128, 128)}, "256 bytes and may have 128"), ({"boxDim": (64, 0)}, "places"),
    ({"boxDim": (64, 1025)}, "places"), ({"elementStrides": (1, 9, 1, 1)}, "element strides"),
    ({"boxDim": (256, 1024), "data_type": 0, "swizzle": 0}, "233,472 bytes"), ({"fill": 1, "data_type": 3}, "NaN"),
    ({"pixelBoxLowerCorner": None}, "pixelBoxLowerCorner is a null"),
], ids=str)  # fmt: skip
def test_windows_that_it_refuses(changes, says):
    with pytest.raises(NoTensorMap, match=says) as caught:
        asked(IM2COL, **changes).encoded(H200)
    assert caught.value.error == errors.INVALID_VALUE


OURS = [
    (asked(TILED, interleave=1, rank=3), H200, "no interleaved layouts"),
    (asked(TILED), find_gpu("a100"), "compute capability 8.0 .* --gpu h200"),
]


@pytest.mark.parametrize(("request_", "gpu", "says"), OURS, ids=("interleaved", "before Hopper"))
def test_what_has_no_simulation_is_not_supported(request_, gpu, says):
    with pytest.raises(NoTensorMap, match=says) as caught:
        request_.encoded(gpu)
    assert caught.value.error == errors.NOT_SUPPORTED


def test_a_map_gets_another_address():
    before = asked(TILED).encoded(H200)
    after = TensorMap.decode(moved(before, AT + 64, H200))
    assert after.address == AT + 64 and moved(after.encode(), AT, H200) == before
    for data, address, says in (
        (before, AT + 8, "multiple of 16"), (before, 0, "globalAddress is a null"), (b"", AT, "tensorMap is a null"),
        (bytes(128), AT, "made no map"),
    ):  # fmt: skip
        with pytest.raises(NoTensorMap, match=says):
            moved(data, address, H200)
