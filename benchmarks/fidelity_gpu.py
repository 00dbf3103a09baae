"""Replays recorded launches on the GPU at hand, with CuPy: `python fidelity_gpu.py FOLDER [FIRST LAST]`.

FOLDER holds plan.json and arrays.npz as `fidelity.py` writes them. chip.json gets the chip's name, gpu-FIRST.npz each
array that is not what the simulator left.
"""

from __future__ import annotations

import json
import re
import sys
import tempfile
from pathlib import Path
from typing import Any

import cupy
import numpy as np
from fidelity_arrays import Store, digest

_SIZED = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}


def _loaded(ptx: str) -> cupy.RawModule:
    """The module; a driver that is older than the compiler gets the PTX of its own time, if that says the same."""
    for version in (None, "9.0", "8.5", "8.2"):
        text = ptx if version is None else re.sub(r"\.version \d+\.\d+", f".version {version}", ptx)
        with tempfile.NamedTemporaryFile("w", suffix=".ptx") as file:
            file.write(text)
            file.flush()
            module = cupy.RawModule(path=file.name)
            try:
                module.compile()
                return module
            except (cupy.cuda.driver.CUDADriverError, cupy.cuda.compiler.CompileException) as error:
                last = error
    raise SystemExit(f"the driver takes none of this PTX: {last}\n{ptx[:300]}")


def _argument(entry: list, arrays: list[cupy.ndarray]) -> object:
    kind, *rest = entry
    if kind == "array":
        index, offset = rest
        return arrays[index][offset:]
    if kind == "map":
        index, offset, raw = rest
        raw = _own_map(bytes.fromhex(raw), arrays[index].data.ptr + offset)
        return np.frombuffer(raw, f"V{len(raw)}")[0]
    raw = bytes.fromhex(rest[0])
    dtype = _SIZED.get(len(raw))
    return np.frombuffer(raw, dtype or f"V{len(raw)}")[0]


def _own_map(raw: bytes, address: int) -> bytes:
    """The driver's encoding of a tensor map, over the array at this address."""
    from dataclasses import replace

    from hopper_gpu import Gpu

    from ptxsim.tensormap import TensorMap

    return Gpu().tensor_map(replace(TensorMap.decode(raw), address=address))


def main(folder: Path, first: int, last: int) -> None:
    plan = json.loads((folder / "plan.json").read_text())
    stored = Store.read(folder / "arrays.npz")
    properties = cupy.cuda.runtime.getDeviceProperties(0)
    chip = {"name": properties["name"].decode(), "driver": cupy.cuda.runtime.driverGetVersion()}
    (folder / "chip.json").write_text(json.dumps(chip))
    ready = []
    modules: dict[int, cupy.RawModule] = {}
    for k in range(first, min(last, len(plan["launches"]))):
        launch = plan["launches"][k]
        module = modules.get(launch["ptx"]) or _loaded(plan["ptx"][launch["ptx"]])
        modules[launch["ptx"]] = module
        arrays = [cupy.asarray(stored[key]) for key in launch["before"]]
        function = module.get_function(launch["entry"])
        if launch["shared_bytes"] > 48 << 10:
            function.max_dynamic_shared_size_bytes = launch["shared_bytes"]
        ready.append((k, launch, function, arrays, module))
    cupy.cuda.runtime.deviceSynchronize()
    cupy.cuda.profiler.start()
    for _, launch, function, arrays, module in ready:
        for name, key in launch["variables"].items():
            value = stored[key]
            cupy.ndarray(value.shape, np.uint8, module.get_global(name)).set(value)
        arguments = tuple(_argument(entry, arrays) for entry in launch["arguments"])
        function(tuple(launch["grid"]), tuple(launch["block"]), arguments, shared_mem=launch["shared_bytes"])
    cupy.cuda.runtime.deviceSynchronize()
    cupy.cuda.profiler.stop()
    results: dict[str, Any] = {f"end/gpu-{first}": np.int64(last)}
    for k, launch, _, arrays, _ in ready:
        for j, (array, expected) in enumerate(zip(arrays, launch["after"], strict=True)):
            after = cupy.asnumpy(array)
            if digest(after) != expected:
                results[f"{k}/after/{j}"] = after
    np.savez_compressed(folder / f"gpu-{first}.npz", **results)


if __name__ == "__main__":
    main(Path(sys.argv[1]), *(int(a) for a in sys.argv[2:4] or ("0", "1000000")))
