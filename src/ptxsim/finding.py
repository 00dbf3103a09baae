"""A finding: undefined behaviour that a launch met, as data, and the sentence that tells it.

Whoever reports findings carries the data and asks for words at the end: `Finding.told` has their parts, so that a page
can put each thread's part at its own line, `Finding.message` is the whole sentence.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

Triple = tuple[int, int, int]

_DOES = {"write": "writes", "read": "reads", "atomic": "updates", "free": "frees"}
_DID = {
    "write": "wrote", "read": "read", "atomic": "updated atomically", "read and write": "wrote and read",
    "access": "accessed",
}  # fmt: skip
_WHICH = {"misaligned": "is not aligned to the access's size", "uninitialized": "no thread of the block has written"}
_WHY = {
    "same-value": "both store the same value",
    "unordered": "relaxed and volatile accesses order nothing without fences on both sides, so who is first decides",
    "lockstep": "volatile counts on lanes in lockstep, which no GPU since Volta promises: __syncwarp() orders them",
}
"""Kinds with two sides beside races, and what is to be said of them."""
_CROWDS = {"warps": "threads of several warps", "blocks": "threads of several blocks"}


def called_words(calls: Sequence[int]) -> str:
    """Who called the helper in which something happened: " (called in line 17)", "" without a call."""
    if not calls:
        return ""
    return f" (called in line {', from line '.join(map(str, calls))})"


@dataclass(frozen=True)
class Told:
    """The parts of a sentence: `who does`, and of two threads what the other did at `line`, and `why` that is wrong."""

    who: str
    does: str
    whom: str = ""
    did: str = ""
    line: int = 0
    why: str = ""

    @property
    def is_pair(self) -> bool:
        """Whether the other side has a place of its own."""
        return bool(self.whom)


@dataclass(frozen=True)
class Finding:
    """Something that is undefined behaviour on a GPU, with the place and the threads involved.

    `kind` is "race", "unordered" (relaxed or volatile accesses that carry data), "lockstep" (volatile shared memory
    between lanes of a warp), "same-value" (writes that nobody can tell apart: no hazard, a note), "out-of-bounds",
    "uninitialized", "divergent-barrier", "misaligned", "warp-sync" or "async-order" (bulk copies and wgmma, which work
    beside the threads); `access` is "read", "write", "atomic", "free" (of a block that `malloc` gave) or "barrier".
    `address` is the byte offset into `array` (which may lie outside it), or into shared or local memory. Of two sides
    the other thread is known, or the last of several.

    `others` says how many there are: "thread", "warp" (several threads of one, whose first is `other_warp`),
    "warps", "blocks". `other_did`: "read", "write", "atomic", "read and write", "access" (one of them), "copy"
    (asynchronous, still on its way), "returned", "waits" (at another barrier). `detail` is what the kind does not
    tell: "nowhere" for an address far from every array, "space" for one in another state space than that of the
    access, "freed" for a block of the heap that `other_line` has freed, "no-block" for an address to free that
    `malloc` did not give, "fragment" for a matrix that is not aligned and "bulk" for such a copy, "part" and "address"
    for a matrix instruction that some lanes leave out or give another address, "warpgroup" for a product with other
    descriptors than those of another warp, "member" for a lane that its own
    member mask leaves out, "lanes" for one that waits for others of its mask where it asks them; of asynchronous work
    "early" (used before the copy into it is over), "overwritten" (while it may still be read), "fence" (no
    fence.proxy.async behind a store), "swizzle", "sums" (of wgmma, used too early), "registers" (of wgmma, without
    wgmma.fence), "peer" (memory of another block of the cluster that may not be there), "conflict" (its words are used
    by others, unordered), "unwaited" (a block ends before a copy into it);
    "box" for where a tensor's box begins, `address` being its innermost byte or its negative coordinate.
    `size` is that of the array, the alignment that a fragment needs, or the width of a swizzle, in bytes; 0
    where unknown. `calls` and `other_calls`: where `line` and `other_line` stand in a helper, the lines that called it,
    the nearest first.
    """

    kind: str
    line: int
    file: str
    block: Triple
    thread: Triple
    access: str
    space: str
    array: str = ""
    address: int = 0
    other_thread: Triple | None = None
    other_block: Triple | None = None
    other_line: int = 0
    others: str = "thread"
    other_warp: Triple | None = None
    other_did: str = ""
    detail: str = ""
    size: int = 0
    calls: tuple[int, ...] = ()
    other_calls: tuple[int, ...] = ()

    @property
    def variable(self) -> str:
        """The array's name in the source; "" where it is not known."""
        name = self.array.removeprefix("shared ")
        return "" if " " in name or name == "memory" else name

    @property
    def message(self) -> str:
        """The whole sentence."""
        return f"{self._sentence}{called_words(self.calls)}"

    @property
    def _sentence(self) -> str:
        told = self.told
        at = f" in line {told.line}{called_words(self.other_calls)}" if told.line else ""
        if not told.is_pair:
            return f"{told.who} {told.does}"
        if self.kind == "divergent-barrier":
            at = f" of line {told.line}" if told.line else ""
            return f"{told.who} {told.does} {told.why}: {told.whom} {told.did}{at}"
        if self.other_did == "copy":
            copy = f"the copy of line {told.line}" if told.line else "an asynchronous copy"
            return f"{told.who} {told.does}, to which {copy} {told.did}: {told.why}"
        return f"{told.who} {told.does}, which {told.whom} {told.did}{at}: {told.why}"

    @property
    def told(self) -> Told:
        """The sentence in parts."""
        who = f"thread {self.thread} of block {self.block}"
        if self.kind == "divergent-barrier":
            did = "has already returned" if self.other_did == "returned" else "waits at the barrier"
            does, why = "waits at a barrier", "that not all threads reach"
            if self.detail == "lanes":
                does, why = "waits for the lanes of its member mask", "that do not all come"
            return Told(who, does, f"thread {self.other_thread}", did, self.other_line, why)
        if self.kind not in ("race", *_WHY):
            return Told(who, self._alone())
        does = f"{_DOES[self.access]} {self.array} at byte {self.address}"
        if self.other_did == "copy":
            why = "wait for it, then for the other threads"
            return Told(who, does, "the copy", "is on its way", self.other_line, why)
        crosses = self.others == "blocks" or self.other_block not in (None, self.block)
        why = "no barrier orders blocks" if crosses else "without a barrier between"
        if self.access == self.other_did == "atomic":
            why = "an atomic of the scope of a block is none for another block"
        why = _WHY.get(self.kind, why)
        return Told(who, does, self._whom(), _DID[self.other_did], self.other_line, why)

    def _alone(self) -> str:
        """What a thread does wrong by itself."""
        if self.detail == "box" and self.kind == "out-of-bounds":
            return (
                f"stores a box with the coordinate {self.address}: boxes that begin before the array can be loaded; at "
                "a store or a reduction a GPU stops with an illegal instruction"
            )
        if self.detail == "freed":
            already = " already" if self.access == "free" else ""
            where = "" if self.access == "free" else f" at byte {self.address}"
            return f"{_DOES[self.access]} {self.array}{where}, which line {self.other_line} has freed{already}"
        if self.detail == "no-block":
            return f"frees an address that malloc did not give: byte {self.address} of {self.array}"
        if self.kind == "out-of-bounds":
            return f"{_DOES[self.access]} outside {self._where()}"
        if self.kind == "warp-sync":
            return {
                "address": "gives this matrix instruction another address or stride than lane 0 of its warp",
                "member": "executes an instruction whose member mask does not name it",
                "warpgroup": (
                    "gives this product another descriptor than another warp of its warpgroup, or comes to another "
                    "product"
                ),
                "part": "executes a matrix instruction without all 32 lanes of its warp",
            }.get(self.detail, "takes a value from a lane that does not take part in this instruction")
        if self.kind == "async-order":
            return self._out_of_order()
        if self.detail == "box" and self.kind == "misaligned":
            return (
                f"copies a box that begins at byte {self.address} of its rows: the innermost coordinate times the "
                "size of an element must be a multiple of 16 bytes, or a GPU stops with an illegal instruction"
            )
        if self.detail == "bulk":
            what = f"{_DOES[self.access]} {self.array} at byte {self.address} by a bulk copy"
            return f"{what}, whose addresses must be multiples of {self.size} bytes"
        if self.detail == "fragment":
            return (
                f"{_DOES[self.access]} a fragment of {self.array} at byte {self.address}: the start and the stride of "
                f"a fragment must be multiples of {self.size} bytes"
            )
        if self.kind not in _WHICH:
            raise ValueError(f"no sentence is known for the hazard '{self.kind}': Finding.told needs one")
        return f"{_DOES[self.access]} {self.array} at byte {self.address}, which {_WHICH[self.kind]}"

    def _out_of_order(self) -> str:
        """What a thread, or an engine at its bidding, does before other asynchronous work is over, or unseen by it."""
        if self.detail == "sums":
            return "uses sums of wgmma before wgmma.wait_group has waited for their products"
        if self.detail == "registers":
            return (
                "begins a product of wgmma with registers, of sums or of A, that threads may have written since the "
                "product before: without wgmma.fence between"
            )
        place = f"{_DOES[self.access]} {self.array} at byte {self.address}"
        if self.detail == "peer":
            when = "may have ended by then" if self.other_did == "returned" else "may not have begun yet"
            return f"{place} of another block of its cluster, which {when}: wait for it at the cluster's barrier"
        if self.detail == "conflict":
            did = {"read": "reads", "write": "writes", "atomic": "updates"}[self.other_did]
            return (
                f"{place}, which line {self.other_line} {did} from another block of the cluster: nothing orders the "
                "two, wait at the cluster's barrier between"
            )
        by = f" of line {self.other_line}" if self.other_line else ""
        swizzle = f"a swizzle of {self.size} bytes" if self.size else "no swizzle"
        return {
            "early": f"{place} before the bulk copy{by} into it is over: wait for the phase of its barrier object",
            "unwaited": (
                f"copies into {self.array} at byte {self.address}, and that block ends before anybody has waited for "
                "it: wait for the phase of its barrier object"
            ),
            "overwritten": f"{place}, which may still be read by line {self.other_line}: wait until that is over",
            "fence": (
                f"lets an asynchronous engine read {self.array} at byte {self.address}, which was stored in line "
                f"{self.other_line}: without fence.proxy.async and a barrier between"
            ),
            "swizzle": (
                f"lets wgmma read a tile at byte {self.address} with {swizzle}, which the bulk copy{by} stored in "
                "another layout"
            ),
        }.get(self.detail, f"{place} out of order with asynchronous work")

    def _where(self) -> str:
        if self.detail == "tensor-map":
            return "any tensor map: what lies at this address is none"
        if self.detail == "space":
            return f"{self.array}, at an address of another state space"
        if self.detail == "nowhere":
            return "every array, at an address that belongs to nothing"
        if not self.size:
            return f"{self.array}: byte {self.address}"
        if self.address < 0:
            return f"{self.array}: {-self.address} bytes before its start"
        if self.address < self.size:
            return f"{self.array}: from byte {self.address} of its {self.size} on"
        return f"{self.array}: {self.address - self.size} bytes behind its {self.size} bytes"

    def _whom(self) -> str:
        if self.others in _CROWDS:
            whom = _CROWDS[self.others]
        elif self.others == "warp":
            whom = f"several threads of the warp of thread {self.other_warp}"
        else:
            whom = f"thread {self.other_thread}"
        return f"{whom} of block {self.other_block}" if self.other_block not in (None, self.block) else whom

    def to_dict(self) -> dict[str, Any]:
        """Plain data, the sentence included."""
        return {**asdict(self), "message": self.message}

    @staticmethod
    def from_dict(data: Mapping[str, Any]) -> Finding:
        """Read what `to_dict` wrote, through JSON too. Raises TypeError for anything else."""
        plain: dict[str, Any] = {key: tuple(value) if isinstance(value, list) else value for key, value in data.items()}
        plain.pop("message", None)
        return Finding(**plain)
