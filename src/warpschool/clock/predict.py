"""How long a launch would take on a GPU, and where its warps would wait: the parts of the clock put together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from warpschool import model
from warpschool.clock import core
from warpschool.clock.blocks import Work, blocks_of_one, work_of
from warpschool.clock.footprint import PAIR, busiest_lines, entries, pairs_touched, relinked
from warpschool.clock.machine import Machine
from warpschool.clock.program import Program
from warpschool.clock.timing import WARPGROUP, instruction_table
from warpschool.clock.trace import BlockTrace, KernelLaunch, PathUnknown, Tracer

_MOST_TRACED = 6_000_000
"""Instructions of warps that are followed for one prediction; a launch of more is told from its first blocks."""
_KNOWN_LINES = 1 << 20
_ATOMICS = frozenset(("ATOM", "ATOMG", "RED", "REDG"))
_LINE = 128
_LINE_INSTRUCTIONS = 8


@dataclass(frozen=True)
class LaunchTime:
    """One launch's prediction. `cycles` from where the GPU begins with the launch to its end, as `sm__cycles_elapsed`
    counts them; `us` between two events around it.
    `stalls` has a row of warp cycles by `core.R_*` for each instruction; `used` is `core.U_*` of the blocks
    followed. `issues` has a row of `core.LOG_WORDS` for each instruction that was issued in the watched cycles."""

    cycles: float
    us: float
    blocks_followed: int
    blocks_per_sm: int
    resident: int
    instructions: float
    stalls: np.ndarray
    used: np.ndarray
    issues: np.ndarray


@dataclass(frozen=True)
class Followed:
    """What the warps of one multiprocessor do in a launch, which no constant of time changes.

    Warp `w` of the blocks begins in chunk `first[w]` of `stream`; `order` is that in which the multiprocessor gets the
    blocks, `mine` how many it gets in all, `left` how many instructions the others have.
    At a time it has `resident` blocks; of alike ones the last `rest` make no full set. `active` multiprocessors have
    one. For each array, between two of `ranges`, `shares` is how many multiprocessors want each of its sectors;
    `footprint` are all bytes that are touched, `contested` rows of `busiest_lines`, of all multiprocessors together.
    """

    program: Program
    launch: KernelLaunch
    stream: np.ndarray
    first: np.ndarray
    order: Sequence[int]
    mine: int
    left: float
    resident: int
    rest: int
    active: int
    ranges: np.ndarray
    shares: np.ndarray
    footprint: float
    contested: np.ndarray
    instructions: float


def predict_launch(
    program: Program, launch: KernelLaunch, machine: Machine, *, warm: bool = False,
    watched: tuple[int, int] = (0, 0),
) -> LaunchTime:  # fmt: skip
    """Follow the blocks of one multiprocessor, and write down what it issues from one cycle to another.

    Raises PathUnknown, LaunchError.
    """
    return time_of(follow(program, launch, machine), machine, warm=warm, watched=watched)


def follow(program: Program, launch: KernelLaunch, machine: Machine) -> Followed:
    """Find out what the warps of one multiprocessor do. Raises PathUnknown, LaunchError.

    Where ways depend on what earlier launches would have written, these arrays are taken as they are.
    """
    if program.unmodelled:
        raise PathUnknown(f"{program.unmodelled}: the clock does not know this instruction")
    try:
        return _follow(program, launch, machine)
    except PathUnknown:
        if not (launch.unknown and program.reads_memory):
            raise
        return _follow(program, replace(launch, unknown=frozenset()), machine)


def _follow(program: Program, launch: KernelLaunch, machine: Machine) -> Followed:
    function = program.function
    occupancy = model.occupancy(
        launch.threads, registers=int(machine.limits.get("registers", function.registers)),
        shared_bytes=function.shared_bytes + launch.shared_bytes, gpu=machine.spec,
    )  # fmt: skip
    sms = int(machine["memory"]["sms"])
    tracer = Tracer(program, launch)
    work = work_of(tracer)
    numbers = blocks_of_one(work, launch, sms, occupancy.blocks)
    resident = min(occupancy.blocks, len(numbers))
    if "warps" in machine.limits:
        resident = max(1, min(resident, int(machine.limits["warps"]) // launch.warps))
    traces, order = _followed(tracer, work, numbers, resident)
    active = min(launch.blocks, sms)
    ranges, shares, footprint = _sharing(tracer, traces, len(numbers), active)
    contested = busiest_lines(traces, _atomics_of(program)) * (launch.blocks / len(traces))
    left = _left(work, numbers, [traces[k].issued for k in order])
    stream, first = _joined(traces)
    return Followed(
        program, launch, stream, first, order, len(numbers), left, resident,
        len(numbers) % resident if work.is_even else 0, active, ranges, shares, footprint, contested, work.total,
    )  # fmt: skip


def time_of(
    found: Followed, machine: Machine, *, warm: bool = False, watched: tuple[int, int] = (0, 0)
) -> LaunchTime:
    """How long a machine takes for what `follow` found on it, or on one with as many multiprocessors and registers.

    Raises PathUnknown.
    """
    run = _Run(found, machine, warm=warm)
    used, stalls, issues = run.simulate(watched)
    cycles, followed = max(used[core.U_CYCLES], _last_set(found, run, used, stalls, machine)), len(found.order)
    if followed < found.mine:
        cycles += found.left * _cycles_of_an_instruction(run.ended, found.resident)
    cycles = max(cycles, _in_turn(found.contested, machine))
    mhz = _mhz(found.program, machine, used)
    clock = machine["clock"]
    start = float(clock["warm_start" if warm else "cold_start"])
    launch_us = float(clock["launch_us"])
    around = (launch_us - float(clock["events_us"])) * mhz
    return LaunchTime(
        cycles=cycles + start + around, us=(cycles + start) / mhz + launch_us, blocks_followed=followed,
        blocks_per_sm=found.mine, resident=found.resident, instructions=found.instructions, stalls=stalls, used=used,
        issues=issues,
    )  # fmt: skip


def _atomics_of(program: Program) -> np.ndarray:
    """For each instruction 0, or 1 for an atomic one in global memory, and 2 for one that adds floats."""
    of_floats = {"F32", "F16x2", "F64"}
    kinds = [(2 if of_floats & i.modifiers else 1) if i.name in _ATOMICS else 0 for i in program.function.code]
    return np.array(kinds, np.int64)


def _in_turn(contested: np.ndarray, machine: Machine) -> float:
    """Cycles that L2 needs for the line to which all multiprocessors send most atomics: these go one by one."""
    if not len(contested):
        return 0.0
    memory = machine["memory"]
    sectors, whole, floats = contested.T
    busy = np.maximum(sectors, whole * memory["atomic_turn"] + floats * memory["atomic_turn_float"])
    return float(busy.max())


def _mhz(program: Program, machine: Machine, used: np.ndarray) -> float:
    """The clock that a launch reaches: tensor cores lower it, those that a warpgroup keeps busy most."""
    clock = machine["clock"]
    if used[core.U_TENSOR] <= 0.25 * used[core.U_CYCLES] * 4:
        return float(clock["mhz"])
    of_groups = any(i.name in WARPGROUP for i in program.function.code)
    return float(clock.get("warpgroup_mhz", clock["tensor_mhz"]) if of_groups else clock["tensor_mhz"])


def _followed(
    tracer: Tracer, work: Work, numbers: Sequence[int], resident: int
) -> tuple[list[BlockTrace], list[int]]:
    """These blocks, followed as far as the budget goes, and the order in which they run.

    Blocks that are alike come and go in sets of as many as are resident. So those that run are full sets from the
    front, three at least if that is not too much, and at the end the last blocks, as many as make no full set: where
    sets in between are left out, what is left ends like the launch does.
    """
    mean = max(1.0, work.total / tracer.launch.blocks)
    most = max(1, int(_MOST_TRACED / mean))
    if most >= len(numbers):
        return [_trace(tracer, number) for number in numbers], list(range(len(numbers)))
    if not work.is_even:
        return _front(tracer, numbers, resident)
    rest = len(numbers) % resident
    affordable = max(1, (int(3 * _MOST_TRACED / mean) - rest) // resident)
    sets = min(max(3, (most - rest) // resident), affordable, len(numbers) // resident)
    last = min(rest, most // 4)
    first = min(most - last, sets * resident)
    chosen = [*numbers[:first], *numbers[len(numbers) - last :]]
    order = [k % first for k in range(sets * resident)]  # alike blocks again, elsewhere in memory they would be
    order += [first + k % last if last else k % first for k in range(rest)]
    return [_trace(tracer, number) for number in chosen], order


def _front(tracer: Tracer, numbers: Sequence[int], resident: int) -> tuple[list[BlockTrace], list[int]]:
    """The first ones of blocks that differ: at least one, better a full set."""
    traces: list[BlockTrace] = []
    spent = 0
    for number in numbers:
        traces.append(_trace(tracer, number))
        spent += traces[-1].issued
        if spent + traces[-1].issued > _MOST_TRACED:
            break
    order = list(range(len(traces)))
    least = min(len(numbers), 2 * resident)
    while len(order) < least and spent < 3 * _MOST_TRACED:
        order.append(len(order) % len(traces))
        spent += traces[order[-1]].issued
    return traces, order


def _trace(tracer: Tracer, number: int) -> BlockTrace:
    return tracer.run(tracer.launch.block_at(number))


def _cycles_of_an_instruction(ended: np.ndarray, resident: int) -> float:
    """Cycles that one instruction more takes, from when blocks ended and how many instructions were issued until then.

    While all places are taken that is between the end of the first block, and the end in whose place the last one
    begins. Blocks that end together leave little between the two: then it is what the later half of the sets took.
    """
    blocks = len(ended)
    when, issued = ended.T
    first, last = 0, blocks - resident - 1
    if last <= first or issued[last] - issued[first] < issued[-1] * resident / (2 * blocks):
        sets = blocks // resident
        first, last = sets // 2 * resident - 1, sets * resident - 1
        if first < 0:
            return float(when[-1] / issued[-1])
    return float((when[last] - when[first]) / max(1.0, issued[last] - issued[first]))


def _last_set(found: Followed, run: _Run, used: np.ndarray, stalls: np.ndarray, machine: Machine) -> float:
    """Until when a multiprocessor takes that gets more of the last blocks than others do; 0 where all get as many.

    Blocks go where room is first. Multiprocessors come apart by as much as L2 is further from one than from another, in
    proportion to what warps wait for it: who is ahead sees the blocks of its set end, and new ones come in their place,
    while others have none ended yet. What of a set's time L2 and DRAM are busy takes the less the fewer multiprocessors
    still ask.
    """
    full, resident = len(found.order) - found.rest, found.resident
    if not found.rest or not full:
        return 0.0
    ends, issued = run.ended.T
    end = float(ends[full - 1])
    waits = float(stalls[:, core.R_LONG].sum() / max(1.0, stalls.sum()))
    last = found.launch.blocks - found.mine // resident * resident * found.active
    share = last / (resident * found.active)
    apart = machine["latency"]["l2_apart"] * waits * end
    got = resident * _share_of_first(share, end - float(ends[full - resident]), apart)
    more = min(1.0, max(0.0, got - found.rest) / (resident - found.rest))
    busy = min(1.0, float(max(used[core.U_L2_SHARE], used[core.U_DRAM_SHARE])))
    of_a_set = resident * float(issued[-1]) / len(ends)
    whole_set = of_a_set * _cycles_of_an_instruction(run.ended[:full], resident) * (1.0 - busy * (1.0 - share))
    few = float(used[core.U_CYCLES]) - end
    return end + few + more * max(0.0, whole_set - few)


def _share_of_first(share: float, own: float, apart: float) -> float:
    """What part of its places the multiprocessor that is ahead fills again, if `share` of all places are filled again:
    the places of each become free evenly over `own` cycles, and the multiprocessors begin with that evenly over
    `apart` cycles."""
    if own <= 0.0:
        return 1.0 if apart > 0.0 else share
    until = float(np.sqrt(2.0 * share * own * apart))
    if until >= apart:
        until = share * own + apart / 2.0
    return min(1.0, until / own)


def _left(work: Work, numbers: Sequence[int], issued: Sequence[int]) -> float:
    """How many instructions are left of the blocks that are not followed."""
    if work.is_even or work.each is None or len(issued) == len(numbers):
        return float(np.mean(issued)) * (len(numbers) - len(issued))
    return max(0.0, float(work.each[list(numbers)].sum()) - sum(issued))


def _sharing(
    tracer: Tracer, traces: Sequence[BlockTrace], mine: int, active: int
) -> tuple[np.ndarray, np.ndarray, float]:
    """For each array, how many multiprocessors fetch each of its sectors, as a mean; and all bytes that are touched."""
    arrays = sorted({(address, data.nbytes) for address, data in tracer.launch.arrays if data.nbytes} | tracer.mapped())
    addresses = pairs_touched(np.concatenate([entries(trace) for trace in traces]))
    ranges, shares, total = [], [], 0.0
    scale = mine / max(len(traces), 1) * active
    for address, nbytes in arrays:
        inside = (addresses + PAIR > address) & (addresses < address + nbytes)
        one = float(PAIR * np.count_nonzero(inside))
        wanted = one * scale if nbytes > one else one * active
        touched = min(float(nbytes), wanted) if wanted else 0.0
        ranges += [address, address + nbytes]
        shares.append(max(1.0, min(wanted / touched, float(active))) if touched else 1.0)
        total += touched
    return np.array(ranges or [0, 0], np.int64), np.array(shares or [1.0]), total


class _Run:
    def __init__(self, found: Followed, machine: Machine, *, warm: bool) -> None:
        self.found = found
        program, launch, resident, active = found.program, found.launch, found.resident, found.active
        memory, latency, issue, clock = (machine[name] for name in ("memory", "latency", "issue", "clock"))
        m = np.zeros(56)
        own = program.function.shared_bytes + launch.shared_bytes + machine.spec.sm.reserved_shared_bytes
        l1 = int(memory["l1_bytes"]) - machine.carve_out(resident * own)
        ghz = float(clock["mhz"]) / 1000
        dram = float(memory["dram_gb_per_s"]) / ghz / active
        l2 = min(float(memory["l2_read_bytes"]), float(memory["l2_read_bytes_all"]) / active)
        cold = 0.0 if warm and found.footprint < 0.8 * memory["l2_bytes"] else 1.0
        m[core.M_L1_LATENCY], m[core.M_L2_LATENCY] = latency["l1"], latency["l2"] - latency["l1"]
        m[core.M_DRAM_LATENCY], m[core.M_SHARED_LATENCY] = latency["dram"] - latency["l1"], latency["shared"]
        m[core.M_L2_BYTES], m[core.M_DRAM_BYTES] = l2, min(dram, float(memory["dram_bytes_one"]))
        m[core.M_MIO_QUEUE], m[core.M_LG_QUEUE] = memory["mio_queue"], memory["lg_queue"]
        m[core.M_BARRIER], m[core.M_BRANCH] = issue["barrier"], issue["branch"]
        m[core.M_DISPATCH] = clock["block_dispatch"]
        m[core.M_BLOCK_START], m[core.M_COLD_LINE] = clock["block_start"], clock["cold_line"]
        m[core.M_L1_WAYS] = 4
        m[core.M_L1_SETS] = max(1, l1 // _LINE // 4)
        m[core.M_BANK_WINDOW], m[core.M_LINE_CYCLES] = issue["bank_window"], memory["line_cycles"]
        m[core.M_ENTRY], m[core.M_ONE_WAVE] = memory["l1_entry"], memory["one_wave"]
        m[core.M_BACKLOG], m[core.M_TAGS] = memory["backlog"], memory["tags"]
        m[core.M_MISSES] = max(1, l1) / l2  # L1 keeps a place for all that is to come
        m[core.M_RESIDENT], m[core.M_WARPS] = resident, launch.warps
        m[core.M_STORE_BYTES] = min(float(memory["store_bytes"]), float(memory["l2_write_bytes_all"]) / active)
        m[core.M_COLD], m[core.M_DRAM_WRITE] = cold, memory["dram_write_cost"] if cold else 0.0
        m[core.M_SCATTERED], m[core.M_RANDOM] = memory["dram_scattered"], memory["l2_random"]
        m[core.M_ATOMIC_LATENCY], m[core.M_ATOMIC_CYCLES] = latency["atomic"], memory["atomic_cycles"]
        m[core.M_FENCE] = latency.get("fence_gpu", latency["l2"])
        m[core.M_FENCE_STORED] = latency.get("fence_stored", m[core.M_FENCE] + latency["l2"])
        m[core.M_MOST_CYCLES] = 4e8
        if "bulk" in machine.tables:
            bulk = machine["bulk"]
            m[core.M_SYNC], m[core.M_WAKE], m[core.M_ACROSS] = bulk["sync"], bulk["wake"], bulk["across"]
            m[core.M_BULK_START], m[core.M_BULK_END] = bulk["start"], bulk["end"]
            m[core.M_BULK_LINE], m[core.M_BULK_BYTES] = bulk["line_cycles"], bulk["bytes"]
            m[core.M_BULK_STORE], m[core.M_L2_PORT] = bulk["store_bytes"], memory["l2_read_bytes"]
        self.m = m
        self.table = instruction_table(program, machine)
        code = machine["code"]
        m[core.M_CODE_LINES] = len(self.table) // _LINE_INSTRUCTIONS + 2
        m[core.M_CODE_NEAR], m[core.M_CODE_FAR] = (code[name] // _LINE for name in ("near_bytes", "far_bytes"))
        m[core.M_NEAR_LINE], m[core.M_FAR_LINE] = code["near_line"], code["far_line"]
        m[core.M_NEAR_WAYS], m[core.M_FAR_WAYS] = code["near_ways"], code["far_ways"]
        self.ended = np.zeros((0, 2))
        """Of each block, as they end: when, and how many instructions were issued until then."""

    def simulate(self, watched: tuple[int, int]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """What the units did (`core.U_*`), what warps waited for by instruction, and what was issued while watched."""
        found, order = self.found, self.found.order
        slots = found.resident * found.launch.warps
        self.m[core.M_BLOCKS], self.m[core.M_SHARE_KEEP] = len(order), len(found.shares)
        used, ends = np.zeros(24), np.zeros((len(order), 2))
        stalls = np.zeros((len(self.table), core.REASONS))
        lines = int(self.m[core.M_CODE_LINES])
        code = lines + 2 * int(self.m[core.M_CODE_NEAR] + self.m[core.M_CODE_FAR])
        self.m[core.M_LOG_FROM], self.m[core.M_LOG_TO] = watched if watched[1] else (np.inf, 0)
        log = np.zeros((4 * (watched[1] - watched[0]) + 2 * slots + 8, core.LOG_WORDS), np.int64)
        run = np.zeros(core.Z_STAYS + 4)
        cache = int(self.m[core.M_L1_SETS] * self.m[core.M_L1_WAYS])
        took = core.simulate(
            self.table.reshape(-1), found.stream, found.first, np.array(order, np.int64),
            np.zeros(slots * core.WARP_WORDS, np.int64),
            np.zeros(slots * core.TIMES), np.zeros(found.resident * core.SLOT_WORDS, np.int64), self.m,
            np.zeros(4 * core.PIPES),
            np.zeros(8), np.zeros(512), np.zeros(8, np.int64), np.zeros(core.QUEUES), np.zeros(cache, np.int64),
            np.zeros(2 * cache, np.int64), np.zeros(2 * _KNOWN_LINES, np.int64), _KNOWN_LINES, found.ranges,
            found.shares, used, np.zeros(4),
            np.zeros(code, np.int64), stalls.reshape(-1), ends.reshape(-1), np.zeros(slots), run,
            log.reshape(-1), np.zeros(found.resident * core.MARKS * core.MARK_WORDS), np.zeros(lines + 2),
        )  # fmt: skip
        if took < 0:
            raise PathUnknown("the model's warps all wait for each other")
        self.ended = ends[np.argsort(ends[:, 0], kind="stable")]
        return used, stalls, log[: int(run[core.Z_LOGGED])]


def _joined(traces: Sequence[BlockTrace]) -> tuple[np.ndarray, np.ndarray]:
    """All streams in one, with the chunks' numbers as they are there."""
    streams, firsts, base = [], [], 0
    for trace in traces:
        streams.append(relinked(trace, base))
        firsts.append(trace.first + base)
        base += len(trace.stream) // core.CHUNK_WORDS
    return np.concatenate(streams), np.concatenate(firsts)
