"""The kernel under test: what the fixture `kernel` offers to grader tests.

Every run goes through the simulator, whose counters and hazards decide; on the device "gpu" a run that is clean there
runs on the GPU as well, and those outputs are compared. A kernel that the GPU at hand cannot run for want of shared
memory or instructions, which is not the student's fault, is judged by the simulator alone.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ptxsim import Finding
from ptxsim.limits import WARP
from warpschool.compile import DEFAULT_ARCH, Resources, compile_cuda, resource_usage
from warpschool.compile.reading import dynamic_shared, loop_around, unset_variable, without_alignment
from warpschool.contract import ArrayPlan, Contract, LaunchPlan, Plan, parse_contract, require_same_entries
from warpschool.counters import Counters
from warpschool.device import DeviceArray, Launch
from warpschool.errors import (
    ArgumentError,
    DeviceLacks,
    EntryError,
    GradingError,
    KernelTooLarge,
    SimulationError,
    StepLimitExceeded,
    WarpschoolError,
)
from warpschool.grading.secret import in_secret_case
from warpschool.grading.verdicts import Case, Judgement, Verdict, judge, readable, verdict_of_hazard
from warpschool.harness.compare import Comparison, compare, is_poison, tolerance_for
from warpschool.harness.launcher import Program, RunResult
from warpschool.harness.source import MAX_SOURCE_BYTES

if TYPE_CHECKING:
    from warpschool.inspect.accesses import WarpRequest

_MOST_MEASURED = 8
_MOST_WARNINGS = 8
STEP_LIMIT = 1 << 23
"""Loop iterations of a block's warps, after which it counts as endless; graded cases need 1 << 17."""
WORK_LIMIT = 1 << 27
"""Instructions of warps, or other work that takes as long, that all launches of a check may do together.

Once half of it is gone, each run is given `GRANTED` times what the reference takes for it: no right kernel runs out,
and an idle one gains nothing by waiting.
"""
GRANTED = 4
LAUNCH_LIMIT = 1 << 10
"""Launches of a check together; graded cases need fewer than 1 << 8."""
KERNEL_LIMIT, TRANSLATION_LIMIT = 15_000, 40_000
"""Instructions of one kernel with its calls inlined, and of all that is translated for a check: a kernel counts anew
for each shape of its blocks and each value of its constants. Graded cases need 5,000 and 16,000."""
ENDLESS_WORK = 1 << 21
"""Instructions of warps, or other work that takes as long, that any launch may do: in a quarter of a second. A long
kernel that is let run on is compiled, which takes longer than all that it does until then."""
MOST_ENDLESS_WORK = 1 << 24
GENEROUS, _LEAST_GENEROUS = 64, 4
"""A launch that executes more than `ENDLESS_WORK` is endless once it has executed this many times the instructions
that the reference's whole run on the same inputs takes; beyond `MOST_ENDLESS_WORK` the smaller number is enough."""
_MOST_GROWTH, _GROWTH_UNKNOWN = 64, 2
"""Steps are allowed little by little, since what one of them costs is not known before: so many times as many, and
fewer where nothing has been counted yet."""

_ORDERS = (1, 2)
"""Seeds of the orders in which a run is repeated whose outcome could depend on it."""
_OTHER_ORDER = (
    "so with blocks and warps in another order than by number: a GPU promises none, only barriers order threads"
)
_ASKED_AS = {"unordered": "race", "lockstep": "race"}
"""Kinds of hazards that count where a grader asks for another."""


_NO_START = "{0} is added to without a start value: before the launch it holds NaN (integers: 0x7f7f...), not zero"
_NOT_COMPILED_ANEW = "not judged until the kernel comes to its end: it would have to be compiled with other constants"
_NEAR = 1 << 16
"""Bytes behind shared memory up to which an access is for an array that is larger than its launch says."""
_FAR_OFF = 1e8
"""No right result of a step is as large; half of what integers without a value begin with."""


_FEW_LANES, _WORD = 4, 4
"""Lanes that may rest for each word (4 bytes) of a step's arrays, in lines where most of them do."""
_NOISE = 0.02
"""Of the largest output: what rounding, of halves too, may move an element by."""
_COUNTED_AS = {
    "products": "products of single precision", "packed products": "packed products of halves",
    "dots": "dot products of four bytes", "tensor products": "matrix products on tensor cores",
    "copies": "asynchronous copies (cp.async)",
}  # fmt: skip

_COSTS = {
    "warp_instructions": 1.0, "async_copy_requests": 128.0, "tensor_operations": 1 / 256, "global_atomic_requests": 3.0,
    "global_reduction_requests": 3.0, "shared_atomic_requests": 3.0, "bulk_copies": 16384.0,
    "shared_load_requests": 4.0, "shared_store_requests": 4.0, "shared_load_bank_conflicts": 0.25,
    "shared_store_bank_conflicts": 0.25, "global_load_requests": 1.0, "global_store_requests": 1.0,
    "global_load_sectors": 0.1, "global_store_sectors": 0.1,
}  # fmt: skip
"""What the simulator takes for one of each beyond the instruction itself, in tenths of a us, all its checks on.

An instruction of a warp that computes takes a thirtieth of that, one that accesses memory at scattered places ten
times as long; a followed box of a tensor takes two ms.
"""
_COUNTED = (*_COSTS, "tensor_instructions")
_WARPGROUP_PRODUCT, _WARPGROUP_COST = "wgmma.mma_async", 1024
"""PTX's name of a matrix product of a warpgroup, and the same for it in each of its warps: which bytes it reads is
followed."""


def _work(counted: Mapping[str, int], *, in_warpgroups: bool = False) -> int:
    """Instructions of warps that take as long as what was counted; `in_warpgroups`: its matrix products are wgmma."""
    followed = _WARPGROUP_COST * counted.get("tensor_instructions", 0) if in_warpgroups else 0
    return followed + round(sum(cost * counted.get(name, 0) for name, cost in _COSTS.items()))


class _Work:
    """What is left of a check's budgets, which count and never look at a clock: the same on every machine."""

    def __init__(self) -> None:
        self.left = self.given = WORK_LIMIT
        self.launches = 0
        self.endless_line = 0
        """of a loop that did not come to its end"""
        self.translated: dict[tuple[int, str, tuple[int, ...], str], int] = {}

    def launch(self, program: int, launch: LaunchPlan, instructions: int, *, doubled: str) -> None:
        """Take a launch from the budgets; raises KernelTooLarge or StepLimitExceeded."""
        self.launches += 1
        if self.launches > LAUNCH_LIMIT:
            self.left = -1
            raise StepLimitExceeded(f"this check makes more than {LAUNCH_LIMIT:,} launches")
        key = (program, launch.entry, tuple(launch.block), doubled)
        if key in self.translated:
            return
        if instructions > KERNEL_LIMIT:
            what = f"{launch.entry} has {instructions:,} instructions with its calls inlined; at most {KERNEL_LIMIT:,}"
            raise KernelTooLarge(what, next_step="Unroll less, and call fewer functions from each other.")
        self.translated[key] = instructions
        if sum(self.translated.values()) > TRANSLATION_LIMIT:
            what = f"all kernels, each once for each shape of its blocks, have over {TRANSLATION_LIMIT:,} instructions"
            raise KernelTooLarge(what, next_step="Use fewer shapes of blocks, or shorter kernels.")

    def grant(self, reference_work: Callable[[], int]) -> None:
        """Before a run: what is right may go on, however much all runs of a check take together."""
        if 0 <= self.left < WORK_LIMIT // 2:
            more = GRANTED * reference_work()
            self.left += more
            self.given += more

    @property
    def exhausted(self) -> str:
        """What is to be said where nothing is left."""
        return f"the launches of this check need more than {self.given:,} instructions of warps together"

    @property
    def spent(self) -> dict[str, str]:
        """What a result says of what its check cost."""
        return {
            "launches": str(self.launches), "translated": str(sum(self.translated.values())),
            "executed": str(min(self.given, self.given - self.left)), "allowed": str(self.given),
        }  # fmt: skip


class _Metered(Program):
    """A program for the simulator whose launches take from a check's budget."""

    def __init__(self, contract: Contract, work: _Work, *, constants: Mapping[str, int] | None) -> None:
        super().__init__(contract, device="sim", constants=constants)
        self._work = work

    def run_metered(
        self, sizes: Mapping[str, float], arrays: Mapping[str, npt.ArrayLike], simulator: Mapping[str, Any],
        reference_work: Callable[[], int],
    ) -> RunResult:  # fmt: skip
        """Run within what `ENDLESS_WORK` and `GENEROUS` allow; raises StepLimitExceeded as well as what `run` raises.

        `reference_work` is asked only where a launch takes more than most do, in a loop that may end. After one endless
        loop the others get an eighth of `ENDLESS_WORK`, and nothing long is compiled for them, nor anything with other
        constants: a check is not made to wait for each of its criteria.
        """
        left, launches = self._work.left, self._work.launches
        allowed = ENDLESS_WORK if not self._work.endless_line else ENDLESS_WORK // 8
        ptx = self.module.ptx
        a_turn = ptx.count(";") + _COSTS["bulk_copies"] * ptx.count("cp.async.bulk.tensor")
        a_turn += _WARPGROUP_COST * ptx.count(_WARPGROUP_PRODUCT)
        simulator = {**simulator, "tier": "brief" if self._work.endless_line else "frugal"}
        steps = max(1, min(STEP_LIMIT, int(allowed // max(1, a_turn))))
        while True:
            try:
                return self.run(sizes, arrays, **simulator, step_limit=steps)
            except StepLimitExceeded as error:
                if self._work.left < 0:
                    raise
                self._work.left, self._work.launches = left, launches  # what ran before that launch runs again
                done = self.worked(error.counted)
                if done >= allowed and not self._work.endless_line and not error.is_certain:
                    needed = reference_work()
                    allowed = max(_LEAST_GENEROUS * needed, min(GENEROUS * needed, MOST_ENDLESS_WORK))
                if error.is_certain or done >= allowed or steps == STEP_LIMIT:
                    self._work.left = max(0, left - done)
                    self._work.endless_line = self._work.endless_line or error.line
                    raise
                growth = min(_MOST_GROWTH, allowed // done + 1) if done else _GROWTH_UNKNOWN
                steps = min(STEP_LIMIT, max(error.least_steps, max(2, growth) * steps))

    def worked(self, counted: Mapping[str, int] | Counters) -> int:
        """`_work` of what this program has done."""
        if isinstance(counted, Counters):
            counted = {name: getattr(counted, name) for name in _COUNTED}
        return _work(counted, in_warpgroups=_WARPGROUP_PRODUCT in self.module.ptx)

    def _launch(
        self, launch: LaunchPlan, plan: Plan, arrays: Mapping[str, DeviceArray], simulator: Mapping[str, Any]
    ) -> Launch:
        if launch.entry not in self.module.entries:  # macros took from the compiler what the header's reader has seen
            self.kernel(launch.entry)  # says what there is
        try:
            instructions = self.module.instructions(launch.entry)
            self._work.launch(id(self), launch, instructions, doubled=simulator.get("doubled", ""))
        except SimulationError as error:
            error.place(self.contract.name, launch.line)
            raise
        try:
            done = super()._launch(launch, plan, arrays, simulator)
        except ArgumentError as error:
            what = f"compiled, {launch.entry} takes other arguments than its Entry line says: {error.message}"
            advice = "Do macros change names or types?"
            raise EntryError(what, file=plan.contract.name, line=launch.line, next_step=advice) from error
        except StepLimitExceeded as error:
            if self.worked(error.counted) < self._work.left:
                raise  # more steps may be allowed
            self._work.left = -1
            raise StepLimitExceeded(self._work.exhausted, file=error.file, line=error.line) from error
        self._work.left -= self.worked(done.counters)
        if self._work.left < 0:
            raise StepLimitExceeded(self._work.exhausted, file=plan.contract.name, line=launch.line)
        return done


class Submission:
    """A source that compiles and promises what its step asks for; made by `load_submission`."""

    def __init__(
        self, contract: Contract, *, compiler: str, arch: str, on_gpu: bool = False, may_use_atomics: bool = True
    ) -> None:
        self.contract = contract
        self.may_use_atomics = may_use_atomics
        self._atomics = (0, 0)
        self.compiler = compiler
        self.arch = arch
        self.on_gpu = on_gpu
        self.warnings: tuple[str, ...] = ()
        """what the compiler warns of, with its lines"""
        self.unset: tuple[tuple[int, str], ...] = ()
        """line and name of variables that the compiler saw read before they have a value"""
        self.not_on_gpu = ""
        """why the GPU could not run it, once it has been tried"""
        self.measured: list[str] = []
        self.reference: Callable[[], Submission] | None = None
        """the step's reference, by which it is judged what is endless; without one, `ENDLESS_WORK` alone says it"""
        self.is_reference = False
        """whether it is that itself: nothing of it is endless, however much its runs take"""
        self._programs: dict[tuple[str, tuple[tuple[str, int], ...]], Program] = {}
        self._work = _Work()
        self._last: dict[bool, tuple[bytes, RunResult]] = {}
        """The last run on the simulator with checks (True), and without: a criterion asks several things of one run,
        which would come out the same again."""

    def compiler_is(self, name: str) -> bool:
        """Whether the compiler "NVRTC" or "clang", of any version, made its PTX."""
        return self.compiler.startswith(f"{name} ")

    @property
    def name(self) -> str:
        return self.contract.name

    @property
    def source(self) -> str:
        return self.contract.source

    @property
    def spent(self) -> dict[str, str]:
        """What its runs on the simulator have cost so far, in counts: `launches`, `translated`, `executed`."""
        return self._work.spent

    def inputs(
        self, sizes: Mapping[str, float], rng: np.random.Generator, *, constants: Mapping[str, int] | None = None,
        **given: npt.ArrayLike,
    ) -> dict[str, np.ndarray]:  # fmt: skip
        """Return arrays for all inputs of the header, filled at random; `given` takes the place of some.

        Floats are uniform in [-1, 1), signed integers in [-8, 8), unsigned ones in [0, 8).
        """
        plan = self._guarded(lambda: self.contract.bind(sizes, constants=constants))
        arrays: dict[str, np.ndarray] = {}
        for name, array in plan.arrays.items():
            if name in given:
                arrays[name] = np.asarray(given[name], dtype=array.dtype)
            elif array.is_given and array.shape is None:
                raise GradingError(
                    f"the header gives no shape for '{name}'", next_step=f"Pass it: inputs(..., {name}=...)"
                )
            elif array.is_given:
                arrays[name] = _random(rng, array.shape or (), array.dtype)
        return arrays

    def run(
        self, sizes: Mapping[str, float], arrays: Mapping[str, npt.ArrayLike], *,
        constants: Mapping[str, int] | None = None, hazards: bool = True,
    ) -> RunResult:  # fmt: skip
        """Run the kernel file once; raises Judgement for hazards (unless told not to), overwritten inputs, errors."""
        run = self._run("sim", sizes, arrays, constants)
        if hazards:
            self._judge_hazards(run, ())
        self._judge_inputs(run)
        if run.order_may_show:
            run = replace(run, in_other_orders=self._in_other_orders(sizes, arrays, constants, hazards=hazards))
        if not self.on_gpu or self.not_on_gpu or run.hazards:
            return run
        try:
            fast = self._run("gpu", sizes, arrays, constants)
        except DeviceLacks as error:
            self.not_on_gpu = error.message
            return run
        self._judge_inputs(fast)
        return replace(run, outputs=fast.outputs)

    def check_against(
        self, run: RunResult, expected: Mapping[str, npt.ArrayLike], *, k: int = 1,
        accumulator: npt.DTypeLike = "float32", scale: npt.ArrayLike | None = None, extra_ulp: float = 0.0,
        promoted_every: int = 0,
    ) -> None:  # fmt: skip
        """Compare outputs with float64 references; raises Judgement (WA) with the first wrong elements and the pattern.

        `k`, `accumulator`, `scale`, `extra_ulp` and `promoted_every`: see `warpschool.harness.compare.tolerance_for`.
        """
        for one in (run, *run.in_other_orders):
            for name, reference in expected.items():
                if one is not run and name not in one.outputs:
                    continue  # a grader has made it of the run's outputs
                if name not in one.outputs:
                    raise GradingError(f"'{name}' is no output", next_step=f"There is {', '.join(one.outputs)}.")
                got = one.outputs[name]
                tolerance = tolerance_for(
                    got.dtype, k, accumulator, scale=scale, extra_ulp=extra_ulp, promoted_every=promoted_every
                )
                result = compare(got, reference, tolerance=tolerance, name=name)
                if not result.ok:
                    raise self._wrong(run, result, got, note="" if one is run else _OTHER_ORDER)

    def counters(
        self, sizes: Mapping[str, float], arrays: Mapping[str, npt.ArrayLike], *,
        constants: Mapping[str, int] | None = None,
    ) -> Counters:  # fmt: skip
        """Return the counters of one run on the simulator, summed over all launches; hazards are judged."""
        return self._clean_run(sizes, arrays, constants).counters

    def shared_loads(self, sizes: Mapping[str, float], arrays: Mapping[str, npt.ArrayLike]) -> int:
        """Return how many loads from shared memory warps execute, as the kernel writes them; hazards are judged.

        Of two equal sentences the compiler joins the loads of one and takes those of the other apart. So they are
        counted in a copy of the kernel whose arrays promise no alignment: there it joins none.
        """
        own = self._clean_run(sizes, arrays, None).counters.shared_load_instructions
        text = without_alignment(self.source)
        if text == self.source:
            return own
        try:
            copy = _Metered(parse_contract(text, name=self.name), self._work, constants=None)
            return copy.run(sizes, arrays, step_limit=STEP_LIMIT).counters.shared_load_instructions
        except WarpschoolError:  # its arrays are not aligned by chance: then its own count stands
            return own

    def resources(self, *, arch: str = "sm_80") -> dict[str, Resources]:
        """Return registers, shared and local bytes and spills of each kernel, as ptxas assigns them."""
        return dict(self._guarded(lambda: resource_usage(self.source, name=self.name, arch=arch)))

    def requests(
        self, sizes: Mapping[str, float], arrays: Mapping[str, npt.ArrayLike], *, block: int
    ) -> tuple[WarpRequest, ...]:
        """Return what the lanes of one block touch, of each launch that has so many blocks.

        Raises Judgement (PERF) for a kernel that orders its warps by atomics, fences or printf: one block cannot be
        followed then.
        """
        from warpschool.inspect.accesses import trace  # by the oracle, which most graders never ask

        try:
            return self._guarded(lambda: trace(self.contract, sizes, arrays, block=block)).accesses
        except Judgement as judgement:
            if isinstance(judgement.__cause__, ArgumentError):
                raise Judgement(Verdict.PERF, f"cannot be counted: {judgement.__cause__.message}") from judgement
            raise

    def within(self, actual: float, limit: float, what: str, *, unit: str = "", line: int = 0) -> None:
        """Raise Judgement (PERF) unless `actual <= limit`; NaN, "nothing to measure", is over every limit."""
        seen = f"{what}: {_amount(actual, unit)}; at most {_amount(limit, unit)}"
        self._hold(seen, is_met=actual <= limit, line=line)

    def at_least(self, actual: float, limit: float, what: str, *, unit: str = "", line: int = 0) -> None:
        """Raise Judgement (PERF) unless `actual >= limit`."""
        seen = f"{what}: {_amount(actual, unit)}; at least {_amount(limit, unit)}"
        self._hold(seen, is_met=actual >= limit, line=line)

    def no_excess_sectors(
        self, sizes: Mapping[str, float], arrays: Mapping[str, npt.ArrayLike], *, loads: bool = True,
        stores: bool = True, constants: Mapping[str, int] | None = None, most: int = 0,
    ) -> None:  # fmt: skip
        """Raise Judgement (PERF), with the worst line, if global accesses touch more sectors than their bytes need.

        `most` loads and as many stores may: numbers that are few and stand apart, whoever gets them.
        """
        run = self._clean_run(sizes, arrays, constants)
        if loads:
            self._no_excess(run, "global load", "sectors", "excess_load_sectors", most)
        if stores:
            self._no_excess(run, "global store", "sectors", "excess_store_sectors", most)
        self._no_idle_lanes(run, "global")

    def no_excess_wavefronts(
        self, sizes: Mapping[str, float], arrays: Mapping[str, npt.ArrayLike], *, loads: bool = True,
        stores: bool = True, constants: Mapping[str, int] | None = None,
    ) -> None:  # fmt: skip
        """Raise Judgement (PERF), with the worst line, if shared accesses have bank conflicts."""
        run = self._clean_run(sizes, arrays, constants)
        if loads:
            self._no_excess(run, "shared load", "wavefronts", "shared_load_bank_conflicts")
        if stores:
            self._no_excess(run, "shared store", "wavefronts", "shared_store_bank_conflicts")
        self._no_idle_lanes(run, "shared")

    def comes_from(self, run: RunResult, kind: str, *, share: float = 0.9) -> None:
        """Raise Judgement (PERF) unless every output of `run` comes from what is counted as `kind`.

        The same run is made again with all products of that kind added twice ("products": of single precision, "packed
        products", "dots", "tensor products"), or with zeros in place of what is copied ("copies"). Every element must
        move by `share` of its own size at least: those that are sums of such products move by as much as they hold.
        With a share of 0 it is enough that they are no longer the same, but for one in a hundred: for outputs that are
        more than sums of products.
        """
        if run.again is None:
            raise GradingError("this run cannot be made again")
        try:
            replay = run.again(doubled=kind, step_limit=STEP_LIMIT)
        except (WarpschoolError, MemoryError):  # results decide there how it goes on: they are not thrown away
            return
        for name, before in run.outputs.items():
            still = _unmoved(before.astype(np.float64), replay.outputs[name].astype(np.float64), share)
            most = 0 if share else before.size // 100
            self.within(still, most, f"elements of {name} that do not come from {_COUNTED_AS[kind]}")

    def no_hazards(
        self, sizes: Mapping[str, float], arrays: Mapping[str, npt.ArrayLike], *,
        kinds: Collection[str] = ("race",), constants: Mapping[str, int] | None = None,
    ) -> None:  # fmt: skip
        """Raise Judgement if the simulator reports a hazard of one of these kinds; other kinds are not judged here."""
        for kind in kinds:
            verdict_of_hazard(kind)  # a misspelt kind would never be found
        self._judge_hazards(self._run("sim", sizes, arrays, constants), kinds)

    # ---------------------------------------------------------------- inside

    def _in_other_orders(
        self, sizes: Mapping[str, float], arrays: Mapping[str, npt.ArrayLike], constants: Mapping[str, int] | None, *,
        hazards: bool,
    ) -> tuple[RunResult, ...]:  # fmt: skip
        """The same runs with blocks and warps that take their turns in seeded orders: a GPU promises none."""
        found = []
        for seed in _ORDERS:
            run = self._run("sim", sizes, arrays, constants, order=seed)
            if hazards:
                self._judge_hazards(run, ())
            self._judge_inputs(run)
            found.append(run)
        return tuple(found)

    def _run(
        self, device: str, sizes: Mapping[str, float], arrays: Mapping[str, npt.ArrayLike],
        constants: Mapping[str, int] | None, **simulator: Any,
    ) -> RunResult:  # fmt: skip
        program = self._program(device, constants)
        key = _key_of(sizes, arrays, constants) if device == "sim" and simulator.keys() <= {"check"} else b""
        checked = simulator.get("check", True)
        made = self._last.get(checked)
        if made is not None and made[0] == key:
            return made[1]
        run: RunResult = self._guarded(lambda: self._ran(program, sizes, arrays, constants, simulator))
        if key:
            self._last[checked] = key, run
        if not self.may_use_atomics and device == "sim":  # a GPU counts nothing: what is counted runs here as well
            found = ((_atomics(counters), line) for line, counters in run.lines.items())
            self._atomics = max(self._atomics, *found)
        return run

    def _program(self, device: str, constants: Mapping[str, int] | None) -> Program:
        """The file compiled for a device and some constants; made once.

        Raises Judgement where a loop of it has not come to its end before: nobody waits for a compiler to see another.
        """
        key = (device, tuple(sorted((constants or {}).items())))
        if key not in self._programs:
            if self._work.endless_line:
                line = loop_around(self.source, self._work.endless_line)
                raise Judgement(Verdict.TLE, _NOT_COMPILED_ANEW, file=self.name, line=line)
            self._programs[key] = (
                _Metered(self.contract, self._work, constants=constants) if device == "sim"
                else Program(self.contract, device=device, constants=constants)
            )  # fmt: skip
        return self._programs[key]

    def _wrong(self, run: RunResult, result: Comparison, got: np.ndarray, *, note: str) -> Judgement:
        """The judgement for wrong elements: what they have in common, and whence that may come."""
        unset = self._unset(run)
        lines = [*str(result).splitlines(), *([note] if note else [])]
        if unset and _looks_unset(got, result):
            said, line = unset
            judgement = Judgement(Verdict.UNINIT, f"{said}\n{lines[0]}", file=self.name, line=line, case=_case(run))
        else:
            no_start = result.cause in ("nan", "") and self._starts_show(run, result.name, got)
            lines[1:1] = [_NO_START.format(result.name)] if no_start else []
            judgement = Judgement(Verdict.WA, "\n".join([*lines, *([unset[0]] if unset else [])]), case=_case(run))
            judgement.cause = "no-start" if no_start else result.cause
        judgement.wrong = result.map
        return judgement

    def _unset(self, run: RunResult) -> tuple[str, int] | None:
        """What is to be said of a variable that is read before it has a value, and the line; None without one."""
        known = {line for launch in run.launches for line in launch.call.kernel.undefined_lines}
        named = dict(self.unset)
        lines = sorted({*known, *named})
        if not lines:
            return None
        name, declared = unset_variable(self.source, lines[0])
        if not name and lines[0] in named:
            return f"'{named[lines[0]]}' is read before it has a value", lines[0]
        if not name:
            return f"line {lines[0]} may read a variable before it has a value", lines[0]
        return f"'{name}', declared without a value in line {declared}, is read before it has one", lines[0]

    def _starts_show(self, run: RunResult, name: str, got: np.ndarray) -> bool:
        """Whether what the output holds before the launch decides over what it holds afterwards."""
        if run.again is None:
            return False
        try:
            other = run.again(from_zero=True).outputs[name]
        except (WarpschoolError, KeyError):
            return False
        unlike = ~((other == got) | (np.isnan(other) & np.isnan(got) if other.dtype.kind == "f" else False))
        return bool(np.any(unlike & ~is_poison(got)))

    def _ran(
        self, program: Program, sizes: Mapping[str, float], arrays: Mapping[str, npt.ArrayLike],
        constants: Mapping[str, int] | None, simulator: Mapping[str, Any],
    ) -> RunResult:  # fmt: skip
        if isinstance(program, _Metered):
            if self.reference is not None:
                self._work.grant(lambda: self._needed(sizes, arrays, constants))
            return program.run_metered(sizes, arrays, simulator, lambda: self._needed(sizes, arrays, constants))
        return program.run(sizes, arrays)

    def _needed(
        self, sizes: Mapping[str, float], arrays: Mapping[str, npt.ArrayLike], constants: Mapping[str, int] | None
    ) -> int:
        """Instructions of warps that the reference takes for this run, which nobody has to check for hazards.

        Without a reference that takes the same inputs, as many as `ENDLESS_WORK` allows.
        """
        if self.is_reference:
            return WORK_LIMIT
        if self.reference is None:
            return ENDLESS_WORK
        reference = self.reference()
        try:
            program = reference._program("sim", constants)
            counters = reference._guarded(  # nobody asks of the reference whether it ends
                lambda: program.run(sizes, arrays, check=False, step_limit=STEP_LIMIT)
            ).counters
            return program.worked(counters) if isinstance(program, _Metered) else ENDLESS_WORK
        except Judgement:
            return ENDLESS_WORK

    def _hold(self, seen: str, *, is_met: bool, line: int) -> None:
        self._measure(seen)
        if not is_met:
            raise Judgement(Verdict.PERF, seen, line=line)

    def _clean_run(
        self, sizes: Mapping[str, float], arrays: Mapping[str, npt.ArrayLike], constants: Mapping[str, int] | None
    ) -> RunResult:
        run = self._run("sim", sizes, arrays, constants)
        self._judge_hazards(run, ())
        return run

    def _guarded(self, action: Callable[[], Any]) -> Any:
        try:
            return action()
        except DeviceLacks:  # whether it matters, `run` decides
            raise
        except (WarpschoolError, MemoryError) as error:
            told = judge(error, has_inline_asm="asm" in self.source)
            if isinstance(error, StepLimitExceeded):
                line = loop_around(self.source, told.line)
                raise Judgement(told.verdict, told.said, file=told.file, line=line) from error
            raise told from error

    def _judge_hazards(self, run: RunResult, kinds: Collection[str]) -> None:
        """Raise Judgement for the gravest hazard of these kinds (none given: of any kind)."""
        found = [hazard for hazard in run.hazards if not kinds or _ASKED_AS.get(hazard.kind, hazard.kind) in kinds]
        if not found:
            return
        gravest = _to_tell(found)
        unset = self._unset(run)
        if unset and gravest.kind == "out-of-bounds":
            said = f"{unset[0]}: {gravest.message}"
            raise Judgement(Verdict.UNINIT, said, file=self.name, line=unset[1], case=_case(run))
        dynamic = self._dynamic_shared(run, gravest)
        judgement = Judgement(
            verdict_of_hazard(gravest.kind), f"{gravest.message}: {dynamic}" if dynamic else "", file=self.name,
            line=gravest.line, case=_case(run), finding=None if dynamic else gravest, more=len(found) - 1,
        )  # fmt: skip
        judgement.cause = "dynamic-shared" if dynamic else ""
        raise judgement

    def _dynamic_shared(self, run: RunResult, hazard: Finding) -> str:
        """What is to be said of an access behind all shared memory where the kernel declares some without a size."""
        declared = dynamic_shared(self.source)
        launch = next((launch for launch in run.launches if hazard in launch.hazards), None)
        is_behind = hazard.kind == "out-of-bounds" and hazard.space == "shared" and not hazard.variable
        if not declared or launch is None or not is_behind or hazard.address > launch.shared_mem + _NEAR:
            return ""
        given = f"shared={launch.shared_mem} bytes" if launch.shared_mem else "none"
        where = f"the header's Launch line of {launch.kernel}"
        return f"'{declared}' has the bytes that `shared=` in {where} gives it: {given}"

    def _judge_inputs(self, run: RunResult) -> None:
        if run.overwritten:
            names = " and ".join(run.overwritten)
            raise Judgement(Verdict.WA, f"the kernel stores to its input {names}", case=_case(run))

    def _no_excess(self, run: RunResult, access: str, unit: str, counter: str, most: int = 0) -> None:
        excess = attrgetter(counter)
        total = excess(run.counters)
        self._measure(f"{access}s: {total:,} {unit} more than needed")
        if total <= most:
            return
        line, counters = max(run.lines.items(), key=lambda item: (excess(item[1]), -item[0]))
        each = excess(counters) / max(1, counters[f"{access.replace(' ', '_')}_requests"])
        share = f", {excess(counters):,} of them in line {line} ({each:.3g} for each request of a warp)" if line else ""
        seen = f"{access}s take {total:,} {unit} more than needed{share}"
        raise Judgement(Verdict.PERF, seen, line=line, case=_case(run))

    def _no_idle_lanes(self, run: RunResult, space: str) -> None:
        """Raise Judgement (PERF) where lanes access memory few at a time: alone, each of them is always coalesced.

        Lines count in which more lanes rest than work, on average over their requests; a few such accesses every kernel
        has, as many as `_FEW_LANES` for each word of its arrays.
        """
        idle = {}
        for line, counters in run.lines.items():
            requests, lanes = (counters[f"{kind}_memory_{space}"] for kind in ("instructions", "thread_instructions"))
            if WARP * requests > 2 * lanes:
                idle[line] = WARP * requests - lanes
        words = sum(-(-array.nbytes // _WORD) for array in run.outputs.values())
        words += sum(-(-array.dtype.itemsize * math.prod(array.shape or ()) // _WORD) for array in _given(run))
        if sum(idle.values()) > _FEW_LANES * words:
            line = max(idle, key=lambda line: (idle[line], -line))
            counters = run.lines[line]
            each = counters[f"thread_instructions_memory_{space}"] / counters[f"instructions_memory_{space}"]
            seen = (
                f"accesses of {space} memory in line {line} have {each:.3g} of {WARP} lanes at work: few lanes at a "
                "time take as many requests as all of them together"
            )
            self._measure(seen)
            raise Judgement(Verdict.PERF, seen, line=line, case=_case(run))

    def _measure(self, text: str) -> None:
        """Keep what was held against a limit, unless a secret case counts it: no student may read that.

        Raises Judgement (PERF) where atomics stand for loads and stores, whose counters they pass by.
        """
        if not in_secret_case() and text not in self.measured:
            self.measured = [*self.measured, text][-_MOST_MEASURED:]
        count, line = self._atomics
        if count:
            seen = (
                f"line {line}: {count:,} atomic operations of warps, which counters of loads and stores do not see; "
                "this step is done without any"
            )
            raise Judgement(Verdict.PERF, seen, line=line)


def load_submission(
    source: bytes | str, *, name: str, step: Contract | None = None, on_gpu: bool = False,
    may_use_atomics: bool = True,
) -> Submission:  # fmt: skip
    """Read, compile and parse a source; raises Judgement with the verdict that stands before all tests.

    The compiler speaks first, since what it rejects makes every other complaint hard to trust. `step` is the contract
    of the step's own file; without `may_use_atomics` none passes a criterion that counts.
    """
    text = _text(source if isinstance(source, bytes) else source.encode(), name)
    try:
        compiled = compile_cuda(text, name=name, arch=step.arch if step is not None else _arch(text, name))
        contract = parse_contract(text, name=name)
        if step is not None:
            require_same_entries(contract, step)
    except WarpschoolError as error:
        raise judge(error, has_inline_asm="asm" in text) from error
    loaded = Submission(
        contract, compiler=compiled.compiler, arch=compiled.arch, on_gpu=on_gpu, may_use_atomics=may_use_atomics
    )
    own = (found for found in compiled.warnings if found.line and found.file == name)
    told = (f"line {found.line}: {readable(found.message)}" for found in own)
    loaded.warnings = tuple(dict.fromkeys(told))[:_MOST_WARNINGS]
    loaded.unset = compiled.unset
    return loaded


def _arch(text: str, name: str) -> str:
    """What a source's own header asks to compile for; a header that cannot be read is reported later."""
    try:
        return parse_contract(text, name=name).arch
    except WarpschoolError:
        return DEFAULT_ARCH


def _text(source: bytes, name: str) -> str:
    if len(source) > MAX_SOURCE_BYTES:
        raise Judgement(Verdict.CLE, f"{name}: the source is larger than {MAX_SOURCE_BYTES:,} bytes")
    try:
        text = source.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = source[: error.start].count(b"\n") + 1
        said = f"byte 0x{source[error.start]:02x} is not UTF-8; save the file as UTF-8 text"
        raise Judgement(Verdict.BAD, said, file=name, line=line) from None
    if not text.strip():
        raise Judgement(Verdict.BAD, f"{name}: the file is empty; start from the step's starter")
    return text


def _key_of(
    sizes: Mapping[str, float], arrays: Mapping[str, npt.ArrayLike], constants: Mapping[str, int] | None
) -> bytes:
    """A digest of what a run on the simulator depends on, whatever objects it comes in."""
    made = hashlib.blake2b(repr((sorted(sizes.items()), sorted((constants or {}).items()))).encode())
    for name, given in sorted(arrays.items()):
        array = np.ascontiguousarray(given)
        made.update(f"{name} {array.dtype} {array.shape}".encode())
        made.update(array.view(np.uint8).data if array.size else b"")
    return made.digest()


def _random(rng: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    if dtype.kind == "f":
        return rng.uniform(-1, 1, shape).astype(dtype)
    low, high = {"b": (0, 2), "i": (-8, 8)}.get(dtype.kind, (0, 8))
    return rng.integers(low, high, shape).astype(dtype)


def _to_tell(found: list[Finding]) -> Finding:
    """The gravest hazard; of races behind a barrier that not all threads reach, the barrier, which is their cause."""
    gravest = min(found, key=lambda hazard: verdict_of_hazard(hazard.kind).rank)
    if verdict_of_hazard(gravest.kind) is Verdict.RACE:
        return next((hazard for hazard in found if hazard.kind == "divergent-barrier"), gravest)
    return gravest


def _atomics(counters: Counters) -> int:
    """Atomic operations on global and shared memory, counted once a warp."""
    return counters.global_atomic_requests + counters.global_reduction_requests + counters.shared_atomic_requests


def _given(run: RunResult) -> list[ArrayPlan]:
    return [array for array in run.plan.arrays.values() if array.is_given and not array.is_result]


def _unmoved(before: np.ndarray, after: np.ndarray, share: float) -> int:
    """How many elements have moved by less than a share of their size; with a share of 0, not at all."""
    if not share:
        return int(np.count_nonzero((before != 0) & (before == after)))
    size = np.abs(before)
    noise = _NOISE * float(np.max(size, initial=0, where=np.isfinite(size)))
    needed = np.maximum(share * size - noise, noise)
    return int(np.count_nonzero((size > 2 * noise) & ~(np.abs(after - before) >= needed)))


def _looks_unset(got: np.ndarray, result: Comparison) -> bool:
    """Whether some wrong element is as far off as what variables without a value begin with (`kernel.undefined`)."""
    if got.dtype.itemsize < 4:
        return True
    wrong = [result.worst.got] if result.worst is not None else []
    values = np.abs([*wrong, *(mismatch.got for mismatch in result.first)])
    return not bool(np.all(values < _FAR_OFF))


def _case(run: RunResult) -> Case:
    """The sizes of a run, as plain numbers."""
    values = {**run.plan.scalars, **run.plan.sizes}
    return tuple((name, int(value) if float(value).is_integer() else float(value)) for name, value in values.items())


def _amount(value: float, unit: str) -> str:
    number = f"{value:,}" if isinstance(value, int | np.integer) else f"{value:,.4g}"
    return f"{number} {unit}".strip()
