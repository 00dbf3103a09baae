"""Python functions of a small language to machine code, through LLVM.

    @native
    def total(values: f64, n: int) -> float:
        found = 0.0
        for i in range(n):
            found += values[i]
        return found

    total(numpy_array, 8)

The language: 64-bit integers and doubles; arrays as parameters (`u8`, `u16`, `i32`, `u32`, `i64`, `f64`), which must
not overlap; assignments, `if`, `while`, `for … in range(…)`, `break`, `continue`, `return`; arithmetic, comparisons,
`and`, `or`, `not`; calls of other native functions and of the functions of `INTRINSICS`; numbers that the module holds
by name. A variable has the type of its first value. Integers wrap; `//` and `%` round towards zero, as in C, and are
meant for numbers that are not negative. No index is checked.

A module's functions are compiled when the first of them is called, and kept in the compile cache.
"""

from __future__ import annotations

import ast
import base64
import ctypes
import functools
import inspect
import struct
import textwrap
import threading
from collections.abc import Callable
from math import cos as cos, log2 as log2, sin as sin, sqrt as sqrt
from typing import Any, TypeAlias

import numpy as np

from ptxsim import cache

_ELEMENTS = {"u8": 8, "u16": 16, "i32": 32, "u32": 32, "i64": 64, "f64": 64}
_DTYPES = {"u8": np.uint8, "u16": np.uint16, "i32": np.int32, "u32": np.uint32, "i64": np.int64, "f64": np.float64}
u8: TypeAlias = Any
u16: TypeAlias = Any
i32: TypeAlias = Any
u32: TypeAlias = Any
i64: TypeAlias = Any
f64: TypeAlias = Any


def lshr(x: int, n: int) -> int:
    """`x`, as 64 bits, moved down by `n` with zeros behind it."""
    return (x & (1 << 64) - 1) >> n


def popc(x: int) -> int:
    """Bits of 64 that are set."""
    return (x & (1 << 64) - 1).bit_count()


def clz(x: int) -> int:
    """Zeros above the highest set bit of 64."""
    return 64 - (x & (1 << 64) - 1).bit_length()


def ctz(x: int) -> int:
    """Zeros below the lowest set bit; 64 for none."""
    return (x & -x).bit_length() - 1 if x else 64


def f32(x: int) -> float:
    """The number with this binary32 pattern."""
    return float(struct.unpack("<f", struct.pack("<I", x & 0xFFFFFFFF))[0])


def bits(x: float) -> int:
    """The binary32 pattern of a number, rounded."""
    return int(np.float32(x).view(np.uint32))


def exp2(x: float) -> float:
    """2 to the power of `x`."""
    return float(np.exp2(x))


def rint(x: float) -> float:
    """The nearest integer, ties to even."""
    return float(np.rint(x))


def floor(x: float) -> float:
    """The integer below."""
    return float(np.floor(x))


def fma(x: float, y: float, z: float) -> float:
    """`x * y + z`, rounded once as machine code, twice here."""
    return x * y + z


INTRINSICS = frozenset(
    "int float min max lshr popc clz ctz f32 bits fma sqrt exp2 log2 sin cos floor rint".split()  # noqa: SIM905
)
"""What every native function may call: what stands above, and what Python and `math` have under these names."""


class NativeError(Exception):
    """A function that the small language has no words for. Our own mistake, never a user's."""


class Native:
    """A function of the small language; a call takes numbers, and NumPy arrays of the declared types."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function
        self.name = function.__name__
        functools.update_wrapper(self, function)

    @functools.cached_property
    def tree(self) -> ast.FunctionDef:
        """Its source, read when somebody first calls: to import a module of many takes no time."""
        tree = ast.parse(textwrap.dedent(inspect.getsource(self.function)))
        (found,) = (node for node in tree.body if isinstance(node, ast.FunctionDef))
        return found

    @functools.cached_property
    def params(self) -> list[tuple[str, str]]:
        return [(arg.arg, _annotated(arg.annotation)) for arg in self.tree.args.args]

    @functools.cached_property
    def result(self) -> str:
        return _annotated(self.tree.returns)

    @functools.cached_property
    def _address(self) -> int:
        return _address_of(self)

    @functools.cached_property
    def _call(self) -> Any:
        kinds: dict[str, Any] = {"int": ctypes.c_int64, "float": ctypes.c_double, "": None}
        types: list[Any] = [ctypes.c_void_p if kind.endswith("*") else kinds[kind] for _, kind in self.params]
        return ctypes.CFUNCTYPE(kinds[self.result], *types)(self._address)

    def __call__(self, *arguments: Any) -> Any:
        passed = [_passed(value, *param) for value, param in zip(arguments, self.params, strict=True)]
        return self._call(*passed)


def native(function: Callable[..., Any]) -> Native:
    """Make a function of the small language one of machine code."""
    return Native(function)


def _annotated(node: ast.expr | None) -> str:
    if isinstance(node, ast.Constant):
        return str(node.value or "")
    name = node.id if isinstance(node, ast.Name) else ""
    return f"{name}*" if name in _ELEMENTS else name


def _passed(value: Any, name: str, kind: str) -> Any:
    if not kind.endswith("*"):
        return value
    wanted = _DTYPES[kind[:-1]]
    if value.dtype != wanted or not value.flags.c_contiguous:
        raise TypeError(f"{name}: a contiguous array of {wanted.__name__} is needed, not {value.dtype}")
    return value.ctypes.data


# ---------------------------------------------------------------- to LLVM


class _Body:
    """Translates one function's statements; `b` is llvmlite's builder."""

    def __init__(self, native: Native, functions: dict[str, Any], ir: Any) -> None:
        self.native, self.functions, self.ir = native, functions, ir
        self.i64, self.f64, self.i1 = ir.IntType(64), ir.DoubleType(), ir.IntType(1)
        self.fn = functions[native.name]
        self.arrays = {
            name: (kind[:-1], arg)
            for (name, kind), arg in zip(native.params, self.fn.args, strict=True)
            if kind.endswith("*")
        }
        entry = self.fn.append_basic_block("entry")
        self.entry = ir.IRBuilder(entry)
        self.b = ir.IRBuilder(self.fn.append_basic_block("body"))
        self.vars: dict[str, Any] = {}
        self.loops: list[tuple[Any, Any]] = []
        for (name, kind), arg in zip(native.params, self.fn.args, strict=True):
            if not kind.endswith("*"):
                self._store(name, arg)
        self._block(native.tree.body)
        if not self.b.block.is_terminated:
            self._leave(None)
        self.entry.branch(self.fn.blocks[1])

    def _fail(self, node: ast.AST, what: str) -> NativeError:
        return NativeError(f"{self.native.name}, line {getattr(node, 'lineno', 0)}: {what}: {ast.dump(node)[:90]}")

    def _is_float(self, value: Any) -> bool:
        return bool(value.type == self.f64)

    def _as_float(self, value: Any) -> Any:
        return value if self._is_float(value) else self.b.sitofp(value, self.f64)

    def _truth(self, node: ast.expr) -> Any:
        """An expression as one bit."""
        if isinstance(node, ast.Compare):
            return self._compare(node)
        if isinstance(node, ast.BoolOp):
            return self._both(node)
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            return self.b.not_(self._truth(node.operand))
        value = self._value(node)
        return self.b.icmp_signed("!=", value, self.ir.Constant(self.i64, 0))

    def _compare(self, node: ast.Compare) -> Any:
        if len(node.ops) != 1:
            raise self._fail(node, "a chain of comparisons")
        signs = {ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Eq: "==", ast.NotEq: "!="}
        sign = signs[type(node.ops[0])]
        a, b = self._alike(self._value(node.left), self._value(node.comparators[0]))
        if not self._is_float(a):
            return self.b.icmp_signed(sign, a, b)
        return self.b.fcmp_unordered(sign, a, b) if sign == "!=" else self.b.fcmp_ordered(sign, a, b)

    def _alike(self, a: Any, b: Any) -> tuple[Any, Any]:
        if self._is_float(a) or self._is_float(b):
            return self._as_float(a), self._as_float(b)
        return a, b

    def _both(self, node: ast.BoolOp) -> Any:
        """`and` and `or`, which look at the second only where they must."""
        place = self.entry.alloca(self.i1)
        done = self.fn.append_basic_block()
        for at, part in enumerate(node.values):
            value = self._truth(part)
            self.b.store(value, place)
            if at == len(node.values) - 1:
                break
            more = self.fn.append_basic_block()
            goes_on = (more, done) if isinstance(node.op, ast.And) else (done, more)
            self.b.cbranch(value, *goes_on)
            self.b.position_at_end(more)
        self.b.branch(done)
        self.b.position_at_end(done)
        return self.b.load(place)

    def _value(self, node: ast.expr) -> Any:
        match node:
            case ast.Constant(value=bool() | int() as number):
                return self.ir.Constant(self.i64, int(number))
            case ast.Constant(value=float() as number):
                return self.ir.Constant(self.f64, number)
            case ast.Name(id=name):
                return self._name(node, name)
            case ast.Subscript():
                return self._load(node)
            case ast.Compare() | ast.BoolOp() | ast.UnaryOp(op=ast.Not()):
                return self.b.zext(self._truth(node), self.i64)
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                value = self._value(operand)
                return self.b.fneg(value) if self._is_float(value) else self.b.neg(value)
            case ast.UnaryOp(op=ast.Invert(), operand=operand):
                return self.b.not_(self._value(operand))
            case ast.BinOp():
                return self._binary(node.op, self._value(node.left), self._value(node.right))
            case ast.IfExp():
                a, b = self._alike(self._value(node.body), self._value(node.orelse))
                return self.b.select(self._truth(node.test), a, b)
            case ast.Call():
                return self._called(node)
        raise self._fail(node, "no expression of the language")

    def _name(self, node: ast.AST, name: str) -> Any:
        if name in self.vars:
            return self.b.load(self.vars[name])
        found = self.native.function.__globals__.get(name)
        if isinstance(found, (int, float)):
            kind = self.f64 if isinstance(found, float) else self.i64
            return self.ir.Constant(kind, found if isinstance(found, float) else int(found))
        raise self._fail(node, "a name without a value")

    def _binary(self, op: ast.operator, a: Any, b: Any) -> Any:
        if isinstance(op, ast.Div) or self._is_float(a) or self._is_float(b):
            a, b = self._as_float(a), self._as_float(b)
            names = {ast.Add: "fadd", ast.Sub: "fsub", ast.Mult: "fmul", ast.Div: "fdiv"}
        else:
            names = {
                ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.FloorDiv: "sdiv", ast.Mod: "srem",
                ast.BitAnd: "and_", ast.BitOr: "or_", ast.BitXor: "xor", ast.LShift: "shl", ast.RShift: "ashr",
            }  # fmt: skip
        return getattr(self.b, names[type(op)])(a, b)

    def _place(self, node: ast.Subscript) -> tuple[str, Any]:
        assert isinstance(node.value, ast.Name)
        if node.value.id not in self.arrays:
            raise self._fail(node, "no array")
        kind, base = self.arrays[node.value.id]
        return kind, self.b.gep(base, [self._value(node.slice)], source_etype=self._element(kind))

    def _element(self, kind: str) -> Any:
        return self.f64 if kind == "f64" else self.ir.IntType(_ELEMENTS[kind])

    def _load(self, node: ast.Subscript) -> Any:
        kind, place = self._place(node)
        value = self.b.load(place, typ=self._element(kind))
        if _ELEMENTS[kind] == 64:
            return value
        return self.b.sext(value, self.i64) if kind == "i32" else self.b.zext(value, self.i64)

    def _store(self, name: str, value: Any) -> None:
        if name not in self.vars:
            self.vars[name] = self.entry.alloca(value.type)
        place = self.vars[name]
        if place.allocated_type == self.f64:
            value = self._as_float(value)
        elif self._is_float(value):
            raise NativeError(f"{self.native.name}: '{name}' holds integers; write int(…)")
        self.b.store(value, place)

    def _called(self, node: ast.Call) -> Any:
        assert isinstance(node.func, ast.Name)
        name = node.func.id
        if name in INTRINSICS:
            return self._intrinsic(name, [self._value(arg) for arg in node.args])
        other = self.native.function.__globals__.get(name)
        if not isinstance(other, Native):
            raise self._fail(node, "a call of something that is not native")
        passed = []
        for arg, (_, kind) in zip(node.args, other.params, strict=True):
            if kind.endswith("*"):
                assert isinstance(arg, ast.Name)
                passed.append(self.arrays[arg.id][1])
            else:
                passed.append(self._as_float(self._value(arg)) if kind == "float" else self._value(arg))
        return self.b.call(self.functions[name], passed)

    def _intrinsic(self, name: str, args: list[Any]) -> Any:
        b, ir = self.b, self.ir
        i32, f32 = ir.IntType(32), ir.FloatType()
        match name:
            case "int":
                return b.fptosi(args[0], self.i64) if self._is_float(args[0]) else args[0]
            case "float":
                return self._as_float(args[0])
            case "min" | "max":
                x, y = self._alike(*args)
                sign = "<" if name == "min" else ">"
                first = b.fcmp_ordered(sign, x, y) if self._is_float(x) else b.icmp_signed(sign, x, y)
                return b.select(first, x, y)
            case "lshr":
                return b.lshr(*args)
            case "popc":
                return b.ctpop(args[0])
            case "clz" | "ctz":
                return getattr(b, "ctlz" if name == "clz" else "cttz")(args[0], ir.Constant(self.i1, 0))
            case "f32":
                return b.fpext(b.bitcast(b.trunc(args[0], i32), f32), self.f64)
            case "bits":
                return b.zext(b.bitcast(b.fptrunc(self._as_float(args[0]), f32), i32), self.i64)
        floats = [self._as_float(arg) for arg in args]
        kind = ir.FunctionType(self.f64, [self.f64] * len(floats))
        declared = b.module.declare_intrinsic(f"llvm.{name}", [self.f64], kind)
        return b.call(declared, floats)

    # statements

    def _block(self, statements: list[ast.stmt]) -> None:
        for statement in statements:
            if self.b.block.is_terminated:
                return
            self._statement(statement)

    def _statement(self, node: ast.stmt) -> None:
        match node:
            case ast.Assign(targets=[ast.Tuple()]) | ast.Assign(targets=[_, _, *_]):
                raise self._fail(node, "several targets")
            case ast.Assign(targets=[target], value=value):
                self._assign(target, self._value(value))
            case ast.AugAssign(target=target, op=op, value=value):
                read = self._load(target) if isinstance(target, ast.Subscript) else self._name(node, _named(target))
                self._assign(target, self._binary(op, read, self._value(value)))
            case ast.If():
                self._if(node)
            case ast.While():
                self._while(node)
            case ast.For():
                self._for(node)
            case ast.Break():
                self.b.branch(self.loops[-1][1])
            case ast.Continue():
                self.b.branch(self.loops[-1][0])
            case ast.Return(value=value):
                self._leave(self._value(value) if value is not None else None)
            case ast.Expr(value=ast.Constant()) | ast.Pass():
                pass
            case ast.Expr(value=ast.Call() as call):
                self._called(call)
            case _:
                raise self._fail(node, "no statement of the language")

    def _assign(self, target: ast.expr, value: Any) -> None:
        if isinstance(target, ast.Name):
            self._store(target.id, value)
            return
        assert isinstance(target, ast.Subscript)
        kind, place = self._place(target)
        element = self._element(kind)
        if kind == "f64":
            value = self._as_float(value)
        elif _ELEMENTS[kind] < 64:
            value = self.b.trunc(value, element)
        self.b.store(value, place)

    def _leave(self, value: Any) -> None:
        if self.native.result == "":
            self.b.ret_void()
            return
        wanted = self.f64 if self.native.result == "float" else self.i64
        value = self.ir.Constant(wanted, 0) if value is None else value
        self.b.ret(self._as_float(value) if wanted == self.f64 else value)

    def _if(self, node: ast.If) -> None:
        then, other = self.fn.append_basic_block(), self.fn.append_basic_block()
        done = self.fn.append_basic_block() if node.orelse else other
        self.b.cbranch(self._truth(node.test), then, other)
        for block, body in ((then, node.body), (other, node.orelse)):
            if block is done:
                continue
            self.b.position_at_end(block)
            self._block(body)
            if not self.b.block.is_terminated:
                self.b.branch(done)
        self.b.position_at_end(done)

    def _while(self, node: ast.While) -> None:
        test, body, done = (self.fn.append_basic_block() for _ in range(3))
        self.b.branch(test)
        self.b.position_at_end(test)
        self.b.cbranch(self._truth(node.test), body, done)
        self._loop(node.body, body, test, done)
        self.b.position_at_end(done)

    def _loop(self, statements: list[ast.stmt], body: Any, again: Any, done: Any) -> None:
        self.b.position_at_end(body)
        self.loops.append((again, done))
        self._block(statements)
        self.loops.pop()
        if not self.b.block.is_terminated:
            self.b.branch(again)

    def _for(self, node: ast.For) -> None:
        assert isinstance(node.iter, ast.Call) and isinstance(node.target, ast.Name)
        bounds = [self._value(arg) for arg in node.iter.args]
        zero, one = self.ir.Constant(self.i64, 0), self.ir.Constant(self.i64, 1)
        first, last, step = ([zero, *bounds] if len(bounds) == 1 else bounds) + [one] * (3 - max(2, len(bounds)))
        test, body, again, done = (self.fn.append_basic_block() for _ in range(4))
        at = self.entry.alloca(self.i64)
        self.b.store(first, at)
        self.b.branch(test)
        self.b.position_at_end(test)
        self.b.cbranch(self.b.icmp_signed("<", self.b.load(at), last), body, done)
        self.b.position_at_end(body)
        self._store(node.target.id, self.b.load(at))
        self._loop(node.body, self.b.block, again, done)
        self.b.position_at_end(again)
        self.b.store(self.b.add(self.b.load(at), step), at)
        self.b.branch(test)
        self.b.position_at_end(done)


def _named(node: ast.expr) -> str:
    assert isinstance(node, ast.Name)
    return node.id


def _reached(first: Native) -> dict[str, Native]:
    """The function and all that it calls, in the same order in every process: the compile cache goes by the text."""
    found, todo = {}, [first]
    while todo:
        one = todo.pop()
        if one.name in found:
            continue
        found[one.name] = one
        names = [
            node.func.id
            for node in ast.walk(one.tree)
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
        ]
        todo += [f for name in dict.fromkeys(names) if isinstance(f := one.function.__globals__.get(name), Native)]
    return found


def _ir_of(first: Native) -> str:
    from llvmlite import ir

    module = ir.Module(name=first.name)
    i64, f64 = ir.IntType(64), ir.DoubleType()
    kinds = {"int": i64, "float": f64, "": ir.VoidType()}
    functions: dict[str, Any] = {}
    reached = _reached(first)
    for name, one in reached.items():
        params = [ir.PointerType() if kind.endswith("*") else kinds[kind] for _, kind in one.params]
        fn = ir.Function(module, ir.FunctionType(kinds[one.result], params), name=name)
        for arg, (_, kind) in zip(fn.args, one.params, strict=True):
            if kind.endswith("*"):
                arg.add_attribute("noalias")
        if one is not first:
            fn.linkage = "internal"
        functions[name] = fn
    for one in reached.values():
        _Body(one, functions, ir)
    return str(module)


# ---------------------------------------------------------------- to machine code

_lock = threading.Lock()
_engines: list[Any] = []


def _address_of(first: Native) -> int:
    import llvmlite.binding as llvm

    with _lock:
        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        cpu, features = llvm.get_host_cpu_name(), llvm.get_host_cpu_features().flatten()
        machine = llvm.Target.from_default_triple().create_target_machine(cpu=cpu, features=features, opt=2, jit=True)
        text = _ir_of(first)
        version = ".".join(map(str, llvm.llvm_version_info))
        key = cache.content_key(text, cpu, features, version)
        entry = cache.load("clock", key)
        if entry is None:
            code = _optimised(text, machine)
            cache.store("clock", key, {"object": base64.b64encode(code).decode()})
        else:
            code = base64.b64decode(entry["object"])
        engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), machine)
        engine.add_object_file(llvm.ObjectFileRef.from_data(code))
        engine.finalize_object()
        _engines.append(engine)  # the code lives as long as its engine
        return int(engine.get_function_address(first.name))


def _optimised(text: str, machine: Any) -> bytes:
    import llvmlite.binding as llvm

    module = llvm.parse_assembly(text)
    module.verify()
    options = llvm.create_pipeline_tuning_options(speed_level=2)
    options.loop_vectorization = True
    builder = llvm.create_pass_builder(machine, options)
    builder.getModulePassManager().run(module, builder)
    return bytes(machine.emit_object(module))
