"""How slow a processor is: limits of processor time are longer where it is emulated."""

from __future__ import annotations

import time

_WORK = "total = [one + two * three for one in many if one.known(two, *rest)]\n" * 40
_USUAL_S = 1e-3
"""What Python's own compiler takes for that on a server's core: 0.9 ms (Python 3.12) to 1.7 ms (3.11)."""
_MUCH = 4.0
_slowness: list[float] = []


def slowness() -> float:
    """By what limits of processor time are multiplied here: 1 on any machine that is not many times slower than usual.

    Under an emulator the same work takes ten times as long and more, and a limit that a right kernel keeps fifteenfold
    would be a verdict on the emulator. Measured once in a process, and in processor time, the least of several: how
    busy the machine is does not come near `_MUCH`.
    """
    if not _slowness:
        times = min(_work_s() for _ in range(5)) / _USUAL_S
        _slowness.append(times if times >= _MUCH else 1.0)
    return _slowness[0]


def _work_s() -> float:
    start = time.process_time()
    compile(_WORK, "<pace>", "exec")
    return time.process_time() - start
