"""Timed samples on a GPU: CUDA events around the work, caches flushed before it."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from warpschool.device.gpu import GpuDevice

_MIN_FLUSH_BYTES = 64 << 20
_MIN_DELAY_US, _MAX_DELAY_US = 20.0, 1000.0
_SPIN = """
extern "C" __global__ void spin(long long cycles) {
    const long long start = clock64();
    while (clock64() - start < cycles) {}
}
"""


class GpuSampler:
    """Takes samples in batches: all of a batch is enqueued before the first event is read.

    Each sample is preceded by a memset that evicts the L2 cache (`flush="l2"`) and by a kernel that keeps the GPU busy
    while the host enqueues the work; without it, the gap between start event and kernel would count as the kernel's.
    """

    def __init__(self, device: GpuDevice, *, flush: str, stream: Any = None) -> None:
        self.device = device
        self.cupy = device.cupy
        self.stream = stream if stream is not None else self.cupy.cuda.get_current_stream()
        size = max(2 * device.l2_bytes, _MIN_FLUSH_BYTES)
        self._junk = self.cupy.empty(size, self.cupy.uint8) if flush == "l2" else None
        self._spin = self.cupy.RawKernel(_SPIN, "spin")
        self._host_us = 0.0
        _reset_persisting_l2()

    def run(self, work: Callable[[], Any]) -> None:
        """Runs once and waits; notes how long the host took to enqueue it."""
        started = time.perf_counter()
        work()
        self._host_us = (time.perf_counter() - started) * 1e6
        self.device.synchronize()

    def sample(self, works: Sequence[Callable[[], Any]]) -> list[float]:
        """Milliseconds of GPU time of each of `works`, in order."""
        events = [self._enqueue(work) for work in works]
        return [self.device.elapsed_ms(start, end) for start, end in events]

    def _enqueue(self, work: Callable[[], Any]) -> tuple[Any, Any]:
        event = self.cupy.cuda.Event
        start, end = event(), event()
        if self._junk is not None:
            self._junk.data.memset_async(0, self._junk.nbytes, self.stream)
        self._spin((1,), (1,), (self._delay_cycles(),), stream=self.stream)
        start.record(self.stream)
        work()
        end.record(self.stream)
        return start, end

    def _delay_cycles(self) -> int:
        delay_us = min(max(1.5 * self._host_us, _MIN_DELAY_US), _MAX_DELAY_US)
        return int(delay_us * self.device.spec.clock_mhz)


def _reset_persisting_l2() -> None:
    """Gives lines that a former kernel pinned in L2 back; needs compute capability 8.0, elsewhere nothing is pinned."""
    from cuda.bindings import driver

    driver.cuCtxResetPersistingL2Cache()
