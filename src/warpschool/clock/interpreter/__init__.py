"""Runs the part of a kernel's machine code that decides where its warps go and which addresses they touch.

One block at a time: each warp until it waits at a barrier, as an index into `code` and values of registers. What a warp
did is written as a stream of words (`layout.CHUNK_WORDS`). Instructions outside of that part only take their place in
the stream. `clock/program.py` makes the code; this is the machine.
"""

from __future__ import annotations

from warpschool.clock.interpreter.block import run_block as run_block
