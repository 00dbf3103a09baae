"""Device arrays in simulated memory: copies, views, refusals, lifetime."""

from __future__ import annotations

import gc

import numpy as np
import pytest

from warpschool.device import DeviceArray, SimDevice
from warpschool.errors import ArgumentError, MemoryLimitExceeded, NotMeasured

RNG = np.random.default_rng(5)


@pytest.fixture
def device() -> SimDevice:
    return SimDevice()


def test_round_trip(device: SimDevice) -> None:
    host = RNG.normal(size=(7, 5)).astype(np.float32)
    array = device.asarray(host, name="A")
    assert (array.shape, array.dtype, array.nbytes, array.size, array.ndim, len(array)) == (
        (7, 5), np.float32, 140, 35, 2, 7,
    )  # fmt: skip
    np.testing.assert_array_equal(device.asnumpy(array), host)
    host[...] = 0
    assert array.get().any()  # a copy, not the host's memory


@pytest.mark.parametrize("dtype", ["i1", "u2", "i4", "i8", "f2", "f4", "f8", "c8", "?"])
def test_every_plain_dtype(device: SimDevice, dtype: str) -> None:
    host = np.arange(12).reshape(3, 4).astype(dtype)
    np.testing.assert_array_equal(device.asarray(host).get(), host)


def test_structures_and_views_with_strides(device: SimDevice) -> None:
    kind = np.dtype([("x", "f4"), ("n", "i4")])
    host = np.array([(1.5, 2), (2.5, 3)], kind)
    assert (device.asarray(host).get() == host).all()
    square = RNG.normal(size=(4, 6))
    np.testing.assert_array_equal(device.asarray(square.T).get(), square.T)
    np.testing.assert_array_equal(device.asarray(square[:, ::2]).get(), square[:, ::2])


def test_empty_is_poisoned_and_zeros_are_zero(device: SimDevice) -> None:
    assert np.isnan(device.empty((3, 4), np.float32).get()).all()
    assert (device.zeros((3, 4), np.float64).get() == 0).all()
    assert device.zeros((), np.int32).get() == 0
    assert device.empty(5, np.int8).shape == (5,)
    assert device.empty((0, 3), np.float32).get().shape == (0, 3)


def test_numpy_cannot_look_inside(device: SimDevice) -> None:
    array = device.zeros(4, np.float32, name="A")
    for use in (np.asarray, np.sum, lambda a: np.ones(4) + a, list):
        with pytest.raises((ArgumentError, TypeError)):
            use(array)
    with pytest.raises(ArgumentError, match="asnumpy"):
        np.array(array)
    assert not hasattr(array, "__cuda_array_interface__")


def test_rows_are_views(device: SimDevice) -> None:
    host = np.arange(24, dtype=np.int32).reshape(4, 3, 2)
    array = device.asarray(host)
    for key in (slice(1, 3), slice(None), slice(3, 1), slice(-2, None), 2, -1, np.int64(0)):
        np.testing.assert_array_equal(array[key].get(), host[key])
    array[1].fill(7)
    host[1] = 7
    np.testing.assert_array_equal(array.get(), host)
    assert array[2].address == array.address + 2 * 3 * 2 * 4


@pytest.mark.parametrize(
    ("key", "error"),
    [
        (slice(0, 4, 2), ArgumentError),
        ((0, 1), ArgumentError),
        ([0, 1], ArgumentError),
        (4, IndexError),
        (-5, IndexError),
    ],
)
def test_other_keys_are_refused(device: SimDevice, key, error) -> None:
    with pytest.raises(error):
        device.zeros((4, 2), np.float32)[key]


def test_reshape_and_view(device: SimDevice) -> None:
    host = np.arange(24, dtype=np.float32)
    array = device.asarray(host)
    for shape in ((4, 6), (2, -1), (-1,), (1, 24)):
        np.testing.assert_array_equal(array.reshape(shape).get(), host.reshape(shape))
    np.testing.assert_array_equal(array.reshape(3, 8).get(), host.reshape(3, 8))
    np.testing.assert_array_equal(array.view(np.uint32).get(), host.view(np.uint32))
    assert array.reshape(6, 4).view(np.uint8).shape == (6, 16)
    for shape in ((5, 5), (-1, -1), (7, -1), (-24,)):
        with pytest.raises(ArgumentError):
            array.reshape(shape)
    with pytest.raises(ArgumentError):
        device.zeros(3, np.uint8).view(np.float32)


def test_set_and_get_want_the_same_shape_and_dtype(device: SimDevice) -> None:
    array = device.zeros((2, 3), np.float32, name="C")
    array.set(np.arange(1, 7, dtype=np.float32).reshape(2, 3))
    out = np.empty((2, 3), np.float32)
    assert array.get(out=out) is out
    assert out.sum() == 21
    for wrong in (np.zeros((2, 3)), np.zeros((3, 2), np.float32), np.zeros(6, np.float32)):
        with pytest.raises(ArgumentError, match="C has shape"):
            array.set(wrong)
    with pytest.raises(ArgumentError):
        array.get(out=np.empty((2, 6), np.float32)[:, ::2])


def test_what_no_device_can_hold_is_refused(device: SimDevice) -> None:
    for wrong in (np.array(["text"]), np.array([object()]), np.zeros(2, ">f4"), [[1], [1, 2]]):
        with pytest.raises(ArgumentError):
            device.asarray(wrong)
    for shape in (-1, (2, -3), 2.5, ("a",)):
        with pytest.raises(ArgumentError):
            device.empty(shape, np.float32)
    with pytest.raises(ArgumentError, match="no dtype"):
        device.empty(3, "nonsense")
    with pytest.raises(ArgumentError, match="on a device already"):
        device.asarray(device.zeros(3, np.float32))


def test_memory_comes_back_when_the_last_view_is_gone(device: SimDevice) -> None:
    array = device.zeros(1000, np.float32)
    row = array[10:20]
    del array
    gc.collect()
    device.empty(1, np.int8)  # collects
    assert device.memory.used_bytes == 4001
    assert row.get().sum() == 0
    del row
    gc.collect()
    kept = device.empty(1, np.int8)
    assert device.memory.used_bytes <= 2
    assert isinstance(kept, DeviceArray)


def test_memory_has_a_limit() -> None:
    device = SimDevice(memory_limit_bytes=1 << 20)
    with pytest.raises(MemoryLimitExceeded, match="big"):
        device.empty(1 << 20, np.float32, name="big")


def test_allocations_carry_names(device: SimDevice) -> None:
    named, unnamed = device.zeros(3, np.float32, name="weights"), device.zeros((2, 2), np.int32)
    labels = [device.memory.find(a.address).name for a in (named, unnamed)]  # type: ignore[union-attr]
    assert labels[0] == "weights"
    assert "int32[2, 2]" in labels[1]


def test_pinned_arrays_are_host_arrays(device: SimDevice) -> None:
    pinned = device.pinned((2, 3), np.float32)
    assert isinstance(pinned, np.ndarray)
    pinned[...] = 4
    assert device.asarray(pinned).get().sum() == 24


class TestOrder:
    def test_streams_and_events_are_always_done(self, device: SimDevice) -> None:
        stream, event = device.Stream(non_blocking=True), device.Event()
        with stream:
            event.record(stream)
        stream.wait_event(event)
        stream.synchronize()
        device.synchronize()
        assert event.done
        assert stream.done
        assert stream.record().done
        array = device.zeros(3, np.float32)
        array.set(np.ones(3, np.float32), stream=stream)
        assert array.get(stream=stream).sum() == 3

    def test_there_is_no_time(self, device: SimDevice) -> None:
        start, end = device.Event(), device.Event()
        start.record()
        end.record()
        with pytest.raises(NotMeasured):
            device.elapsed_ms(start, end)

    def test_a_stranger_s_stream_is_refused(self, device: SimDevice) -> None:
        other = SimDevice(memory_limit_bytes=1 << 20)
        with pytest.raises(ArgumentError, match="does not belong"):
            device.Stream().wait_event(other.Event())
        with pytest.raises(ArgumentError, match="does not belong"):
            device.zeros(1, np.float32).get(stream=other.Stream())
