"""Files for one architecture: the Target line, arrays passed as tensor maps, and what happens without such a GPU."""

from __future__ import annotations

import numpy as np
import pytest

from warpschool.contract import parse_contract, require_same_entries
from warpschool.errors import ContractError, EntryError, LaunchError
from warpschool.grading import Judgement, Verdict, load_submission
from warpschool.harness.launcher import run_kernel

GOOD = """\
// 01_copy.cu: y = x, by the tensor memory accelerator.
// Target: sm_90a
// Entry:  copy(const float x[M,N] in map=(ROWS, 32), float y[M,N] out, int M, int N)
// Launch: copy block=(128) grid=(1) shared=SHARED
constexpr int ROWS = 64;
constexpr int SHARED = 200 * 1024;
struct alignas(64) CUtensorMap { unsigned long long opaque[16]; };
extern "C" __global__ void copy(const __grid_constant__ CUtensorMap x, float* y, int M, int N)
{
    extern __shared__ float tile[];
    asm volatile("setmaxnreg.inc.sync.aligned.u32 240;");
    y[0] = tile[0];
}
"""


def changed(old: str, new: str) -> str:
    assert GOOD.count(old) == 1
    return GOOD.replace(old, new)


def test_target_and_boxes_are_read():
    contract = parse_contract(GOOD)
    launch = contract.bind({"M": 100, "N": 96}).launches[0]
    assert (contract.target, contract.arch) == ("sm_90a", "compute_90a")
    assert launch.boxes == {"x": (64, 32)}
    assert launch.shared_bytes == 200 * 1024  # more than an sm_80 has
    assert str(contract.entries[0].parameters[0]) == "const float x[M,N] in map=(ROWS, 32)"


@pytest.mark.parametrize(
    ("source", "error", "words"),
    [
        (changed("Target: sm_90a", "Target: sm_90"), ContractError, ["unknown target 'sm_90'", "no Target line"]),
        (changed("map=(ROWS, 32)", "map=(ROWS)"), EntryError, ["boxes of rows and columns", "map=(128, 64)"]),
        (changed("x[M,N] in", "x[N] in"), EntryError, ["describes a matrix"]),
        (changed("map=(ROWS, 32)", "map=(ROW, 32)"), ContractError, ["'ROW' is unknown", "Did you mean ROWS?"]),
        (changed("map=(ROWS, 32)", "map=(1, ROWS, 32)"), EntryError, ["one side for each, at most 5"]),
        (changed("map=(ROWS, 32)", "map=im2col(ROWS, 32, 3, 3, 1, 1)"), EntryError, ["images in NHWC", "map=im2col("]),
        (changed("const __grid_constant__ CUtensorMap x", "const float* x"), EntryError,
         ["'const float* x' in the source", "const __grid_constant__ CUtensorMap x"]),
    ],
)  # fmt: skip
def test_parse_errors(source, error, words):
    with pytest.raises(error) as caught:
        parse_contract(source, name="k.cu")
    assert all(word in str(caught.value) for word in words), str(caught.value)


@pytest.mark.parametrize("box", ["(512, 32)", "(64, 3)", "(0, 32)"])
def test_boxes_that_no_tensor_map_has(box):
    contract = parse_contract(changed("map=(ROWS, 32)", f"map={box}"))
    with pytest.raises(ContractError, match="boxes of"):
        contract.bind({"M": 100, "N": 96})


def test_maps_of_windows_and_of_more_axes_than_sides():
    entry = "copy(const float x[B,H,W,C] in map=im2col(ROWS, 32, R, R, 2, 1), float y[B,H,W,C] out map=(ROWS, 32), "
    old = "copy(const float x[M,N] in map=(ROWS, 32), float y[M,N] out, int M, int N)"
    sizes = ["B", "H", "W", "C", "R"]
    source = changed(old, f"{entry}{', '.join(f'int {size}' for size in sizes)})")
    parameters = f"const __grid_constant__ CUtensorMap y, {', '.join(f'int {size}' for size in sizes)})"
    source = source.replace("float* y, int M, int N)", parameters).replace("y[0] = tile[0];", "")
    contract = parse_contract(source)
    launch = contract.bind({"B": 2, "H": 9, "W": 8, "C": 32, "R": 3}).launches[0]
    assert launch.boxes == {"x": (64, 32), "y": (64, 32)}
    assert launch.windows == {"x": (3, 3, 2, 1)}
    assert "in map=im2col(ROWS, 32, R, R, 2, 1)" in str(contract.entries[0])
    with pytest.raises(ContractError, match="boxes of 1025 x 32"):
        contract.bind({"B": 2, "H": 9, "W": 8, "C": 32, "R": 3}, constants={"ROWS": 1025})


def test_without_the_target_shared_memory_is_less():
    contract = parse_contract(changed("// Target: sm_90a\n", ""))
    with pytest.raises(LaunchError, match="204800 bytes of shared memory"):
        contract.bind({"M": 100, "N": 96})


def test_the_target_is_part_of_the_step():
    with pytest.raises(EntryError, match="Restore the line: // Target: sm_90a"):
        require_same_entries(parse_contract(changed("// Target: sm_90a\n", "")), parse_contract(GOOD))
    require_same_entries(parse_contract(changed("map=(ROWS, 32)", "map=(32, 32)")), parse_contract(GOOD))


def test_the_simulator_is_of_every_architecture():
    run = run_kernel(GOOD, {"M": 100, "N": 96}, {"x": np.zeros((100, 96), np.float32)}, device="sim")
    assert {h.kind for h in run.hazards} == {"uninitialized"}
    assert {n.kind for n in run.notes} == {"same-value"}  # all threads store what none has written


def test_what_does_not_compile_is_told_for_the_targets_architecture():
    with pytest.raises(Judgement) as caught:
        load_submission(changed("y[0] = tile[0];", "y[0] = tile;"), name="01_copy.cu", step=parse_contract(GOOD))
    assert caught.value.verdict is Verdict.CE
