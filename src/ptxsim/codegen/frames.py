"""Fragments that stay in memory as matrices: what makes products fast.

Registers that only ever appear together, as one operand of matrix instructions, need not be spread over lanes. `full`
keeps such a list as a matrix in the warp's context, where products, loads and stores of fragments work on it in place,
also across barriers. A register of it that another instruction reads is taken out, one that another instruction writes
is put in, before the next use of the matrix. `masked` keeps all registers in their slots: at the seam between the two
functions the matrices are spread and gathered.

An input that comes from memory and goes into products of the same basic block, and nowhere else, is kept as products
take it: widened to f32 when it is loaded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from ptxsim.codegen import layout as L
from ptxsim.codegen.emit import WARP, Value, constant
from ptxsim.codegen.tensor_forms import Form, accumulator_form, input_form, memory_form, pack, unpack
from ptxsim.codegen.tensor_products import widens_in_order
from ptxsim.fragments import Fragment, fragment
from ptxsim.syntax.matrices import product, tile
from ptxsim.syntax.program import Instruction, Kernel, Operand, Register, Vector

if TYPE_CHECKING:
    from ptxsim.codegen.full import Full

_CONTEXT = Value("ptr", "%c")


@dataclass(frozen=True)
class Frame:
    """Registers that form a matrix at `offset` of the context's frames, or, widened, of the function's own."""

    registers: tuple[str, ...]
    form: Form
    offset: int
    wide: bool = False


def same_form(form: Form) -> Form:
    """A form by which the accumulators C and D of the same kind are one."""
    held: Fragment = form.held
    if held.operand != "d" or held.layout or (held.instruction, held.shape, held.rows) == ("mma", "m8n8k4", 32):
        return form
    return replace(form, held=fragment(held.instruction, held.shape, held.type, "c"))


def operand_forms(i: Instruction) -> Iterator[tuple[Operand, Form]]:
    """The fragments that an instruction names, as it takes them."""
    if i.opcode == "mma" or (i.opcode == "wmma" and i.has("mma")):
        p = product(i)
        for operand, name in zip(i.operands, "dabc", strict=True):
            yield operand, same_form(accumulator_form(p, name) if name in "cd" else input_form(p, name))
    elif i.opcode == "wmma":
        yield i.operands[0 if i.has("load") else 1], same_form(memory_form(tile(i).fragment))


def register_list(operand: Operand) -> tuple[str, ...] | None:
    """Names of a list of different registers."""
    if not isinstance(operand, Vector) or not all(isinstance(e, Register) for e in operand.elements):
        return None
    names = tuple(e.name for e in operand.elements if isinstance(e, Register))
    return names if len(set(names)) == len(names) else None


def find_frames(kernel: Kernel, varies: Callable[[str], bool]) -> tuple[Frame, ...]:
    """The lists of registers that `full` keeps as matrices; of two that overlap, the first."""
    found: dict[tuple[str, ...], Form] = {}
    taken: set[str] = set()
    for block in kernel.blocks:
        for i in block.instructions:
            for operand, form in operand_forms(i):
                names = register_list(operand)
                if names is None or names in found or not taken.isdisjoint(names) or not all(map(varies, names)):
                    continue
                found[names] = form
                taken.update(names)
    passing = _passing(kernel, found) if found else set()
    frames: list[Frame] = []
    ends = {True: 0, False: 0}
    for names, form in found.items():
        frame = Frame(names, form, ends[names in passing], names in passing)
        frames.append(frame)
        ends[frame.wide] += room(frame)
    return tuple(frames)


def _passing(kernel: Kernel, found: dict[tuple[str, ...], Form]) -> set[tuple[str, ...]]:
    """The inputs that are loaded and multiplied within a block and used in no other way."""
    lists = {names for names, form in found.items() if form.held.operand in ("a", "b") and widens_in_order(form)}
    of = {name: names for names in lists for name in names}
    for block in kernel.blocks:
        lists -= {of[name] for name in block.live_in & of.keys()}
        for i in block.instructions:
            used = {of[name] for name in (*i.read, *i.written) if name in of}
            if used:
                lists -= used - _passes(i, found)
    return lists


def _passes(i: Instruction, found: dict[tuple[str, ...], Form]) -> set[tuple[str, ...]]:
    """The lists that an instruction loads or multiplies, always in the form in which they are kept."""
    if i.opcode == "wmma" and i.has("store"):
        return set()
    named = [(register_list(operand), form) for operand, form in operand_forms(i)]
    loaded = frozenset(i.read) if i.has("load") else frozenset()
    return {
        names for names, _ in named
        if names is not None
        and all(found.get(names) == form for others, form in named if others == names)
        and loaded.isdisjoint(names)
    }  # fmt: skip


def room(frame: Frame) -> int:
    """Bytes that a frame takes."""
    return -(-(frame.form.elements * 4 if frame.wide else frame.form.nbytes) // 64) * 64


def frames_bytes(frames: Iterable[Frame], *, wide: bool = False) -> int:
    """Room for those that are wide, or for the others."""
    return max((f.offset + room(f) for f in frames if f.wide == wide), default=0)


@dataclass
class ResidentFrames:
    """The frames of one function of `full`, while its code is written."""

    t: Full
    frames: tuple[Frame, ...]
    dirty: set[str] = field(default_factory=set)
    """registers whose value in this block is not in their matrix yet"""

    def __post_init__(self) -> None:
        self.of = {name: f for f in self.frames for name in f.registers}
        self.lists = {f.registers: f for f in self.frames}

    def find(self, operand: Operand, form: Form) -> Frame | None:
        """The frame that holds an operand in this form."""
        names = register_list(operand)
        frame = self.lists.get(names) if names is not None else None
        return frame if frame is not None and frame.form == same_form(form) else None

    def leaves(self, name: str) -> bool:
        """Whether a register's matrix is spread when the warp leaves for `masked`."""
        return name in self.of and not self.of[name].wide

    def at(self, frame: Frame) -> Value:
        if frame.wide:
            return self.t.b.offset(self.t.area("wide frames", frames_bytes(self.frames, wide=True)), frame.offset)
        return self.t.b.offset(_CONTEXT, self.t.unit.context.frames + frame.offset)

    def current(self, frame: Frame) -> Value:
        """The matrix with all that was written to its registers."""
        self.flush(frame)
        return self.at(frame)

    def written(self, frame: Frame) -> None:
        """The matrix has been written: what was known of its registers is old."""
        for name in frame.registers:
            self.t.known.pop((name, WARP), None)
            self.dirty.discard(name)
            self.t.versions[name] = self.t.versions.get(name, 0) + 1

    def read(self, frame: Frame) -> None:
        """Takes all registers out of the matrix, except those that are known already."""
        from ptxsim.codegen.tensor import call

        t, form = self.t, frame.form
        lanes = t.area("lanes", form.lane_bytes)
        call(t, unpack(form), self.at(frame), lanes)
        for k, name in enumerate(frame.registers):
            if (name, WARP) not in t.known:
                t.known[name, WARP] = self._lane_value(lanes, k, form)

    def _lane_value(self, lanes: Value, k: int, form: Form) -> Value:
        bits = form.held.register_bits
        return self.t.b.load(f"i{bits}", self.t.b.offset(lanes, k * WARP * bits // 8), WARP, align=64)

    def flush(self, frame: Frame) -> None:
        """Puts registers that were written one by one into the matrix."""
        if self.dirty.isdisjoint(frame.registers):
            return
        t = self.t
        if not all((name, WARP) in t.known for name in frame.registers):
            self.read(frame)
        values = [t.known[name, WARP] for name in frame.registers]
        self.dirty.difference_update(frame.registers)
        if len({v.text for v in values}) == 1 and values[0].text.startswith("splat") and values[0].type == "i32":
            for start in range(0, frame.form.nbytes, 64):
                t.b.store(Value("i32", values[0].text, 16), t.b.offset(self.at(frame), start), align=64)
            return
        self._gather(frame, values)

    def _gather(self, frame: Frame, values: list[Value]) -> None:
        from ptxsim.codegen.tensor import call

        t, form = self.t, frame.form
        lanes = t.area("lanes", form.lane_bytes)
        for k, value in enumerate(values):
            t.b.store(value, t.b.offset(lanes, k * WARP * form.held.register_bits // 8), align=64)
        call(t, pack(form), lanes, self.at(frame))

    def flush_live(self, live: frozenset[str]) -> None:
        for frame in self.frames:
            if not live.isdisjoint(self.dirty.intersection(frame.registers)):
                self.flush(frame)

    # -- the seam to `masked` -------------------------------------------------------------------------------------
    def enter(self, live: frozenset[str]) -> None:
        """At the function's entry: if the warp comes from `masked`, gathers the matrices from the registers' slots."""
        t, b = self.t, self.t.b
        if not self.frames:
            return
        at = b.offset(_CONTEXT, L.ContextLayout.STALE)
        frames = [f for f in self.frames if not live.isdisjoint(f.registers)]
        if frames:
            with b.if_(b.icmp("ne", b.load("i32", at), constant("i32", 0)), likely=False):
                for frame in frames:
                    kind = f"i{frame.form.held.register_bits}"
                    zero = constant(kind, 0, WARP)
                    slots = t.unit.context.slots
                    self._gather(frame, [t.restore(n, WARP) if n in slots else zero for n in frame.registers])
        b.store(constant("i32", 0), at)
