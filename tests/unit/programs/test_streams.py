"""What streams leave unordered."""

import numpy as np
import pytest

from warpschool.programs.streams import NOTHING, Access, Bytes, Streams
from warpschool.programs.wire import NON_BLOCKING

ALL = Bytes(0, 1024)


def work(streams, stream, *, reads=NOTHING, writes=NOTHING):
    """Puts work into a stream; what it disturbs."""
    moment = streams.begin(stream)
    found = streams.access(1, Access(stream, moment, f"work {moment} of {stream}", reads, writes))
    return found.what if found is not None else None


def test_two_streams_that_write_the_same():
    streams = Streams()
    assert work(streams, 1, writes=ALL) is None
    assert work(streams, 2, writes=ALL) == "work 1 of 1"


def test_two_readers_do_not_disturb_each_other():
    streams = Streams()
    assert [work(streams, s, reads=ALL) for s in (1, 2)] == [None, None]
    assert work(streams, 3, writes=ALL)


def test_one_stream_is_in_order():
    streams = Streams()
    assert [work(streams, 1, writes=ALL) for _ in range(3)] == [None] * 3


def test_an_event_orders_what_was_before_it_and_nothing_else():
    streams = Streams()
    work(streams, 1, writes=Bytes(0, 512))
    streams.record(7, 1)
    work(streams, 1, writes=Bytes(512, 1024))
    streams.wait(2, 7)
    assert work(streams, 2, reads=Bytes(0, 512)) is None
    assert work(streams, 2, reads=Bytes(512, 1024)) == "work 2 of 1"


@pytest.mark.parametrize("waits", [{}, {"stream": 1}, {"event": 3}])
def test_what_the_host_waited_for_is_over(waits):
    streams = Streams()
    work(streams, 1, writes=ALL)
    streams.record(3, 1)
    streams.host_waits(**waits)
    assert work(streams, 2, writes=ALL) is None


def test_the_default_stream_waits_for_others_and_they_for_it():
    streams = Streams()
    assert [work(streams, s, writes=ALL) for s in (1, 0, 2)] == [None, None, None]


def test_a_non_blocking_stream_does_not():
    streams = Streams()
    work(streams, 0, writes=ALL)
    assert work(streams, 4 | NON_BLOCKING, writes=ALL) == "work 1 of 0"


def test_bytes_meet_where_their_masks_do():
    even = Bytes.of(np.arange(64) % 2 == 0, 4)
    odd = Bytes.of(np.arange(64) % 2 == 1, 4)
    assert not even.meets(odd) and even.meets(Bytes(8, 9)) and not even.meets(Bytes(4, 8))
    assert odd.meets(Bytes.of(np.arange(256) == 5, 1))
    assert not Bytes.of(np.zeros(4, bool), 4).meets(ALL)
