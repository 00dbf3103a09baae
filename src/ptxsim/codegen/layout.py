"""Where things lie in the two structures that translated code works on.

`WorkerState` (one per host thread) holds what a block needs: its index, the grid, pointers to shared memory, counters,
shadow memory and the allocation table. `Context` (one per warp of the current block) holds a warp's state between two
entries into translated code: the program counter of every lane and a slot for every live register.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum

from ptxsim.limits import WARP
from ptxsim.syntax.program import WIDTH_BITS, Block, Instruction, Kernel, WarpBarrier


class BlockPart(ctypes.Structure):
    """What a worker knows of the block that it is running: exchanged when it turns to another resident block."""

    _fields_ = [
        ("ctaid", ctypes.c_uint32 * 3),
        ("rank", ctypes.c_uint32),  # in its cluster
        ("block", ctypes.c_uint64),  # linear block index
        ("contexts", ctypes.c_void_p),  # of its warps
        ("shared", ctypes.c_void_p),
        ("shadow", ctypes.c_void_p),  # one u32 per granule of shared memory
        ("pending", ctypes.c_void_p),  # cp.async: a queue per warp
        ("cluster", ctypes.c_void_p),  # ClusterPart
        ("known", ctypes.c_void_p),  # per warp: pointer to pairs of times, and their number (see ordering)
        ("acquired", ctypes.c_void_p),  # the same of what may be read
        ("lane_syncs", ctypes.c_void_p),  # u32 per warp, lane and other lane (see ordering)
        ("budget", ctypes.c_int64),  # loop iterations (per warp) left for this block
        ("started", ctypes.c_int64),  # budget with which it started, or went on
        ("share", ctypes.c_int64),  # budget with which it started
        ("clock", ctypes.c_uint64),
        ("resident", ctypes.c_uint32),  # its place among the resident blocks
        ("epoch", ctypes.c_uint32),  # time of the last block barrier
        ("vote_count", ctypes.c_uint32),  # bar.red: lanes whose predicate holds
        ("vote_lanes", ctypes.c_uint32),  # bar.red: lanes that took part
        ("turn", ctypes.c_uint32),  # bit mask of warps that may run in the next round
        ("done", ctypes.c_uint32),  # warps that have ended
        ("lockstep", ctypes.c_int32),  # the entry from which all warps run alike; -1: they do not
        ("local_time", ctypes.c_uint32),  # the worker's time when it turned to another block
        ("arrivals", ctypes.c_uint32 * 32),  # bar.arrive: threads that have come to each named barrier
    ]


class ClusterPart(ctypes.Structure):
    """What the blocks of a cluster share."""

    _fields_ = [
        ("shared", ctypes.c_void_p),  # shared memory of the block with rank 0; the others' follow
        ("arrived", ctypes.c_uint32),  # threads that have come to the cluster's barrier
        ("phase", ctypes.c_uint32),  # how often it has opened
        ("threads", ctypes.c_uint32),  # that have not ended
    ]


class Resident(ctypes.Structure):
    """A place for a block that waits for others while they run."""

    _fields_ = [
        ("part", BlockPart),
        ("number", ctypes.c_uint64),  # of the block, in the order in which blocks start
        ("state", ctypes.c_uint32),  # RESIDENT_...
        ("members", ctypes.c_uint32),  # blocks of the cluster that begins here that have not ended
    ]


RESIDENT_NONE, RESIDENT_NEW, RESIDENT_STARTED = range(3)


class Notice(ctypes.Structure):
    """What the listener of asynchronous work is told besides the event and the warp (`AsyncEvent` says what)."""

    _fields_ = [("words", ctypes.c_int64 * 8), ("lanes", ctypes.c_int32 * 32)]


class AsyncRecord(ctypes.Structure):
    """One event of asynchronous work as it is written down."""

    _fields_ = [
        ("kind", ctypes.c_uint32),  # AsyncEvent
        ("warp", ctypes.c_uint32),
        ("rank", ctypes.c_uint32),  # of the block in its cluster
        ("resident", ctypes.c_uint32),  # the block's place
        ("block", ctypes.c_uint64),
        ("mask", ctypes.c_uint64),  # of lanes, or of warps
        ("shared", ctypes.c_uint64),  # where the block's shared memory begins
        ("notice", Notice),
        ("addresses", ctypes.c_uint64 * 32),  # `signal_addresses`
    ]


ASYNC_RECORDS = 4096
"""Records that there is room for, until the listener takes them."""


class WorkerState(ctypes.Structure):
    """State of one host thread; generated code reads it by field offset."""

    _anonymous_ = ("part",)
    _fields_ = [
        ("part", BlockPart),
        ("nctaid", ctypes.c_uint32 * 3),
        ("cluster_size", ctypes.c_uint32 * 3),
        ("shared_bytes", ctypes.c_uint64),  # static and dynamic
        ("shared_stride", ctypes.c_uint64),  # from one resident block's to the next one's
        ("shadow_stride", ctypes.c_uint64),
        ("dynamic_bytes", ctypes.c_uint64),
        ("params", ctypes.c_void_p),
        ("counters", ctypes.c_void_p),  # u64 each
        ("sites", ctypes.c_void_p),  # Site per global access: the allocation it hit last
        ("allocations", ctypes.c_void_p),  # Site each, sorted by address
        ("allocation_count", ctypes.c_uint64),
        ("constants", ctypes.c_void_p),  # those in constant memory
        ("constant_count", ctypes.c_uint64),
        ("hazards", ctypes.c_void_p),  # HazardRecord each
        ("hazard_seen", ctypes.c_void_p),  # a byte per (site, kind)
        ("hazard_count", ctypes.c_uint64),
        ("residents", ctypes.c_void_p),  # Resident each
        ("resident_count", ctypes.c_uint64),  # places: a multiple of the cluster's blocks
        ("wanted", ctypes.c_uint64),  # blocks that are to be resident from the start
        ("give_up", ctypes.c_uint32),  # whether a block that cannot go on is to say so
        ("block_budget", ctypes.c_int64),
        ("launch_budget", ctypes.c_int64),  # loop iterations left for all blocks of this worker
        ("stop", ctypes.c_uint32),  # set from outside, and where strays are used up: end after the current step
        ("strays", ctypes.c_int64),  # accesses of warps that may yet go where no lane of theirs should
        ("fault", ctypes.c_uint32),  # Fault code
        ("fault_site", ctypes.c_uint32),  # source line of the fault
        ("time", ctypes.c_uint32),  # advances at every block and warp barrier
        ("other_site", ctypes.c_uint32),  # of the access that a race collides with; -1: not known
        ("race_kind", ctypes.c_uint32),
        ("race_address", ctypes.c_uint64),
        ("exact", ctypes.c_uint32),  # whether the exact race shadow is in use: time has no limit
        ("came_further", ctypes.c_uint32),  # whether something happened that others may wait for
        ("exact_steps", ctypes.c_uint64),  # accesses of warps that it has looked at
        ("stored", ctypes.c_void_p),  # what each lane is about to store, for the exact race shadow; null: not known
        ("order", ctypes.c_void_p),  # in which warps take their turns (u32), where code asks for it
        ("landed", ctypes.c_void_p),  # ws_exact_landed
        ("on_sync", ctypes.c_void_p),  # called at barriers, fences and signals
        ("signal_addresses", ctypes.c_uint64 * 32),  # of the signal that on_sync is told of
        ("failed_waits", ctypes.c_uint32),  # waits at barrier objects in vain, since an arrival or a wait's end
        ("waiting_thread", ctypes.c_uint32),  # warp and lane of the last of them
        ("waiting_at", ctypes.c_uint64),  # the object's offset in shared memory
        ("yield_due", ctypes.c_uint32),  # a loop has run for long: let the others go on
        ("last_warp", ctypes.c_uint64),  # the last that a part of `full` has run in lockstep
        ("result_before", ctypes.c_uint32),  # what the warp before that one did
        ("patience", ctypes.c_int64),  # iterations after which that is so, minus 1: all bits of a power of 2
        ("drawn", ctypes.c_uint64),  # turns of loops that share out work, by all blocks
        ("pauses", ctypes.c_uint64),  # how often somebody gave way since blocks were let in, ended or were let go on
        ("resets", ctypes.c_uint64),  # how often that was so
        ("next_look", ctypes.c_uint64),  # the pause at which on_stall is called
        ("changed", ctypes.c_uint32),  # whether somebody has found since the last look what he waited for
        ("on_stall", ctypes.c_void_p),  # called to see whether anything can change any more
        ("whose_turn", ctypes.c_uint64),  # the place of the resident block that follows
        ("outside", ctypes.c_uint32),  # whether an operand of wgmma leaves shared memory
        ("print_used", ctypes.c_uint64),  # bytes that blocks have printed
        ("print_limit", ctypes.c_uint64),
        ("print_formats", ctypes.c_uint64 * 32),  # addresses that lanes hand to on_print; what it returns comes back
        ("print_arguments", ctypes.c_uint64 * 32),
        ("on_print", ctypes.c_void_p),  # called by printf
        ("masked", ctypes.c_void_p),  # the function `masked`, compiled when it is first called
        ("masked_counters", ctypes.c_void_p),  # u64 each
        ("functions", ctypes.c_void_p),  # of outlined code: those that records call, by their number
        ("runs", ctypes.c_void_p),  # the records
        ("whole", ctypes.c_void_p),  # where the run of each block begins that is nothing but records
        ("wide", ctypes.c_void_p),  # wgmma: operands made ready, `Unit.wide_entries` for each warpgroup
        ("textures", ctypes.c_void_p),  # TextureRecord each, by the numbers of their handles
        ("texture_count", ctypes.c_uint64),
        ("texture_problem", ctypes.c_uint32),  # TextureProblem, where an instruction could not use an object
        ("fault_thread", ctypes.c_uint32),  # warp and lane that met it, or whose assertion failed
        ("fault_text", ctypes.c_uint64),  # address of what was asserted
        ("texture_handle", ctypes.c_uint64),
        ("texture_place", ctypes.c_int32 * 3),  # the surface coordinates that lie outside
        ("workspace", ctypes.c_uint64),  # of a cooperative launch: where its blocks meet
        ("follows", ctypes.c_uint32),  # whether on_async is told what the asynchronous engines do
        ("on_async", ctypes.c_void_p),
        ("notice", Notice),  # what it is told
        ("records", ctypes.c_void_p),  # AsyncRecord each, of what happened since it took them
        ("record_count", ctypes.c_uint64),
        ("shared_granule", ctypes.c_uint64),  # log2 of the granules of the race shadow of shared memory
        ("heap_low", ctypes.c_uint64),  # the stretch of the device heap; 0 and 0 where there is none
        ("heap_high", ctypes.c_uint64),
        ("heap_owners", ctypes.c_void_p),  # u32 for every 16 bytes of it: which of heap_sites, plus 1
        ("heap_sites", ctypes.c_void_p),  # Site each
        ("heap_moment", ctypes.c_uint64),  # how often the heap has changed
        ("heap_values", ctypes.c_uint64 * 32),  # sizes or addresses that lanes hand to on_heap; addresses come back
        ("heap_alignments", ctypes.c_uint64 * 32),
        ("on_heap", ctypes.c_void_p),  # called by malloc and free
    ]


class Site(ctypes.Structure):
    """An allocation as generated code sees it."""

    _fields_ = [
        ("low", ctypes.c_uint64),
        ("high", ctypes.c_uint64),  # one past the end
        ("shadow", ctypes.c_uint64),  # race shadow, or 0 where no block writes: reads need no tracking
    ]


SITE_BYTES = ctypes.sizeof(Site)


class HazardRecord(ctypes.Structure):
    """One hazard as generated code notes it."""

    _fields_ = [
        ("kind", ctypes.c_uint32),
        ("site", ctypes.c_uint32),
        ("block", ctypes.c_uint64),
        ("warp", ctypes.c_uint32),
        ("lane", ctypes.c_uint32),
        ("address", ctypes.c_uint64),
        ("state", ctypes.c_uint64),  # shadow state that the access collided with
        ("other_site", ctypes.c_uint32),
    ]


class TextureRecord(ctypes.Structure):
    """A texture or surface object as generated code sees it."""

    _fields_ = [
        ("base", ctypes.c_uint64),
        ("row_bytes", ctypes.c_uint64),
        ("slice_bytes", ctypes.c_uint64),
        ("extent", ctypes.c_uint32 * 3),  # texels of a row, rows, slices or layers; at least 1
        ("role", ctypes.c_uint32),  # TextureRole
        ("geometry", ctypes.c_uint32),  # an index into GEOMETRIES
        ("texel_bytes", ctypes.c_uint32),
        ("channels", ctypes.c_uint32),
        ("channel_bytes", ctypes.c_uint32),
        ("reading", ctypes.c_uint32),  # Reading: what becomes of a channel's bits
        ("scale", ctypes.c_float),  # what is 1.0 among normalized numbers
        ("modes", ctypes.c_uint32 * 3),  # AddressMode of x, y and z
        ("filters", ctypes.c_uint32),
        ("normalized_coordinates", ctypes.c_uint32),
        ("border", ctypes.c_uint32 * 4),  # raw bits
        ("width", ctypes.c_uint32),  # what queries tell: 0 where there is no such dimension
        ("height", ctypes.c_uint32),
        ("depth", ctypes.c_uint32),
        ("array_size", ctypes.c_uint32),
    ]


class TextureRole(IntEnum):
    """What a record is."""

    NOTHING, TEXTURE, SURFACE, FREED = range(4)


class TextureProblem(IntEnum):
    """Why an instruction cannot use an object."""

    NO_OBJECT, WRONG_ROLE, WRONG_GEOMETRY, FREED, OUTSIDE = range(1, 6)


class Reading(IntEnum):
    """What a channel's bits become: integers, normalized or not; 16- and 32-bit floats."""

    UNSIGNED, SIGNED, UNSIGNED_NORMALIZED, SIGNED_NORMALIZED, HALF, FLOAT = range(6)


class AddressMode(IntEnum):
    """What becomes of coordinates outside."""

    WRAP, CLAMP, MIRROR, BORDER = range(4)


GEOMETRIES = ("1d", "2d", "3d", "a1d", "a2d", "cube", "acube", "linear", "pitched")
"""What kinds of images there are: PTX's geometries for arrays, and memory of the kernel's."""
HAZARD_CAPACITY = 64

HAZARD_KINDS = 27
"""A launch notes each kind once per site, in a table this wide."""
(
    RACE,
    OUT_OF_BOUNDS,
    UNINITIALIZED,
    DIVERGENT_BARRIER,
    MISALIGNED,
    SHARED_RACE,
    SHARED_OUT_OF_BOUNDS,
    SHARED_MISALIGNED,
    LOCAL_OUT_OF_BOUNDS,
    WARP_SYNC,
    WARP_MATRIX,
    WARP_MEMBER,
    PARAM_OUT_OF_BOUNDS,
    NO_TENSOR_MAP,
    ASYNC_EARLY,
    ASYNC_OVERWRITTEN,
    ASYNC_NO_FENCE,
    ASYNC_SWIZZLE,
    ASYNC_SUMS,
    ASYNC_PEER,
    ASYNC_REGISTERS,
    ASYNC_CONFLICT,
    BOX_MISALIGNED,
    BOX_BEFORE,
    SAME_VALUE,
    UNORDERED,
    LOCKSTEP,
) = range(HAZARD_KINDS)

MISSING_LANES, UNLIKE_OPERANDS, UNLIKE_WARPS = range(3)
"""What a WARP_MATRIX hazard says, in its state."""

# fault codes
FAULT_BUDGET, FAULT_TRAP, FAULT_PRINT, FAULT_STOPPED, FAULT_ASSERT, FAULT_STACK, FAULT_POINTER = range(1, 8)
FAULT_DEADLOCK, FAULT_TEXTURE, FAULT_STALL, FAULT_NULL_POINTER, FAULT_HOST_POINTER = range(8, 13)

# what full() and masked() return: (code << 16) | block
DONE, AT_BARRIER, DIVERGED, MASKED_BARRIER, CONVERGED, FAULTED, YIELDED, GAVE_WAY = range(8)
"""YIELDED: lanes of `masked`, each at its own place; GAVE_WAY: a whole warp, to go on in `full` at that block."""
NO_COUNTER = -1
"""In place of a counter: what is not counted."""
BARRIER_FLAG, WARP_BARRIER_FLAG, EXITED = 0x4000, 0x2000, 0x7FFF
YIELD_FLAG = BARRIER_FLAG | WARP_BARRIER_FLAG
"""A lane that has looped for long: the others of its warp, then the other warps, go on before it."""
YIELD_EVERY, VAIN_YIELD_EVERY, EXACT_YIELD_EVERY = 1 << 12, 1 << 4, 1 << 4
"""Loop iterations between two yields; once all blocks have waited in vain, which more of them do not change; and where
each access is looked into: looking costs more than a turn then. Powers of 2."""
MOST_DRAWN = 1 << 12
"""Turns of a launch that blocks draw one by one, each giving way behind it (`analysis.waiting.drawing`)."""
CLOCK_STEP = 37
"""Cycles between two readings of the clock. A prime: programs compare what has gone by with round numbers, and on a GPU
they never meet one exactly."""
NAMED_BARRIERS = 32
"""16 of a program's own; one for each warpgroup, where its warps wait for their products; one of the cluster"""
WARPGROUP_BARRIER, CLUSTER_BARRIER = 16, 31
MAX_BLOCKS = WARP_BARRIER_FLAG

# shadow state of a shared granule, and the low half of a global one's: time | kind | flags | warp | lane
LANE_BITS, WARP_SHIFT, MANY_LANES, MANY_WARPS, KIND_SHIFT, TIME_SHIFT = 5, 5, 1 << 10, 1 << 11, 12, 14
WRITE, READ, ATOMIC, READ_AFTER_WRITE = 0, 1, 2, 3
LATE_WRITE, AT_BARRIER_OBJECT = 4, 5
"""More kinds for who follows asynchronous engines: the write of a cp.async, over when its group has been waited for;
what instructions of barrier objects do."""
UNTOUCHED, IN_FLIGHT = 0xFFFFFFFF, 0xFFFFFFFE
"""Shared memory that nobody has written in this block; that an asynchronous copy is on its way to."""
STRONG_ACCESS, DATA_ACCESS, VOLATILE_ACCESS, NARROW_ACCESS, BLIND_ACCESS = 4, 8, 16, 32, 64
"""Flags of an access's kind, for the exact shadow: volatile or relaxed, which may race; a load of that kind whose value
is more than a signal; volatile shared memory; one that is strong within its block alone; an atomic
whose old value nobody sees."""
KIND_MASK_BELOW = MANY_WARPS - 1
"""Warp, lane and MANY_LANES of a state."""
FLYING_STATE = 1 << TIME_SHIFT
"""In a state that the exact shadow reports: a copy was on its way."""
NO_SITE = 0xFFFFFFFF
LAST_TIME = (1 << 18) - 2

# the high half of a global granule's state: flags | the block's index + 1
SEVERAL_BLOCKS = (1 << 30) - 1
"""In its place: of several blocks, which have all read, or all updated atomically."""
MOST_BLOCKS = SEVERAL_BLOCKS - 1
WROTE_BEFORE, PLAIN_BEFORE = 1 << 30, 1 << 31
"""What the last access, a read or an atomic, hides of its own block, or of one that it is in conflict with: a write or
an atomic; an access that was none."""
EXACT_CELL_BYTES = 96
"""of the exact race shadow, per granule: see `runtime.races`"""


class Event(IntEnum):
    """What code with the exact race shadow tells the worker's listener (`run.ordering`)."""

    BLOCK, RUN, OPEN, ARRIVE, FENCE, SIGNAL, PAUSE, MEET = range(8)


class AsyncEvent(IntEnum):
    """What code with bulk copies, wgmma or clusters tells the worker's second listener (`run.asynchronous`).

    BLOCK: it starts. OPEN: a barrier lets the warps of a mask go on (each one's barrier in `lanes`); CAME: one is
    arrived at, and not waited at (its number). FENCE: fence.proxy.async. ARRIVE: lanes arrive at barrier objects
    (host addresses in `signal_addresses`, bytes announced or come in `lanes`; words: those that end a phase).
    WAITED: lanes have found a phase over. LOAD: a bulk copy into shared memory (site, address, bytes, the object's
    address, swizzle, 1 + where in this block's shared memory it comes from or 0, whether it is a reduction). STORE: one
    out of it (site, address, bytes, whether it is a box, of which a part may lie outside of its array). COMMIT, WAIT:
    its groups (how many may be left), or with another word of 1 those of cp.async. ACCESS: lanes access shared memory
    (site, bytes, kind; offsets in `lanes`). PRODUCT: wgmma.mma_async (site, which, descriptors); FENCE_PRODUCTS:
    wgmma.fence; COMMIT_PRODUCTS, WAIT_PRODUCTS: its groups. SUMS: registers of sums are used (site, a number for the
    products that may have written them). PEER: lanes access another block's shared memory (site, bytes, kind; addresses
    in `lanes`). EXIT: the block has ended.
    """

    (
        BLOCK, OPEN, CAME, FENCE, ARRIVE, WAITED, LOAD, STORE, COMMIT, WAIT, ACCESS, PRODUCT, FENCE_PRODUCTS,
        COMMIT_PRODUCTS, WAIT_PRODUCTS, SUMS, PEER, EXIT,
    ) = range(18)  # fmt: skip


IN_BULK = 1 << 32
"""In the detail of something misaligned, beside the alignment that it needs: a bulk copy does it."""
READS, WRITES, UPDATES, RELEASES, ARRIVES, COMPLETES, ACQUIRES, WITHIN_BLOCK = (1 << bit for bit in range(8))
"""flags of a signal; ARRIVES and COMPLETES: at a barrier object, an arrival, and one that ends the phase; WITHIN_BLOCK:
its scope is the block (.cta)"""

SHARED_WINDOW, LOCAL_WINDOW = 1 << 56, 1 << 57
"""Generic addresses of shared and local memory: above every host address."""
SHARED_LIMIT = 1 << 24
"""Above every offset into shared memory, below every address of an array."""
NOT_SHARED = 0x7FFFFFF0
"""Stands for an address that is no offset into shared memory, but lies in another state space."""

# cp.async: a warp's queue of copies begins with their number; then commits per lane, and the entries
QUEUE_COMMITS, QUEUE_ENTRIES, QUEUE_ENTRY_BYTES = 64, 192, 704
QUEUE_CAPACITY = 512
"""copies of a warp; 454 of 16 bytes a lane fill the largest shared memory"""
QUEUE_BYTES = QUEUE_ENTRIES + QUEUE_CAPACITY * QUEUE_ENTRY_BYTES

# a barrier object (mbarrier): for how many arrivals a phase waits, how many are missing, how many bytes of transactions
# are (a signed number), and the number of the phase, of which programs may only know the last bit
COUNT_BITS = 20
COUNT_MASK = (1 << COUNT_BITS) - 1
BYTES_SHIFT, BYTES_BITS = 2 * COUNT_BITS, 21
PHASE_SHIFT = BYTES_SHIFT + BYTES_BITS


# operands of wgmma that are made ready once for a warpgroup: which one (a block's number and a product's), then data
WIDE_HEADER, WIDE_BYTES, LEAST_WIDE, MOST_WIDE = 64, 64 + (32 << 10), 4, 32
CLUSTER_WINDOW_SHIFT = 24
"""A 32-bit address of a cluster's shared memory: the rank + 1 above, 0 for the own block's; the offset below."""


def field(name: str) -> int:
    """Offset of a field of the worker."""
    return getattr(WorkerState, name).offset


STORAGE = {"pred": "i1", 8: "i8", 16: "i16", 32: "i32", 64: "i64", 128: "i128"}


def storage(type_name: str) -> str:
    """IR type in which a register of a PTX type is kept: raw bits."""
    return "i1" if type_name == "pred" else STORAGE[WIDTH_BITS[type_name]]


@dataclass(frozen=True)
class ContextLayout:
    """Byte offsets in a warp's context.

    Only registers that live from one block of code to another have a place: within a block LLVM keeps values where it
    likes. `masked` knows no patterns and so keeps every register as a vector, in `slots`. One that `full` keeps as a
    scalar has a second place among the `scalars`, packed so that a warp's state stays in few cache lines. Behind them
    come the slots that `full` uses too, and then those that only `masked` does. `frames` are lists of registers that
    `full` keeps as matrices, `pool` is for registers within a block, where stencils look for them (`outlined`), `local`
    is local memory: all lanes' words of an address side by side, 128 bytes.
    """

    scalars: dict[str, int]
    slots: dict[str, int]
    frames: int
    pool: int
    places: Mapping[int, dict[str, int]]
    """number of a basic block -> places in `pool`"""
    local: int
    size: int

    STATUS, WARP_INDEX, SYNC_TIME, LIVE, PREDICATE, PARTICIPANTS, PCS = 0, 4, 8, 12, 16, 20, 64
    BARRIER_ID, BARRIER_COUNT, VOTE_COUNT, VOTE_LANES, WARP_MASKS = 24, 28, 32, 36, 128
    STALE, PRODUCTS, CLUSTER_PHASE, MEETING = 40, 44, 48, 52
    """offsets of the fixed fields; LIVE: lanes that exist, PREDICATE: bar.red's votes, PARTICIPANTS: lanes at the
    barrier; the second row: of kernels with named barriers, and the lanes' masks at warp barriers; STALE: whether
    registers that `full` keeps as matrices (`frames`) were last written in their slots; PRODUCTS: how many the warp has
    begun in a warpgroup; CLUSTER_PHASE: of the cluster's barrier when the warp arrived; MEETING: lanes that wait where
    one asks the others, which orders nothing else"""


def context_layout(
    kernel: Kernel, form: Callable[[str], int], frames_bytes: int = 0, together: Sequence[str] = ()
) -> ContextLayout:
    """Places for all registers that live across blocks.

    `form` tells in how many lanes `full` keeps a register; `together` which of them lie side by side, in this order.
    """
    live = sorted({r for b in kernel.blocks for r in (b.live_in | b.live_out)})
    meets = any(isinstance(b.terminator, WarpBarrier) for b in kernel.blocks)
    offset = ContextLayout.WARP_MASKS + (4 * WARP if meets else 0)
    scalars: dict[str, int] = {}
    for name in live:
        if form(name) != WARP:
            scalars[name] = offset
            offset += 8 * max(1, form(name))
    offset = -(-offset // 64) * 64
    slots: dict[str, int] = {}
    others = sorted(set(live).difference(together), key=lambda n: (form(n) != WARP, n))
    for name in [*together, *others]:  # the vectors of `full` first, next to the scalars
        slots[name] = offset
        offset += _slot_bytes(kernel.registers[name])
    frames = -(-offset // 64) * 64
    pool = -(-(frames + frames_bytes) // 128) * 128
    inner = {b.index: _places_in(b, kernel.registers, slots, pool) for b in kernel.blocks}
    local = -(-max(end for _, end in inner.values()) // 128) * 128
    places = {index: found for index, (found, _) in inner.items()}
    size = local + WARP * kernel.local_bytes
    # an odd number of cache lines: the contexts of a block's warps spread over the sets of the host's cache
    return ContextLayout(scalars, slots, frames, pool, places, local, -(-size // 256) * 256 + 64)


@functools.cache
def _slot_bytes(type_: str) -> int:
    """Bytes of a register's place as a vector; predicates are a bit per lane."""
    return max(64, WARP * int(storage(type_)[1:]) // 8)


def _places_in(
    block: Block, types: Mapping[str, str], slots: Mapping[str, int], pool: int
) -> tuple[dict[str, int], int]:
    """Places from `pool` on for the registers of a block that have no slot, each as long as it is needed; their end."""
    named = [_registers_of(i) for i in block.executed]
    last = {name: position for position, names in enumerate(named) for name in names if name not in slots}
    free: dict[int, list[int]] = {}
    found: dict[str, int] = {}
    end = pool
    for position, names in enumerate(named):
        own = [name for name in names if name in last]
        for name in own:
            size = _slot_bytes(types[name])
            if name not in found and free.get(size):
                found[name] = free[size].pop()
            elif name not in found:
                found[name] = end
                end += size
        for name in own:
            if last[name] == position:
                free.setdefault(_slot_bytes(types[name]), []).append(found[name])
    return found, end


def _registers_of(i: Instruction) -> list[str]:
    """The registers that an instruction names, each once."""
    return list(dict.fromkeys((*i.written, *i.read)))
