"""Bulk copies, read: what `cp.async.bulk`, `cp.reduce.async.bulk` and their tensor forms move (PTX ISA 9.7.9.25.5).

Everything behind the parser that deals with them reads an instruction through this module.
"""

from __future__ import annotations

from dataclasses import dataclass

from ptxsim.syntax.program import Address, Instruction, Operand, Register, Sink, Vector

OPERATIONS = ("add", "min", "max", "inc", "dec", "and", "or", "xor")
_DIMENSIONS = {f"{n}d": n for n in range(1, 6)}


class NoSuchCopy(Exception):
    """No GPU has this bulk copy; the message says what is wrong."""


@dataclass(frozen=True)
class BulkCopy:
    """A copy in bulk. Operands that an instruction has not are None."""

    to: str
    """where it goes: "shared" (of some block of the cluster), "global", or "" for a prefetch"""
    origin: str
    """"global" or "shared" """
    rank: int = 0
    """dimensions of a tensor; 0: a run of bytes"""
    windows: bool = False
    """whether its map is one of windows (im2col)"""
    operation: str = ""
    """of a reduction"""
    type: str = ""
    """elements of a reduction of bytes"""
    target: Operand | None = None
    source: Operand | None = None
    """the addresses; that of a tensor is its map's, with coordinates"""
    size: Operand | None = None
    barrier: Operand | None = None
    """the barrier object that is told of the bytes; without one, groups are waited for"""
    offsets: tuple[Operand, ...] = ()
    """of an element in its window: W, H, D"""
    blocks: Operand | None = None
    """a bit for each block of the cluster that gets a copy"""

    @property
    def tensor(self) -> Address | None:
        """The map and the coordinates."""
        where = self.target if self.to == "global" else self.source
        return where if self.rank and isinstance(where, Address) else None


def is_bulk(i: Instruction) -> bool:
    return i.opcode == "cp" and i.has("bulk")


def is_group(i: Instruction) -> bool:
    """Whether it only closes a group of bulk copies or waits for some."""
    return i.has("commit_group") or i.has("wait_group")


def bulk_copy(i: Instruction) -> BulkCopy:
    """The copy of an instruction that `is_bulk` and no group's; raises NoSuchCopy."""
    spaces = [m.split("::")[0] for m in i.modifiers if m in ("global", "shared::cta", "shared::cluster")]
    rank = next((n for m, n in _DIMENSIONS.items() if i.has(m)), 0)
    if i.has("tensor") != bool(rank):
        raise NoSuchCopy("it has no dimensions")
    rest = list(i.operands)
    windows = i.has("im2col") or i.has("im2col_no_offs")
    if windows and rank < 3:
        raise NoSuchCopy("windows have 3 to 5 dimensions")
    if i.has("prefetch"):
        if i.has("im2col_no_offs"):
            raise NoSuchCopy("windows are prefetched as .im2col")
        source = _address(rest)
        size = None if rank else rest.pop(0) if rest else None
        offsets = _offsets(rest) if windows else ()
        return _whole(rest, BulkCopy("", "global", rank, windows, source=source, size=size, offsets=offsets), i)
    if len(spaces) != 2 or spaces == ["global", "global"]:
        raise NoSuchCopy("it goes from one state space to another")
    to, origin = spaces
    if windows and i.has("im2col_no_offs") != (to == "global"):
        raise NoSuchCopy("windows are loaded as .im2col, with offsets, and stored as .im2col_no_offs")
    target, source = _address(rest), _address(rest)
    size = None if rank else rest.pop(0) if rest else None
    has_barrier = i.has("mbarrier::complete_tx::bytes")
    if has_barrier == i.has("bulk_group") or has_barrier != (to == "shared"):
        raise NoSuchCopy("a copy to shared memory tells a barrier object, one to global memory belongs to a group")
    barrier = _address(rest) if has_barrier else None
    offsets = _offsets(rest) if windows and to == "shared" else ()
    blocks = rest.pop(0) if i.has("multicast::cluster") and rest else None
    operation = next((m for m in OPERATIONS if i.has(m)), "")
    if i.has("reduce") != bool(operation):
        raise NoSuchCopy("it names no operation")
    copy = BulkCopy(
        to, origin, rank, windows, operation, i.types[-1] if i.types else "", target, source, size, barrier, offsets,
        blocks,
    )  # fmt: skip
    if rank and (copy.tensor is None or len(copy.tensor.coordinates) != rank):
        raise NoSuchCopy(f"a box of {rank} dimensions has as many coordinates")
    return _whole(rest, copy, i)


def _address(rest: list[Operand]) -> Operand:
    if not rest or not isinstance(rest[0], Address):
        raise NoSuchCopy("an address is missing")
    return rest.pop(0)


def _offsets(rest: list[Operand]) -> tuple[Operand, ...]:
    if not rest or not isinstance(rest[0], Vector):
        raise NoSuchCopy("the offsets in the window are missing")
    found = rest.pop(0)
    assert isinstance(found, Vector)
    return found.elements


def _whole(rest: list[Operand], copy: BulkCopy, i: Instruction) -> BulkCopy:
    """Behind all operands may stand a cache policy, which changes nothing."""
    if len(rest) > i.has("L2::cache_hint") or any(not isinstance(o, Register | Sink) for o in rest):
        raise NoSuchCopy("it has too many operands")
    return copy
