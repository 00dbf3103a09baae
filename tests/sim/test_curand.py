"""cuRAND's device functions: generators against their published recurrences, distributions by what is known of them."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import pytest

from warpschool.compile import compile_cuda
from warpschool.compile.toolchain import find_toolchain

from . import engine_launch, oracle_launch

SOURCE = Path(__file__).parent / "libraries" / "random_numbers.cu"
SEED, DRAWS, STATE, WORD = 1234, 8, 6, (1 << 32) - 1
LAUNCHERS = pytest.mark.parametrize("launch", [engine_launch.launch, oracle_launch.launch], ids=["engine", "oracle"])
pytestmark = pytest.mark.skipif(
    not any((folder / "curand_kernel.h").is_file() for folder in find_toolchain().includes),
    reason="needs curand_kernel.h: pip install nvidia-curand",
)


@cache
def _ptx() -> str:
    return compile_cuda(SOURCE.read_text(encoding="utf-8"), name=SOURCE.name).ptx


def xorwow(state: list[int], count: int) -> list[int]:
    """Marsaglia, "Xorshift RNGs" (2003), section 3.1, "xorwow"; changes the state."""
    found = []
    for _ in range(count):
        *v, d = state
        t = v[0] ^ v[0] >> 2
        last = (v[4] ^ v[4] << 4 ^ t ^ t << 1) & WORD
        d = (d + 362437) & WORD
        state[:] = [*v[1:], last, d]
        found.append((last + d) & WORD)
    return found


def mrg32k3a(state: list[int], count: int) -> list[int]:
    """L'Ecuyer, "Good parameters and implementations for combined multiple recursive random number generators" (1999),
    figure I; what is there between 1 and m1 is scaled to 32 bits here."""
    m1, m2, found = (1 << 32) - 209, (1 << 32) - 22853, []
    for _ in range(count):
        a, b = state[:3], state[3:]
        one = (1403580 * a[1] - 810728 * a[0]) % m1
        two = (527612 * b[2] - 1370589 * b[0]) % m2
        state[:] = [a[1], a[2], one, b[1], b[2], two]
        found.append(int(((one - two) % m1 or m1) * 2**32 / m1))
    return found


def philox(counter: list[int], key: list[int]) -> list[int]:
    """Salmon et al., "Parallel random numbers: as easy as 1, 2, 3" (2011): philox4x32, ten rounds."""
    for _ in range(10):
        first, second = 0xD2511F53 * counter[0], 0xCD9E8D57 * counter[2]
        counter = [second >> 32 ^ counter[1] ^ key[0], second & WORD, first >> 32 ^ counter[3] ^ key[1], first & WORD]
        key = [(key[0] + 0x9E3779B9) & WORD, (key[1] + 0xBB67AE85) & WORD]
    return counter


@LAUNCHERS
@pytest.mark.parametrize("offset", [0, 3, (1 << 40) + 6])
@pytest.mark.parametrize("stride", [1, (1 << 58) + 5])
@pytest.mark.thinned(4)
def test_philox(launch, offset, stride):
    out = np.zeros((32, DRAWS), np.uint32)
    found = launch(_ptx(), "philox", (1,), (32,), np.uint64(offset), np.uint64(stride), out).arrays[0]
    for thread in range(32):
        sequence = thread * stride % (1 << 64)
        numbers: list[int] = []
        for block in range(offset // 4, offset // 4 + 3):
            numbers += philox([block & WORD, block >> 32, sequence & WORD, sequence >> 32], [SEED, 0])
        assert found[thread].tolist() == numbers[offset % 4 :][:DRAWS]


@LAUNCHERS
@pytest.mark.parametrize("kernel", [xorwow, mrg32k3a], ids=lambda f: f.__name__)
@pytest.mark.thinned(2)
def test_recurrences(launch, kernel):
    skipped = 1000
    out = np.zeros((32, STATE + 2 * DRAWS), np.uint32)
    found = launch(_ptx(), kernel.__name__, (1,), (32,), np.uint64(skipped), np.uint64(1), out).arrays[0]
    assert len({tuple(row[:STATE]) for row in found.tolist()}) == 32
    for row in found.tolist():
        state = row[:STATE]
        numbers = kernel(state, DRAWS + skipped + DRAWS)
        wrong = np.array(row[STATE:], np.int64) - (numbers[:DRAWS] + numbers[-DRAWS:])
        assert np.abs(wrong).max() <= (kernel is mrg32k3a)  # cuRAND scales by a number of 13 digits


@pytest.mark.parametrize("kernel", ["xorwow", "mrg32k3a"])
@pytest.mark.parametrize("stride", [1 << 20, (1 << 45) + 12345])
@pytest.mark.thinned(4)
def test_far_subsequences_come_to_an_end(kernel, stride):
    """A skip by powers of a matrix: its steps grow with the number's digits alone."""
    out = np.zeros((32, STATE + 2 * DRAWS), np.uint32)
    arguments = _ptx(), kernel, (1,), (32,), np.uint64(stride), np.uint64(stride), out
    found = engine_launch.launch(*arguments, step_limit=1 << 22)
    assert not found.record.hazards
    assert len({tuple(row) for row in found.arrays[0][:, :STATE].tolist()}) == 32


@pytest.mark.parametrize("kernel", ["of_xorwow", "of_mrg32k3a", "of_philox"])
@pytest.mark.parametrize("mean", [3.0, 200.0, 5000.0])
@pytest.mark.thinned(3)
def test_distributions(kernel, mean):
    """Means and spreads of 8192 numbers within five of their own standard errors."""
    threads, count = 128, 16 * 128 * 4
    arguments = (np.full(count, np.nan, np.float32), np.full(count, np.nan, np.float32), np.zeros(count, np.uint32))
    found = engine_launch.launch(_ptx(), kernel, (16,), (threads,), *arguments, np.float64(mean))
    assert not found.record.hazards
    uniform, normal, poisson = (a.astype(np.float64) for a in found.arrays)
    assert uniform.min() > 0 and uniform.max() <= 1
    for numbers, middle, variance in ((uniform, 0.5, 1 / 12), (normal, 0, 1), (poisson, mean, mean)):
        error = (variance / count) ** 0.5
        assert abs(numbers.mean() - middle) < 5 * error
        assert abs(numbers.var() / variance - 1) < 5 * (3 / count) ** 0.5


@pytest.mark.parametrize("kernel", ["of_xorwow", "of_mrg32k3a", "of_philox"])
@pytest.mark.slow
def test_the_oracle_draws_the_same(kernel):
    def drawn(launch):
        arguments = (np.zeros(128, np.float32), np.zeros(128, np.float32), np.zeros(128, np.uint32))
        return launch(_ptx(), kernel, (1,), (32,), *arguments, np.float64(30)).arrays

    for one, other in zip(drawn(engine_launch.launch), drawn(oracle_launch.launch), strict=True):
        assert one.tobytes() == other.tobytes()


def test_numbers_of_64_bits_and_log_normal():
    count = 4096
    arrays = np.zeros(count), np.zeros(2 * count), np.zeros(count, np.float32)
    found = engine_launch.launch(_ptx(), "doubles", (32,), (128,), *arrays)
    assert not found.record.hazards
    uniform, normal, log_normal = found.arrays
    for numbers, middle, variance in ((uniform, 0.5, 1 / 12), (normal, 0, 1), (np.log(log_normal), 0.5, 0.25**2)):
        assert abs(numbers.mean() - middle) < 5 * (variance / numbers.size) ** 0.5
        assert abs(numbers.var() / variance - 1) < 5 * (3 / numbers.size) ** 0.5
    assert len(np.unique(uniform)) == count
