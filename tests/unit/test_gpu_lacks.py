"""A GPU without the shared memory or the instructions that a kernel needs: what is raised, and what a result says."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pytest

import warpschool as ws
from warpschool import model
from warpschool.cli.check import show_result
from warpschool.cli.output import Output
from warpschool.course import Course
from warpschool.device.gpu_module import GpuKernel, GpuModule
from warpschool.errors import DeviceLacks
from warpschool.grading import Result
from warpschool.viz.result_display import result_html

STEP = "lab00_first_kernels/01_saxpy"


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
