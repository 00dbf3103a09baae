"""Triton's kernels: compiled without a GPU, then run, counted and checked as CUDA C++ is, on their Python lines.

    @triton.jit
    def add(x, y, out, n, BLOCK: tl.constexpr): ...

    kernel = ws.TritonKernel(add, device="sim")
    launch = kernel[(n + 1023) // 1024,](x, y, out, n, BLOCK=1024, num_warps=4)

Triton is an optional package (`pip install 'warpschool[triton]'`, Linux); nothing here imports it before it is needed.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

import numpy as np

from warpschool.device.module import Kernel, Launch, PtxModule, get_device
from warpschool.device.protocol import Device, DeviceArray
from warpschool.errors import ArgumentError, ToolMissing

Grid: TypeAlias = "int | Sequence[int] | Callable[[Mapping[str, Any]], int | Sequence[int]]"
_TYPES = {
    "bool": "i1", "int8": "i8", "int16": "i16", "int32": "i32", "int64": "i64", "uint8": "u8", "uint16": "u16",
    "uint32": "u32", "uint64": "u64", "float16": "fp16", "bfloat16": "bf16", "float32": "fp32", "float64": "fp64",
}  # fmt: skip
_ALIGNED = 16
"""Bytes, or a multiple: what Triton looks at when it decides how wide a load may be."""


@dataclass(frozen=True)
class Variant:
    """What Triton made for arguments of some types, and for some constants."""

    kernel: Kernel
    threads: int
    shared_bytes: int
    scratch_bytes: int
    """of global memory for each program"""
    passed: tuple[str, ...]
    """names of the arguments that are no constants of it"""


class TritonKernel:
    """A function of `triton.jit` as a kernel: `kernel[grid](*arguments, **constants)` launches it and tells of it.

    `grid` is a number of programs, up to three of them, or a function of the constants, as in Triton. Arguments are
    device arrays and numbers; the function's `tl.constexpr`s, `num_warps`, `num_stages` and other options of Triton's
    compiler are given by name. As there, one program is one block of `32 * num_warps` threads, and a kernel is compiled
    anew for other types, for other constants, and for addresses and numbers that 16 divides.
    `arch` is the GPU that it is compiled for. Raises ToolMissing where there is no Triton.
    """

    def __init__(self, function: Any, *, device: str | Device = "auto", arch: str = "sm_80") -> None:
        self.function = function
        self.device = get_device(device)
        self.arch = arch
        self._variants: dict[Any, Variant] = {}
        _triton()
        if not hasattr(function, "arg_names"):
            raise ArgumentError(f"{function!r} is no kernel of Triton", next_step="Write @triton.jit above it.")

    def __getitem__(self, grid: Grid) -> Callable[..., Launch]:
        return partial(self._launch, grid)

    def compile(self, *arguments: Any, **constants: Any) -> Variant:
        """What a launch with these arguments runs; nothing is launched. `.kernel.module.ptx` is its PTX."""
        return self._variant(*self._named(arguments, constants))

    def _variant(self, values: Mapping[str, Any], options: dict[str, Any]) -> Variant:
        signature, fixed, aligned = {}, {}, []
        for place, name in enumerate(self.function.arg_names):
            value = values[name]
            if place in self.function.constexprs or _is_one(value):
                signature[name], fixed[name] = "constexpr", value
                continue
            signature[name] = _type(name, value)
            number = value.address if isinstance(value, DeviceArray) else value
            if isinstance(number, (int, np.integer)) and not isinstance(value, bool) and number % _ALIGNED == 0:
                aligned.append(place)
        key = (*signature.items(), *fixed.items(), *aligned, *sorted(options.items()))
        if key not in self._variants:
            self._variants[key] = self._made(signature, fixed, aligned, options)
        return self._variants[key]

    def _named(self, arguments: Sequence[Any], constants: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        """The function's arguments by name, and the compiler's options."""
        known = {name: value for name, value in constants.items() if name in self.function.arg_names}
        options = {name: value for name, value in constants.items() if name not in known}
        try:
            bound = inspect.signature(self.function.fn).bind(*arguments, **known)
        except TypeError as error:
            raise ArgumentError(f"{self.function.__name__}: {error}") from None
        bound.apply_defaults()
        return bound.arguments, options

    def _made(
        self, signature: Mapping[str, str], fixed: Mapping[str, Any], aligned: Sequence[int], options: dict[str, Any]
    ) -> Variant:
        triton = _triton()
        from triton.backends.compiler import GPUTarget
        from triton.compiler import ASTSource

        attributes = {(place,): [["tt.divisibility", _ALIGNED]] for place in aligned}
        source = ASTSource(fn=self.function, signature=dict(signature), constexprs=dict(fixed), attrs=attributes)
        target = GPUTarget("cuda", int(self.arch.removeprefix("sm_").rstrip("a")), 32)
        made = triton.compile(source, target=target, options={"enable_fp_fusion": True, **options})
        about = made.metadata
        if about.num_ctas != 1:
            raise ArgumentError(f"num_ctas = {about.num_ctas}: programs of several blocks are not run here")
        path = inspect.getsourcefile(self.function.fn) or self.function.__name__
        module = PtxModule(
            made.asm["ptx"], name=os.path.basename(path), device=self.device, arch=self.arch,
            compiler=f"Triton {triton.__version__}",
        )  # fmt: skip
        kernel = module.get_function(about.name)
        kernel.max_dynamic_shared_size_bytes = max(kernel.max_dynamic_shared_size_bytes, about.shared)
        passed = tuple(name for name in signature if name not in fixed)
        return Variant(kernel, 32 * about.num_warps, about.shared, about.global_scratch_size, passed)

    def _launch(self, grid: Grid, *arguments: Any, **constants: Any) -> Launch:
        values, options = self._named(arguments, constants)
        made = self._variant(values, options)
        programs = grid(values) if callable(grid) else grid
        given = (values[name] for name in made.passed)
        passed = [value if isinstance(value, DeviceArray) else _number(value) for value in given]
        count = int(np.prod(programs))
        scratch = self.device.empty(made.scratch_bytes * count, np.uint8) if made.scratch_bytes else np.uint64(0)
        spare = [scratch, *[np.uint64(0)] * 8][: len(made.kernel.parameters) - len(passed)]
        return made.kernel(programs, made.threads, (*passed, *spare), shared_mem=made.shared_bytes)

    def __repr__(self) -> str:
        return f"TritonKernel({self.function.__name__}, device={self.device.name!r})"


def _triton() -> Any:
    try:
        import triton
    except ImportError as error:
        raise ToolMissing(
            f"Triton is not here: {error}", next_step="pip install 'warpschool[triton]' (Linux, 290 MB to load)"
        ) from None
    return triton


def _is_one(value: Any) -> bool:
    """Whether Triton makes a constant of a number."""
    return isinstance(value, int) and not isinstance(value, bool) and value == 1


def _type(name: str, value: Any) -> str:
    """What Triton calls an argument's type."""
    if isinstance(value, DeviceArray):
        return "*" + _TYPES[np.dtype(value.dtype).name]
    found = _TYPES.get(_number(value).dtype.name) if isinstance(value, (bool, int, float, np.generic)) else None
    if found is None:
        raise ArgumentError(
            f"{name} is {type(value).__name__}", next_step="Arguments are device arrays (device.asarray) and numbers."
        )
    return found


def _number(value: Any) -> np.generic:
    """A number in the type that Triton passes it in."""
    if isinstance(value, np.generic):
        return value
    if isinstance(value, bool):
        return np.bool_(value)
    if isinstance(value, float):
        return np.float32(value)
    return np.int32(value) if -(1 << 31) <= value < 1 << 31 else np.int64(value)
