"""PTX texts as modules: a text that several launches share is parsed once, each launch has a module of its own."""

from __future__ import annotations

import functools

from ptxsim.module import Module
from ptxsim.syntax.parse import parse
from ptxsim.syntax.program import PtxFile


def module(ptx: str) -> Module:
    """A module that nothing was launched of: where variables lie and machine code are its own."""
    return Module(_program(ptx))


@functools.lru_cache(maxsize=8)  # neighbouring tests share a text; large ones are not kept for ever
def _program(ptx: str) -> PtxFile:
    return parse(ptx)
