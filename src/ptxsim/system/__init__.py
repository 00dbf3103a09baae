"""What is asked of the operating system: address space, processors, limits, child processes and how they ended.

`posix` answers on Linux and macOS, `windows` on Windows; both have every name below but `slowness`, and nothing else
in the three packages imports what only one kind of system has. Standard library only, so that small scripts may import
it.
"""

from __future__ import annotations

import sys

from ptxsim.system.pace import slowness as slowness

if sys.platform == "win32":
    from ptxsim.system.windows import (
        APART_STACK_BYTES as APART_STACK_BYTES,
        NEEDED_VARIABLES as NEEDED_VARIABLES,
        Pipes as Pipes,
        after_fork as after_fork,
        apart as apart,
        around_fork as around_fork,
        become as become,
        commit as commit,
        die_with_parent as die_with_parent,
        discard as discard,
        end as end,
        how_ended as how_ended,
        limit as limit,
        limit_next as limit_next,
        line_up as line_up,
        lock as lock,
        open_plain as open_plain,
        peak_bytes as peak_bytes,
        private_folder as private_folder,
        processors as processors,
        release as release,
        reserve as reserve,
        start as start,
        usual_layout as usual_layout,
        wait as wait,
    )
else:
    from ptxsim.system.posix import (
        APART_STACK_BYTES as APART_STACK_BYTES,
        NEEDED_VARIABLES as NEEDED_VARIABLES,
        Pipes as Pipes,
        after_fork as after_fork,
        apart as apart,
        around_fork as around_fork,
        become as become,
        commit as commit,
        die_with_parent as die_with_parent,
        discard as discard,
        end as end,
        how_ended as how_ended,
        limit as limit,
        limit_next as limit_next,
        line_up as line_up,
        lock as lock,
        open_plain as open_plain,
        peak_bytes as peak_bytes,
        private_folder as private_folder,
        processors as processors,
        release as release,
        reserve as reserve,
        start as start,
        usual_layout as usual_layout,
        wait as wait,
    )
