"""Launches that would do again what they did: what makes them known, and what makes them be run again."""

import gc
import os
import weakref

import numpy as np
import pytest

from ptxsim import LaunchRecord, Memory, Reach, Touched
from warpschool.model import find_gpu
from warpschool.programs.repeats import Repeats
from warpschool.programs.session import Session

LAUNCH = ("kernel", 1)


@pytest.fixture
def arrays():
    memory = Memory()
    return [memory.allocate(64, name) for name in ("x", "y", "z")]


def record(read, written, *, settled=True, touched=None):
    reach = Reach(tuple(read), tuple(written), settled)
    return LaunchRecord({}, {}, (), "", (1, 1, 1), (32, 1, 1), reach=reach, touched=touched)


def ran(x, y, **how):
    repeats = Repeats(lambda allocation: allocation.name != "host")
    outcome = record([x], [y], **how)
    repeats.ran(LAUNCH, outcome)
    return repeats, outcome


def test_the_same_launch_is_known(arrays):
    repeats, outcome = ran(*arrays[:2])
    assert repeats.outcome(LAUNCH, ()) is outcome
    assert repeats.outcome(("kernel", 2), ()) is None


def test_a_launch_that_is_not_settled_is_not(arrays):
    repeats, _ = ran(*arrays[:2], settled=False)
    assert repeats.outcome(LAUNCH, ()) is None


@pytest.mark.parametrize(("which", "known"), [(0, False), (1, False), (2, True)])
def test_changes_count_where_it_reads_and_writes(arrays, which, known):
    repeats, _ = ran(*arrays[:2])
    repeats.change(arrays[which])
    assert (repeats.outcome(LAUNCH, ()) is not None) == known


def test_launches_that_feed_each_other_are_known_together(arrays):
    x, y, z = arrays
    repeats, first = ran(x, y)
    second = record([y], [z])
    repeats.ran(("second",), second)
    assert [repeats.outcome(launch, ()) for launch in (LAUNCH, ("second",))] == [first, second]
    repeats.ran(("third",), record([z], [x]))
    assert repeats.outcome(LAUNCH, ()) is None


def test_a_change_of_all_forgets_all(arrays):
    repeats, _ = ran(*arrays[:2])
    repeats.change_all()
    assert repeats.outcome(LAUNCH, ()) is None


def test_memory_that_the_host_may_write_is_never_known():
    memory = Memory()
    repeats, _ = ran(memory.allocate(64, "host"), memory.allocate(64, "y"))
    assert repeats.outcome(LAUNCH, ()) is None


def test_what_is_watched_has_to_be_told(arrays):
    x, y, _ = arrays
    mask = np.ones(16, np.bool_)
    repeats, outcome = ran(x, y, touched=(Touched(y.address, 4, mask, mask, mask),))
    assert repeats.outcome(LAUNCH, {y.address}) is outcome
    assert repeats.outcome(LAUNCH, {x.address}) is None


def test_a_session_that_is_over_gives_its_memory_back_at_once():
    """A check runs a program many times in a process whose address space is limited: no collector is waited for."""
    gc.disable()
    try:
        with open(os.memfd_create("arena"), "r+b") as file:
            session = Session(file.fileno(), find_gpu("a100"))
            memory = weakref.ref(session.memory)
            del session
            assert memory() is None
    finally:
        gc.enable()
