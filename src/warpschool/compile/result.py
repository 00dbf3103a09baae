"""What a compilation takes and gives: limits, the compiled program, the resources of a kernel."""

from __future__ import annotations

from dataclasses import dataclass, field

from warpschool.compile.diagnostics import Diagnostic, parse_log

DEFAULT_ARCH = "compute_80"
"""The one virtual architecture that grading pins: the labs need `cp.async` and `mma.sync`."""


@dataclass(frozen=True, kw_only=True)
class CompileLimits:
    """What one compilation may use; past any of these it ends in `CompileLimitError`.

    `memory_bytes` is address space; `cpu_s` is processor time, so that the verdict does not depend on how busy
    the machine is. `wall_s`, past which it ends in `CompilerMissing`, is for a compiler that hangs: 30 times `cpu_s`,
    which a compiler uses up even where it gets a tenth of a core.
    """

    wall_s: float = 600.0
    cpu_s: float = 20.0
    memory_bytes: int = 1 << 30
    source_bytes: int = 256 << 10
    log_bytes: int = 64 << 10
    ptx_bytes: int = 4 << 20


@dataclass(frozen=True, kw_only=True)
class Compiled:
    """PTX and where it came from.

    `source` is the text that was compiled, with `constants` put in; `nvrtc` is the compiler's version ("13.5");
    `key` names source, options, architecture and compiler versions, so equal keys mean equal PTX.
    """

    ptx: str
    arch: str
    nvrtc: str
    name: str
    source: str
    log: str
    key: str
    cached: bool = field(default=False, compare=False)

    @property
    def warnings(self) -> tuple[Diagnostic, ...]:
        """The compiler's warnings, on the student's own lines."""
        return tuple(d for d in parse_log(self.log, name=self.name, source=self.source) if d.severity == "warning")


@dataclass(frozen=True, kw_only=True)
class Resources:
    """What ptxas gave one kernel on one real architecture.

    `registers` per thread; `shared_bytes` static, per block; `local_bytes` is the stack frame per thread, spills
    included; `constant_bytes` over the banks that ptxas reports (before sm_90 that includes the parameters'); spills
    are per thread.
    """

    arch: str
    registers: int
    shared_bytes: int
    local_bytes: int
    constant_bytes: int
    spill_load_bytes: int
    spill_store_bytes: int
    barriers: int
