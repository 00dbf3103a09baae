"""Lab 16 on a GPU: attention forward, backward and decoding against PyTorch's, norms and softmax against copies.

    python benchmarks/attention.py [--out FILE] [--seconds 0.3] [--part PART ...]

Forward: 16,384 tokens in all, as 16 texts of 1,024 up to one of 16,384, and heads of D numbers that make 2,048, so that
all rows have as many queries. The rival is PyTorch's `scaled_dot_product_attention` with each of its back ends by name
(FlashAttention-2, cuDNN), in turns with ours in one run, L2 flushed; 09 is held against cuDNN's alone, the faster of
the two. FLOP are 4 D for each score, half of them with a causal mask, and 2.5 times as many backward. Decoding and the
kernels of rows are held against a copy of as many bytes. Each kernel is first compared with float64 on some rows. The
part `search` tries other tiles of 06; it runs only where it is asked for.
"""

from __future__ import annotations

import argparse
import itertools
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import cupy
import numpy as np
import torch
from harness import KERNELS, SOLUTIONS, Bench
from torch.nn.attention import SDPBackend, sdpa_kernel

import warpschool as ws
from warpschool.contract import parse_contract
from warpschool.device import repeated
from warpschool.device.measurement import Rules
from warpschool.errors import WarpschoolError
from warpschool.harness.launcher import Program

LAB = "lab16_attention"
TOKENS = 16_384
WIDTH = 2_048
LENGTHS = (1_024, 2_048, 4_096, 16_384)
BACK_ENDS = {"FlashAttention-2": SDPBackend.FLASH_ATTENTION, "cuDNN": SDPBackend.CUDNN_ATTENTION}
CHECKED_ROWS = 64
FRAGMENTS = "decoding_fragments"
READER = "read_all"
"""The kernel file that reads as many bytes as decoding has to."""
CACHES = ((1, 8, 4_096), (1, 8, 16_384), (16, 8, 1_024), (1, 8, 65_536), (8, 8, 8_192), (64, 8, 2_048), (16, 8, 32_768))
"""Texts, groups of heads and kept tokens, for decoding."""


class Kernels:
    """A step with some constants, or a kernel file beside the steps, compiled for the GPU."""

    def __init__(self, step: str, constants: Mapping[str, int] | None = None) -> None:
        path = (SOLUTIONS / LAB if step[0].isdigit() else KERNELS) / f"{step}.cu"
        self.step = step
        self.constants = dict(constants or {})
        contract = parse_contract(path.read_text("utf-8"), name=path.name)
        self.program = Program(contract, device="gpu", constants=constants)

    @property
    def registers(self) -> int:
        """The most that any of its kernels takes."""
        entries = {launch.entry for launch in self.program.contract.launches}
        return max(int(self.program.kernel(entry).attributes["num_regs"]) for entry in entries)

    def work(self, sizes: Mapping[str, int], arrays: dict[str, Any]) -> Callable[[], None]:
        """Launch everything once, and return what does it again; results that `arrays` lacks are put there."""
        device = self.program.module.device
        for name, array in self.program.contract.bind(sizes, constants=self.constants).arrays.items():
            if array.is_result and name not in arrays:
                arrays[name] = cupy.empty(array.shape, array.dtype)
        return repeated(self.program.enqueue(sizes, {name: device.asarray(array) for name, array in arrays.items()}))


def _expected(q: Any, k: Any, v: Any, rows: Any, causal: int) -> tuple[Any, Any]:
    """O and L of some rows of the first head, in float64."""
    q, k, v = (array[0].astype(cupy.float64) for array in (q, k, v))
    scores = q[rows] @ k.T / np.sqrt(q.shape[1])
    if causal:
        scores[cupy.arange(k.shape[0])[None, :] > rows[:, None]] = -np.inf
    largest = scores.max(axis=1, keepdims=True)
    powers = cupy.exp(scores - largest)
    total = powers.sum(axis=1, keepdims=True)
    return powers / total @ v, (largest + cupy.log(total))[:, 0]


def _require(error: float, limit: float, what: str) -> float:
    if not error <= limit:
        raise ArithmeticError(f"{what} is off by {error:.3g}, more than {limit:.3g}")
    return error


def _inputs(heads: int, length: int, d: int, dtype: Any, count: int) -> list[Any]:
    return [cupy.random.standard_normal((heads, length, d), dtype=cupy.float32).astype(dtype) for _ in range(count)]


def _torch(array: Any, texts: int) -> torch.Tensor:
    """The same memory as PyTorch takes it: texts, heads, tokens, numbers."""
    heads, length, d = array.shape
    return torch.as_tensor(array, device="cuda").view(texts, heads // texts, length, d)


def _cases() -> Iterator[tuple[int, int, int, int]]:
    """D, texts, length, causal."""
    for d, length, causal in itertools.product((64, 128), LENGTHS, (0, 1)):
        yield d, TOKENS // length, length, causal


def run_forward(bench: Bench) -> None:
    """06 against each back end."""
    for d, texts, length, causal in _cases():
        _time_forward(bench, Kernels("06_tensor_cores", {"D": d}), texts, length, causal, BACK_ENDS)


def run_hopper(bench: Bench) -> None:
    """09 against cuDNN's."""
    rival = {"cuDNN": BACK_ENDS["cuDNN"]}
    for d, texts, length, causal in _cases():
        _time_forward(bench, Kernels("09_hopper", {"D": d}), texts, length, causal, rival, part="hopper")


def run_search(bench: Bench) -> None:
    """06 with other tiles, against FlashAttention-2."""
    rival = {"FlashAttention-2": BACK_ENDS["FlashAttention-2"]}
    for d, tsq, wsq, tsk in itertools.product((128, 64), (64, 128), (16, 32), (32, 64, 128)):
        step = Kernels("06_tensor_cores", {"TSQ": tsq, "WSQ": wsq, "TSK": tsk, "D": d})
        for length, causal in itertools.product((1_024, 4_096), (0, 1)):
            try:
                _time_forward(bench, step, TOKENS // length, length, causal, rival)
            except WarpschoolError as refused:  # a tile that does not fit is no result
                print(f"{step.constants}: {refused}", flush=True)
                break


def _time_forward(
    bench: Bench, step: Kernels, texts: int, length: int, causal: int, rivals: Mapping[str, SDPBackend], *,
    part: str = "forward",
) -> None:  # fmt: skip
    d = step.constants["D"]
    heads = texts * (WIDTH // d)
    q, k, v = _inputs(heads, length, d, cupy.float16, 3)
    tq, tk, tv = (_torch(array, texts) for array in (q, k, v))
    rows = cupy.asarray(np.sort(np.random.default_rng(1).permutation(length)[:CHECKED_ROWS]))
    out, log = _expected(q, k, v, rows, causal)
    sizes = {"causal": causal, "HEADS": heads, "N": length}
    arrays: dict[str, Any] = {"Q": q, "K": k, "V": v}
    work = step.work(sizes, arrays)
    error = _require(float(abs(arrays["O"][0, rows] - out).max()), 4e-3, "O")
    _require(float(abs(arrays["L"][0, rows] - log).max()), 1e-4, "L")
    for name, back_end in rivals.items():

        def rival(back_end: SDPBackend = back_end) -> None:
            with sdpa_kernel(back_end):
                torch.nn.functional.scaled_dot_product_attention(tq, tk, tv, is_causal=bool(causal))

        bench.add(
            part, step.step, {**sizes, "D": d}, work, rival, error=error, registers=step.registers,
            constants=step.constants, amount=4.0 * heads * length * length * d / (1 + causal), against=name,
            unit="TFLOP/s",
        )  # fmt: skip


def run_single(bench: Bench) -> None:
    """04 and 05 in float32, one length, beside PyTorch's kernels for float32."""
    d, length, heads = 64, 2_048, 32
    for step in (Kernels("04_three_kernels"), Kernels("05_fused")):
        for causal in (0, 1):
            q, k, v = _inputs(heads, length, d, cupy.float32, 3)
            tq, tk, tv = (_torch(array, 1) for array in (q, k, v))
            rows = cupy.asarray(np.sort(np.random.default_rng(1).permutation(length)[:CHECKED_ROWS]))
            out, _ = _expected(q, k, v, rows, causal)
            sizes = {"causal": causal, "HEADS": heads, "N": length}
            arrays = {"Q": q, "K": k, "V": v}
            work = step.work(sizes, arrays)
            error = _require(float(abs(arrays["O"][0, rows] - out).max()), 1e-5, "O")

            def rival() -> None:
                with sdpa_kernel(SDPBackend.EFFICIENT_ATTENTION):
                    torch.nn.functional.scaled_dot_product_attention(tq, tk, tv, is_causal=bool(causal))  # noqa: B023

            bench.add(
                "single", step.step, {**sizes, "D": d}, work, rival, error=error, registers=step.registers,
                amount=4.0 * heads * length * length * d / (1 + causal), against="memory-efficient attention",
                unit="TFLOP/s",
            )  # fmt: skip


def run_backward(bench: Bench) -> None:
    """07 and a kernel beside it, in float32, against PyTorch's memory-efficient backward pass."""
    d, length, heads = 64, 2_048, 32
    for causal in (0, 1):
        q, k, v, do = _inputs(heads, length, d, cupy.float32, 4)
        sizes = {"causal": causal, "HEADS": heads, "N": length}
        arrays: dict[str, Any] = {"Q": q, "K": k, "V": v}
        Kernels("05_fused").work(sizes, arrays)
        arrays["dO"] = do
        leaves = [_torch(array, 1).clone().requires_grad_() for array in (q, k, v)]
        with sdpa_kernel(SDPBackend.EFFICIENT_ATTENTION):
            result = torch.nn.functional.scaled_dot_product_attention(*leaves, is_causal=bool(causal))
        change = _torch(do, 1)
        expected = torch.autograd.grad(result, leaves, change, retain_graph=True)
        for step in (Kernels("07_backward"), Kernels("attention_backward_atomics")):
            own = dict(arrays)
            work = step.work(sizes, own)
            error = max(
                float((_torch(own[name], 1) - right).abs().max())
                for name, right in zip(("dQ", "dK", "dV"), expected, strict=True)
            )
            _require(error, 2e-4, "a gradient, beside PyTorch's,")
            bench.add(
                "backward", step.step, {**sizes, "D": d}, work,
                lambda: torch.autograd.grad(result, leaves, change, retain_graph=True),  # noqa: B023
                error=error, registers=step.registers, amount=10.0 * heads * length * length * d / (1 + causal),
                against="memory-efficient attention", unit="TFLOP/s", constants=step.constants,
            )  # fmt: skip


def run_decoding(bench: Bench) -> None:
    """08, a kernel beside it, and one that only reads, against a copy of as many bytes, and their errors."""
    d, group = 128, 4
    for texts, groups, length in CACHES:
        q = cupy.random.standard_normal((texts, groups, group, d), dtype=cupy.float32).astype(cupy.float16)
        both = cupy.empty((2, texts, groups, length, d), cupy.float16)
        for cache, text in np.ndindex(2, texts):  # one by one: float32 numbers of all would be twice the caches
            both[cache, text] = cupy.random.standard_normal((groups, length, d), dtype=cupy.float32)
        k, v = both
        sizes = {"TEXTS": texts, "GROUPS": groups, "N": length}
        scores = q[0, 0].astype(cupy.float64) @ k[0, 0].astype(cupy.float64).T / np.sqrt(d)
        powers = cupy.exp(scores - scores.max(axis=1, keepdims=True))
        right = powers / powers.sum(axis=1, keepdims=True) @ v[0, 0].astype(cupy.float64)
        copy = cupy.empty_like(k)
        split = _keys_of_a_block(texts * groups, length)
        for step in (
            Kernels("08_decoding"), Kernels(FRAGMENTS, split), Kernels(FRAGMENTS, {**split, "JOIN": 0})
        ):  # fmt: skip
            arrays: dict[str, Any] = {"Q": q, "K": k, "V": v}
            work = step.work(sizes, arrays)
            joined = step.constants.get("JOIN", 1)
            error = _require(float(abs(arrays["O"][0, 0] - right).max()), 1e-5, "O") if joined else 0.0
            bench.add(
                "decoding", step.step, sizes, work, lambda: cupy.copyto(copy, v), error=error,  # noqa: B023
                registers=step.registers, amount=float(k.nbytes + v.nbytes), against="a copy", unit="TB/s",
                constants=step.constants, note="" if joined else "parts apart",
            )  # fmt: skip
        bench.add(
            "decoding", READER, sizes, _reading(both), lambda: cupy.copyto(copy, v), error=0.0,  # noqa: B023
            registers=Kernels(READER).registers, amount=float(both.nbytes), against="a copy", unit="TB/s",
        )  # fmt: skip


def _keys_of_a_block(caches: int, length: int) -> dict[str, int]:
    """The kernel's own, or fewer where its blocks would not fill the GPU."""
    count = cupy.cuda.Device().attributes["MultiProcessorCount"]
    return {} if caches * -(-length // 512) >= count else {"SPLIT": 256}


def _reading(array: Any) -> Callable[[], None]:
    """What reads all of an array and does nothing with it. Raises ArithmeticError where it left something out."""
    words = array.view(cupy.int32).ravel()
    arrays: dict[str, Any] = {"words": words}
    work = Kernels(READER).work({"N": words.size}, arrays)
    right = np.bitwise_xor.reduce(cupy.asnumpy(words))
    if np.bitwise_xor.reduce(cupy.asnumpy(arrays["folded"])) != right:
        raise ArithmeticError(f"{READER} did not read all {words.size:,} words")
    return work


def run_rows(bench: Bench) -> None:
    """01 to 03 against a copy of the matrix."""
    rows, cols = 8_192, 2_048
    x, dy = (cupy.random.standard_normal((rows, cols), dtype=cupy.float32) for _ in range(2))
    gamma, beta = (cupy.random.standard_normal(cols, dtype=cupy.float32) for _ in range(2))
    copy = cupy.empty_like(x)
    exact = x.astype(cupy.float64)
    powers = cupy.exp(exact - exact.max(axis=1, keepdims=True))
    mean, rstd = exact.mean(axis=1), 1 / cupy.sqrt(exact.var(axis=1) + 1e-5)
    h, g = (exact - mean[:, None]) * rstd[:, None], dy.astype(cupy.float64) * gamma
    dx = rstd[:, None] * (g - g.mean(axis=1, keepdims=True) - h * (g * h).mean(axis=1, keepdims=True))
    known = {"mean": mean.astype(cupy.float32), "rstd": rstd.astype(cupy.float32)}
    cases: dict[str, tuple[dict[str, Any], dict[str, int], int, str, Any]] = {
        "01_online_softmax": ({"x": x}, {}, 2, "y", powers / powers.sum(axis=1, keepdims=True)),
        "02_layer_norm": ({"x": x, "gamma": gamma, "beta": beta}, {"centred": 1}, 2, "y", h * gamma + beta),
        "03_norm_backward": ({"x": x, "gamma": gamma, "dy": dy, **known}, {"centred": 1}, 3, "dx", dx),
    }
    for name, (arrays, more, matrices, result, right) in cases.items():
        sizes = {"ROWS": rows, "COLS": cols, **more}
        step = Kernels(name)
        work = step.work(sizes, arrays)
        error = _require(float(abs(arrays[result] - right).max() / abs(right).max()), 1e-5, result)
        bench.add(
            "rows", step.step, sizes, work, lambda: cupy.copyto(copy, x), error=error, registers=step.registers,
            amount=float(matrices * x.nbytes), reference_amount=2.0 * x.nbytes, against="a copy of x", unit="TB/s",
        )  # fmt: skip


PARTS: dict[str, Callable[[Bench], None]] = {
    "forward": run_forward, "hopper": run_hopper, "rows": run_rows, "single": run_single, "backward": run_backward,
    "decoding": run_decoding, "search": run_search,
}  # fmt: skip


def main() -> None:
    """Run everything, print a line for each measurement, write them all as JSON after each part."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, help="write the results to this JSON file")
    parser.add_argument("--seconds", type=float, default=0.3, help="at most this long for one measurement")
    parser.add_argument("--part", choices=[*PARTS], action="append", help="only this; `search`: other tiles of 06")
    options = parser.parse_args()
    cupy.random.seed(1)
    device = ws.get_device("gpu")
    bench = Bench(Rules(max_seconds=options.seconds, target_error=0.003, min_samples=10))
    for part in options.part or [part for part in PARTS if part != "search"]:
        PARTS[part](bench)
        if options.out:
            result = {
                "device": device.description, "cuda_driver": device.driver, "torch": torch.__version__,
                "cudnn": torch.backends.cudnn.version(), "rows": [asdict(row) for row in bench.rows],
            }  # fmt: skip
            options.out.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
