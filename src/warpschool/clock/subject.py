"""What is asked about, in the clock's form: each launch of a kernel file, a step or a run, with its machine code."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from warpschool.clock.cubin import machine_code
from warpschool.clock.launches import of_launch, of_plan
from warpschool.clock.machine import Machine
from warpschool.clock.program import Program, encode
from warpschool.clock.trace import KernelLaunch
from warpschool.compile import compile_cuda
from warpschool.contract import Contract, Plan
from warpschool.device import Launch
from warpschool.errors import CompileError, CompilerLacks
from warpschool.harness.launcher import Program as FileProgram, given_sizes, random_inputs
from warpschool.harness.source import resolve
from warpschool.inspect.profile import case_text, usual_sizes

IMPOSSIBLE = "not possible there"
"""How the reason begins where a machine cannot run a kernel at all."""
NOT_KNOWN = "not known with this compiler: the clock follows machine code, which NVIDIA's compiler alone makes"
_KEPT = 16
_known: dict[tuple[Any, ...], dict[str, Program]] = {}


@dataclass(frozen=True)
class Part:
    """One launch with its kernel's machine code; None, with the reason, where the machine cannot run it."""

    kernel: str
    program: Program | None
    launch: KernelLaunch
    reason: str = ""


@dataclass(frozen=True)
class Subject:
    """Launches that follow each other; `case` tells their sizes, `source` is the kernels' text."""

    case: str
    source: str
    parts: tuple[Part, ...]


def subject(
    what: Launch | str, sizes: Mapping[str, float] | None, machine: Machine, constants: Mapping[str, int] | None = None
) -> Subject:
    """The launches of `what`: one that ran on the simulator, or a kernel file or step, which need not run."""
    if isinstance(what, Launch):
        module = what.call.kernel.module
        if not module.code:
            reason = f"{module.name} came as PTX, and its machine code is not known"
            return Subject("", "", (Part(what.kernel, None, of_launch(what), reason),))
        arch = machine_arch(module.arch, machine)
        try:
            programs = encoded(module.code, module.name, arch, module.constants, module.options)
        except CompileError as error:
            return Subject("", module.code, (Part(what.kernel, None, of_launch(what), _impossible(error)),))
        except CompilerLacks:
            return Subject("", module.code, (Part(what.kernel, None, of_launch(what), NOT_KNOWN),))
        return Subject("", module.code, (Part(what.kernel, programs[what.kernel], of_launch(what)),))
    contract = resolve(what, otherwise="Name a kernel file or a step.").contract()
    plan = contract.bind(usual_sizes(contract, constants=constants) | given_sizes(sizes), constants=constants)
    return planned(contract, plan, machine, constants=constants)


def planned(
    contract: Contract, plan: Plan, machine: Machine, *, constants: Mapping[str, int] | None = None,
    inputs: Callable[[], Mapping[str, np.ndarray]] | None = None,
) -> Subject:  # fmt: skip
    """The launches of a kernel file with these sizes. `inputs` makes its arrays, where paths depend on them; without it
    they are random."""
    file = FileProgram(contract, device="sim", constants=constants)
    try:
        programs = encoded(contract.source, contract.name, machine_arch(contract.arch, machine), constants or {})
    except (CompileError, CompilerLacks) as error:
        compile_cuda(contract.source, name=contract.name, arch=contract.arch, constants=constants)  # or raise
        reason = NOT_KNOWN if isinstance(error, CompilerLacks) else _impossible(error)
        launches = [Part(kernel, None, launch, reason) for kernel, launch in of_plan(file, plan)]
        return Subject(case_text(plan), contract.source, tuple(launches))
    arrays = None
    if any(program.reads_memory for program in programs.values()):
        arrays = inputs() if inputs else random_inputs(plan, seed=0)
    parts = tuple(Part(kernel, programs[kernel], launch) for kernel, launch in of_plan(file, plan, arrays))
    return Subject(case_text(plan), contract.source, parts)


def _impossible(error: CompileError) -> str:
    """What is said of a file that compiles, but not for this machine."""
    text = next((line for line in error.message.splitlines() if "error" in line), error.message)
    return f"{IMPOSSIBLE}: {text.rpartition('error: ')[2]}"


def machine_arch(arch: str | None, machine: Machine) -> str:
    """The machine's architecture, with the suffix of a kernel that is written for just that one."""
    return machine.arch + "a" if arch and arch.endswith("90a") and machine.arch == "sm_90" else machine.arch


def encoded(
    source: str, name: str, arch: str, constants: Mapping[str, int], options: tuple[str, ...] = ()
) -> dict[str, Program]:
    """The encoded kernels of a source; the last few are kept."""
    key = (source, name, arch, tuple(sorted(constants.items())), options)
    if key not in _known:
        if len(_known) >= _KEPT:
            _known.pop(next(iter(_known)))
        functions = machine_code(source, name=name, arch=arch, constants=constants or None, options=options)
        _known[key] = {kernel: encode(function) for kernel, function in functions.items()}
    return _known[key]
