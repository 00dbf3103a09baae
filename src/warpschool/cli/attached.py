"""The simulator's process of a program that was started by itself: `./program`, built by `warpschool nvcc`.

Our runtime library starts it as `python -m warpschool.cli.attached LINE,MEMORY`, two descriptors. What was found is
told before the program ends. WARPSCHOOL_GPU names the GPU.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
import time

from ptxsim import launching_thread
from warpschool.cli.output import Output
from warpschool.model import DEFAULT_GPU, find_gpu
from warpschool.programs.run import Recording, make_report
from warpschool.programs.session import Session


def main(descriptors: str) -> None:
    """Serves until the program has gone."""
    from warpschool.cli.programs import draw_report

    line, memory = map(int, descriptors.split(","))
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the program's affair: its end is ours
    start = time.perf_counter()
    session = Session(memory, find_gpu(os.environ.get("WARPSCHOOL_GPU", DEFAULT_GPU)))

    def at_end(status: int) -> int:
        report = make_report(session, status, time.perf_counter() - start, leaks=True)
        if report.notes or report.timed:
            draw_report(Output(), report)
        return report.exit_code

    session.at_end = at_end
    recording = Recording(socket.socket(fileno=line), session)
    launching_thread(recording.serve).wait()
    if not session.ended:
        draw_report(Output(), make_report(session, 0, time.perf_counter() - start, leaks=False))
    if recording.problem is not None:
        raise recording.problem


if __name__ == "__main__":
    main(sys.argv[1])
