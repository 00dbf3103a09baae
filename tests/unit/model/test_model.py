"""Specifications, occupancy and roofline against figures worked out by hand or published."""

from __future__ import annotations

import pytest

from warpschool.counters import Counters, UnmeasuredCounters
from warpschool.errors import LaunchError, NotMeasured, WarpschoolError
from warpschool.model import DEFAULT_GPU, GPUS, LIMITS, Roofline, estimate, find_gpu, in_sequence, occupancy


@pytest.mark.parametrize(
    ("key", "tflops"),  # the makers' published single-precision peaks
    [("k40", 4.29), ("gtx1080", 8.87), ("rtx2080ti", 13.45), ("t4", 8.1), ("a100", 19.5), ("h100", 66.9), ("l4", 30.3)],
)
def test_peak_matches_the_published_one(key: str, tflops: float) -> None:
    assert GPUS[key].fp32_tflops == pytest.approx(tflops, rel=0.01)


def test_every_gpu_names_its_source() -> None:
    for key, spec in GPUS.items():
        assert spec.key == key
        assert spec.source
        assert spec.sm.shared_bytes_per_block <= spec.sm.shared_bytes
        assert spec.arch == "sm_{}{}".format(*spec.capability)
    assert DEFAULT_GPU in GPUS


@pytest.mark.parametrize("name", ["RTX 2080 Ti", "rtx2080ti", "NVIDIA GeForce RTX 2080 Ti", "GeForce-RTX-2080-Ti"])
def test_gpus_are_found_by_any_spelling(name: str) -> None:
    assert find_gpu(name).key == "rtx2080ti"
    assert find_gpu(find_gpu(name)).key == "rtx2080ti"


def test_an_unknown_gpu_is_an_error_with_a_suggestion() -> None:
    with pytest.raises(WarpschoolError, match="rtx2080ti"):
        find_gpu("rtx2080")


class TestOccupancy:
    # (threads, registers, shared bytes, GPU) -> (blocks per SM, what limits), by the occupancy calculator's rules
    @pytest.mark.parametrize(
        ("threads", "registers", "shared", "gpu", "blocks", "limit"),
        [
            (256, 32, 0, "rtx2080ti", 4, "warps"),  # 4 x 8 = all 32 warps
            (256, 64, 0, "rtx2080ti", 4, "warps"),
            (256, 65, 0, "rtx2080ti", 3, "registers"),  # 72 x 32 = 2304 a warp: 7 per partition, 28 // 8
            (256, 40, 4096, "a100", 6, "registers"),  # 1280 a warp: 12 per partition, 48 // 8
            (32, 16, 0, "a100", 32, "blocks"),
            (32, 16, 0, "k40", 16, "blocks"),
            (1024, 32, 0, "a100", 2, "warps"),
            (128, 16, 48 << 10, "a100", 3, "shared memory"),  # 164 // (48 + 1)
            (128, 16, 48 << 10, "gtx1080", 2, "shared memory"),  # 96 // 48: nothing reserved
            (768, 32, 0, "rtx4060laptop", 2, "warps"),
            (1024, 32, 0, "rtx4060laptop", 1, "warps"),  # 48 // 32: a third of the warps stays empty
            (33, 16, 0, "h200", 32, "warps"),  # two warps for 33 threads
        ],
    )
    def test_blocks_per_sm(self, threads, registers, shared, gpu, blocks, limit) -> None:
        found = occupancy(threads, registers=registers, shared_bytes=shared, gpu=gpu)
        assert (found.blocks, limit in found.limited_by) == (blocks, True)
        assert found.warps == blocks * -(-threads // 32)
        assert found.fraction == found.warps / find_gpu(gpu).sm.warps

    def test_shared_memory_is_handed_out_in_whole_units(self) -> None:
        most = (164 << 10) // 4 - (1 << 10)  # four blocks, each with 1 KiB reserved
        assert occupancy(32, registers=16, shared_bytes=most, gpu="a100").blocks == 4
        assert occupancy(32, registers=16, shared_bytes=most + 1, gpu="a100").blocks == 3

    def test_text_names_the_limit(self) -> None:
        text = str(occupancy(256, registers=65, gpu="rtx2080ti", note="a note"))
        assert "75%" in text
        assert "registers" in text
        assert "a note" in text

    @pytest.mark.parametrize(
        ("threads", "registers", "shared", "message"),
        [
            (2048, 16, 0, "threads per block"),
            (0, 16, 0, "at least one thread"),
            (32, 256, 0, "registers per thread"),
            (32, 16, 49 << 10, "shared memory per block"),
            (1024, 128, 0, "131,072 registers are needed"),
        ],
    )
    def test_what_does_not_fit_is_refused(self, threads, registers, shared, message) -> None:
        with pytest.raises(LaunchError, match=message):
            occupancy(threads, registers=registers, shared_bytes=shared, gpu="gtx1080")

    def test_every_chip_holds_a_small_block(self) -> None:
        for spec in GPUS.values():
            assert occupancy(32, registers=32, gpu=spec).blocks >= 16
        assert len(LIMITS) == len({row.capability for row in LIMITS.values()})


class TestRoofline:
    def test_memory_bound_left_of_the_ridge_and_compute_bound_right(self) -> None:
        roofline = Roofline.of("a100")
        ridge = roofline.ridge("DRAM")
        assert roofline.attainable_gflops(ridge / 2) == pytest.approx(roofline.peak_gflops / 2)
        assert roofline.attainable_gflops(ridge * 10) == roofline.peak_gflops
        assert ridge == pytest.approx(19_492 / 1555, rel=1e-3)

    def test_roofs_are_ordered_by_speed(self) -> None:
        for spec in GPUS.values():
            speeds = [roof.gb_per_s for roof in Roofline.of(spec).roofs]
            assert speeds == sorted(speeds)

    def test_an_unknown_l2_bandwidth_is_left_out(self) -> None:
        with pytest.raises(KeyError):
            Roofline.of("k40").roof("L2")

    def test_intensity_grows_towards_dram(self) -> None:
        counters = Counters(fma_instructions=500, global_load_bytes=4000, global_load_sectors=100)
        found = Roofline.intensities(counters, array_bytes=2000)
        assert found == {"L1": 1000 / 4000, "L2": 1000 / 3200, "DRAM": 1000 / 2000}
        assert "DRAM" not in Roofline.intensities(counters)


class TestEstimate:
    def test_arithmetic_bound(self) -> None:
        counters = Counters(fma_instructions=10**9, blocks=10_000)
        found = estimate(counters, gpu="a100", array_bytes=0)
        assert found.limited_by == "FP32 arithmetic"
        assert found.time_ms == pytest.approx(2e9 / 19.492e12 * 1e3, rel=1e-3)

    def test_dram_bound(self) -> None:
        counters = Counters(global_load_sectors=10**6, blocks=10_000)
        found = estimate(counters, gpu="a100", array_bytes=10**9)
        assert found.limited_by == "DRAM"
        assert found.time_ms == pytest.approx(32e6 / 1555e9 * 1e3)  # no more than the sectors touched

    def test_shared_memory_bound(self) -> None:
        counters = Counters(shared_load_wavefronts=108 * 1410 * 1000, blocks=10_000)
        found = estimate(counters, gpu="a100")
        assert found.limited_by == "L1 and shared memory"
        assert found.time_ms == pytest.approx(1.0)

    @pytest.mark.parametrize(
        ("wavefronts", "text"), [(1410, "1 us"), (14, "9.93 ns"), (2_820_000, "2 ms"), (0, "0 ns")]
    )
    def test_the_bound_is_told_in_a_fitting_unit(self, wavefronts: int, text: str) -> None:
        found = estimate(Counters(shared_load_wavefronts=108 * wavefronts, blocks=10_000), gpu="a100")
        assert f"roofline bound of {text} on" in str(found)

    def test_few_blocks_leave_sms_idle(self) -> None:
        many = estimate(Counters(fma_instructions=10**6, blocks=108), gpu="a100")
        one = estimate(Counters(fma_instructions=10**6, blocks=1), gpu="a100")
        assert one.time_ms == pytest.approx(108 * many.time_ms)

    def test_it_calls_itself_an_estimate(self) -> None:
        text = str(estimate(Counters(fma_instructions=1, tensor_instructions=1), gpu="a100"))
        assert text.startswith("estimate:")
        assert "tensor cores not included" in text

    def test_unmeasured_counters_give_no_estimate(self) -> None:
        with pytest.raises(NotMeasured):
            estimate(UnmeasuredCounters())

    def test_launches_in_sequence_add_up(self) -> None:
        one = estimate(Counters(fma_instructions=10**9, blocks=999), gpu="a100")
        both = in_sequence([one, one])
        assert both.time_ms == 2 * one.time_ms
        assert both.limited_by == one.limited_by
        assert "2 launches" in both.note
        assert in_sequence([one]) is one
