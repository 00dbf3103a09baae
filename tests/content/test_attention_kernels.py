"""The fast kernels beside lab 16, on the simulator: right against float64, and free of hazards."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from warpcourse.lab16_attention.cases import attend
from warpschool.contract import parse_contract
from warpschool.harness.launcher import Program

KERNELS = Path(__file__).parents[2] / "benchmarks" / "kernels"


def text_of(name: str) -> str:
    return (KERNELS / f"{name}.cu").read_text("utf-8")


@pytest.mark.thinned(2)
@pytest.mark.parametrize(
    ("n", "constants"),
    [(1, {}), (77, {}), (2100, {"SPLIT": 64, "GROUP": 8}), pytest.param(300, {"SPLIT": 128, "TILE": 32},
                                                                       marks=pytest.mark.slow)],
)  # fmt: skip
@pytest.mark.thinned(2)
def test_decoding_by_fragments(n: int, constants: dict[str, int]) -> None:
    """One key, a ragged tile, and 33 parts, of which the last one has warps without keys: joined in two rounds."""
    group = constants.get("GROUP", 4)
    rng = np.random.default_rng(n)
    q = (3 * rng.standard_normal((2, 1, group, 128))).astype(np.float16)
    k, v = (rng.standard_normal((2, 1, n, 128)).astype(np.float16) for _ in range(2))
    program = Program(parse_contract(text_of("decoding_fragments"), name="d.cu"), device="sim", constants=constants)
    run = program.run({"TEXTS": 2, "GROUPS": 1, "N": n}, {"Q": q, "K": k, "V": v})
    assert np.abs(run.outputs["O"] - attend(q, k, v, causal=False).out).max() < 2e-5
    assert run.hazards == () and not run.outputs["arrived"].any()


@pytest.mark.parametrize(("n", "causal", "target"), [(150, 0, ""), (150, 1, "sm_90a")])
@pytest.mark.thinned(2)
def test_gradients_added_up_in_memory(n: int, causal: int, target: str) -> None:
    """Four additions at a time where the GPU has them, single ones elsewhere."""
    text = text_of("attention_backward_atomics")
    if target:
        text = text.replace("// Zeroed:", f"// Target:  {target}\n// Zeroed:", 1)
    rng = np.random.default_rng(causal)
    q, k, v, change = (rng.standard_normal((2, n, 64)).astype(np.float32) for _ in range(4))
    right = attend(q, k, v, bool(causal))
    arrays = {"Q": q, "K": k, "V": v, "dO": change, "O": right.out, "L": right.log}
    program = Program(parse_contract(text, name="b.cu"), device="sim")
    run = program.run(
        {"causal": causal, "HEADS": 2, "N": n}, {name: a.astype(np.float32) for name, a in arrays.items()}
    )
    for name, exact in zip(("dQ", "dK", "dV"), right.gradients(change), strict=True):
        assert np.abs(run.outputs[name] - exact).max() < 1e-5, name
    assert run.hazards == ()


@pytest.mark.parametrize("n", [4, 264 * 1024 * 4 + 12])
def test_reading_leaves_nothing_out(n: int) -> None:
    """One load, and a second round with a single warp that has any."""
    words = np.random.default_rng(n).integers(-(2**31), 2**31, n).astype(np.int32)
    run = Program(parse_contract(text_of("read_all"), name="r.cu"), device="sim").run({"N": n}, {"words": words})
    assert np.bitwise_xor.reduce(run.outputs["folded"]) == np.bitwise_xor.reduce(words)
    assert run.hazards == ()
