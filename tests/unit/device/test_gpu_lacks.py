"""A GPU without the shared memory or the instructions that a kernel needs: what is raised, and what a result says."""

from __future__ import annotations

import base64
import json
import subprocess
import sys
from dataclasses import asdict, replace
from types import SimpleNamespace

import pytest

import warpschool as ws
from warpschool import model
from warpschool.cli.learn import show_result
from warpschool.cli.output import Output
from warpschool.contract import parse_contract
from warpschool.course import Course
from warpschool.device.gpu import GpuKernel, GpuModule
from warpschool.errors import DeviceLacks
from warpschool.grading import Result
from warpschool.grading.limits import Limits
from warpschool.show.results import result_html

STEP = "lab00_first_kernels/01_saxpy"
LACKING_CHILD = """
import sys
from warpschool.device import SimDevice
from warpschool.device import module as find
from warpschool.errors import DeviceLacks
from warpschool.grading import child
class Lacking(SimDevice):
    name = "gpu"
    def load(self, module):
        raise DeviceLacks("too small")
device = Lacking()
find.gpu_problem, find._gpu = lambda: None, lambda: device
sys.exit(child.main())
"""


class CompileError(Exception):
    pass


class DriverError(Exception):
    pass


class SmallFunction:
    def __init__(self) -> None:
        self.attributes = {"shared_size_bytes": 1024}

    @property
    def max_dynamic_shared_size_bytes(self) -> int:
        return 48 << 10

    @max_dynamic_shared_size_bytes.setter
    def max_dynamic_shared_size_bytes(self, nbytes: int) -> None:
        raise DriverError("CUDA_ERROR_INVALID_VALUE: invalid argument")


class OldNative:
    """A module whose machine code cannot be made for the chip, as CuPy says it."""

    def get_function(self, name: str) -> None:
        raise CompileError("k.cu(9): note\nptxas k.ptx, line 70; error   : Feature '.m16n8k16' requires sm_80\nend")


DEVICE = SimpleNamespace(
    description="NVIDIA GeForce RTX 4070", arch="sm_89", spec=SimpleNamespace(sm=model.LIMITS[8, 9]),
    cupy=SimpleNamespace(cuda=SimpleNamespace(
        driver=SimpleNamespace(CUDADriverError=DriverError), compiler=SimpleNamespace(CompileException=CompileError)
    )),
)  # fmt: skip


def test_too_little_shared_memory() -> None:
    kernel = GpuKernel(DEVICE, "matmul", SmallFunction(), ())
    with pytest.raises(DeviceLacks, match=r"147,456 bytes .* RTX 4070 allows 100,352 beside .* 1,024") as caught:
        kernel.allow_dynamic_shared(147456)
    assert 'device="sim"' in caught.value.next_step


def test_an_instruction_that_the_chip_has_not() -> None:
    module = GpuModule(DEVICE, OldNative(), SimpleNamespace(), "k.cu")
    with pytest.raises(DeviceLacks) as caught:
        module.kernel("matmul")
    said = caught.value.message
    assert said.startswith("k.cu does not compile for NVIDIA GeForce RTX 4070, sm_89: ptxas")
    assert "requires sm_80" in said and "\n" not in said, "the first error, in a line"


def test_a_result_says_that_the_simulator_alone_judged_it(capsys: pytest.CaptureFixture[str]) -> None:
    source = Course.find().step(STEP).solution.read_text()
    result = ws.check(STEP, source, device="sim")
    assert result.ok and not result.not_on_gpu and "alone" not in result_html(result)
    reason = "147,456 bytes of dynamic shared memory; a <small> GPU allows 101,376"
    lacking = replace(result, provenance={**result.provenance, "not_on_gpu": reason})
    assert Result.from_json(lacking.to_json()).not_on_gpu == reason
    assert "a &lt;small&gt; GPU allows 101,376" in result_html(lacking)
    show_result(Output(plain=True), lacking, source)
    assert reason in " ".join(capsys.readouterr().out.split())


def test_a_check_on_such_a_gpu_is_accepted_and_its_json_says_why() -> None:
    step = Course.find().step(STEP)
    job = {
        "root": str(step.grader.parents[2]), "step": step.name, "name": "k.cu", "device": "gpu", "device_text": "a GPU",
        "seed": 0, "secret": "", "about": {"name": "k.cu", "sha256": "", "origin": ""}, "limits": asdict(Limits()),
        "source": base64.b64encode(step.solution.read_bytes()).decode(),
        "cases": "public", "readable": [], "writable": [], "cache": "",
    }  # fmt: skip
    found = subprocess.run(
        [sys.executable, "-c", LACKING_CHILD], input=json.dumps(job), capture_output=True, text=True, check=True
    )
    result = Result.from_json(found.stdout)
    assert result.ok and result.not_on_gpu == "too small"


@pytest.mark.parametrize("capability", [(8, 6), (8, 9)])
def test_lab_07s_largest_tiles_are_too_large_for_some_gpus(capability: tuple[int, int]) -> None:
    step = Course.find().step("lab07_tensor_cores/05_mma_ptx")
    plan = parse_contract(step.solution.read_text(), name=step.file_name).bind({"M": 128, "N": 256, "K": 64})
    assert plan.launches[0].shared_bytes > model.LIMITS[capability].shared_bytes_per_block
