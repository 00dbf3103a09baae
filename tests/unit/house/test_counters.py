"""The counter table and the arithmetic on it."""

from __future__ import annotations

import copy
import math
import pickle

import pytest

from ptxsim.counters import BY_NAME, COUNTERS
from warpschool.counters import DERIVED, Counters, UnmeasuredCounters, ratio
from warpschool.errors import NotMeasured

NAIVE_GEMM_16 = {  # M = N = K = 16, counted by hand: every thread loads 2 floats per multiply-add
    "fma_instructions": 16**3,
    "global_load_bytes": 2 * 4 * 16**3,
    "global_store_bytes": 4 * 16**2,
    "thread_instructions": 4 * 16**3,
}


def test_names_and_metrics_are_unique() -> None:
    names = [c.name for c in COUNTERS]
    metrics = [c.metric for c in COUNTERS if c.metric]
    assert len(set(names + metrics)) == len(names) + len(metrics)


def test_every_row_says_what_it_means() -> None:
    for counter in COUNTERS:
        assert counter.unit
        assert counter.meaning.endswith(".")
        assert counter.name.isidentifier()
    assert all(DERIVED.values())


def test_a_counter_is_found_under_all_its_names() -> None:
    metric = "l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum"
    counters = Counters(global_load_requests=7)
    assert counters[metric] == counters["global_load_requests"] == counters.global_load_requests == 7
    assert counters.get(metric) == 7
    assert Counters({metric: 7}) == counters
    assert BY_NAME[metric] is BY_NAME["global_load_requests"]


def test_missing_counters_are_zero_and_unknown_names_are_errors() -> None:
    counters = Counters(barriers=1)
    assert counters.global_load_sectors == 0
    assert counters.get("no_such_counter") is None
    with pytest.raises(KeyError):
        counters["no_such_counter"]
    with pytest.raises(AttributeError, match="no_such_counter"):
        counters.no_such_counter  # noqa: B018
    with pytest.raises(ValueError, match="no_such_counter"):
        Counters(no_such_counter=1)


def test_iteration_lists_ncu_names_where_there_are_any() -> None:
    keys = list(Counters())
    assert len(keys) == len(COUNTERS)
    assert "smsp__inst_executed_op_shared_ld.sum" in keys
    assert "shared_load_requests" not in keys
    assert "global_load_bytes" in keys


def test_counters_cannot_be_changed() -> None:
    counters = Counters(barriers=1)
    with pytest.raises(AttributeError):
        counters.barriers = 2
    with pytest.raises(AttributeError):
        del counters.barriers
    plain = counters.plain()
    plain["barriers"] = 5
    assert counters.barriers == 1


def test_counters_add_up() -> None:
    a, b = Counters(barriers=1, blocks=2), Counters(barriers=10)
    assert (a + b).barriers == 11
    assert sum([a, b, b]).barriers == 21
    assert a.barriers == 1


def test_copies_are_equal() -> None:
    counters = Counters(barriers=3)
    assert pickle.loads(pickle.dumps(counters)) == counters == copy.deepcopy(counters)
    assert hash(counters) == hash(Counters(barriers=3))
    assert counters != Counters(barriers=4)


def test_naive_gemm_has_a_quarter_flop_per_byte_and_no_reuse() -> None:
    counters = Counters(NAIVE_GEMM_16)
    assert counters.data_reuse == 1
    assert counters.arithmetic_intensity == pytest.approx(2 / 8 * 32 / 33)  # the stores are 1/33 of the bytes
    assert counters.fma_share == 1 / 4


def test_coalescing_figures() -> None:
    counters = Counters(
        global_load_sectors=32, global_load_sectors_ideal=4, global_store_sectors=10, global_store_sectors_ideal=10
    )
    assert counters.global_load_efficiency == 1 / 8
    assert counters.global_store_efficiency == 1
    assert counters.excess_sectors == counters.excess_load_sectors == 28
    assert counters.global_sector_bytes == 32 * 42


def test_flops_count_two_per_multiply_add() -> None:
    assert Counters(fma_instructions=10, fadd_instructions=3, fmul_instructions=2).flops == 25


def test_shared_memory_figures() -> None:
    counters = Counters(
        shared_load_bank_conflicts=3, shared_store_bank_conflicts=4, shared_load_bytes=80, fma_instructions=10
    )
    assert counters.shared_bank_conflicts == 7
    assert counters.shared_bytes_per_fma == 8


def test_ratios_of_nothing_fail_every_comparison() -> None:
    assert math.isnan(ratio(0, 0))
    assert ratio(1, 0) == math.inf
    efficiency = Counters().global_load_efficiency
    assert not efficiency >= 0.9
    assert not efficiency < 0.9


def test_text_shows_what_is_not_zero() -> None:
    text = str(Counters(global_load_sectors=1234))
    assert "global_load_sectors" in text
    assert "1,234" in text
    assert "barriers" not in text
    assert "barriers" not in repr(Counters(global_load_sectors=1))


class TestUnmeasured:
    def test_it_says_so(self) -> None:
        counters = UnmeasuredCounters()
        assert str(counters) == "not measured on this device"
        assert not counters.measured
        assert Counters.measured

    @pytest.mark.parametrize("name", [*(c.name for c in COUNTERS), *DERIVED])
    def test_no_attribute_can_be_read(self, name: str) -> None:
        with pytest.raises(NotMeasured, match="not measured on this device"):
            getattr(UnmeasuredCounters(), name)

    @pytest.mark.parametrize(
        "read",
        [
            lambda c: c["barriers"],
            lambda c: c.get("barriers"),
            lambda c: c.get("barriers", 0),
            lambda c: list(c),
            lambda c: dict(c),
            lambda c: c.items(),
            lambda c: c.values(),
            lambda c: c.plain(),
        ],
    )
    def test_no_mapping_access_works(self, read) -> None:
        with pytest.raises(NotMeasured):
            read(UnmeasuredCounters())

    def test_a_sum_with_it_is_unmeasured(self) -> None:
        assert not (Counters(barriers=1) + UnmeasuredCounters()).measured
        assert not (UnmeasuredCounters() + Counters(barriers=1)).measured

    def test_it_differs_from_zero_counts(self) -> None:
        assert UnmeasuredCounters() != Counters()
        assert Counters() != UnmeasuredCounters()
        assert pickle.loads(pickle.dumps(UnmeasuredCounters("why"))).reason == "why"
