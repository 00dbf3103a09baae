"""Steps whose solution is a whole program: what runs record, which calls can be made to fail, what is missing here."""

from __future__ import annotations

import re

import numpy as np
import pytest

import warpschool as ws
from warpschool.course import Course
from warpschool.errors import GradingError, ToolMissing, WarpschoolError
from warpschool.grading import program, program_build
from warpschool.grading.jobs import KernelJob
from warpschool.grading.program import ILLEGAL_ADDRESS, MEMORY_ALLOCATION, VERDICTS, load_program
from warpschool.grading.program_build import build_program
from warpschool.grading.verdicts import Judgement, Verdict, verdict_of_hazard
from warpschool.harness.source import Source
from warpschool.programs import Note, find_tools
from warpschool.programs.session import Fault

pytestmark = pytest.mark.usefixtures("forked_checks")

STEP = "lab14_programs/01_whole_program"
SMALL = """#include <cstdio>
#include <cstring>
__global__ void twice(float* x, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] *= 2;
}
int main(int argc, char** argv)
{
    float x[100], *d, *pinned;
    FILE* file = fopen("x.bin", "rb");
    if (fread(x, 4, 100, file) != 100) return 2;
    cudaStream_t stream;
    cudaStreamCreate(&stream);
    if (cudaError_t e = cudaMalloc(&d, sizeof x)) { fprintf(stderr, "%s\\n", cudaGetErrorName(e)); return 3; }
    cudaMallocHost(&pinned, sizeof x);
    cudaMemcpy(d, x, sizeof x, cudaMemcpyHostToDevice);
    twice<<<1, 128, 0, stream>>>(d, 100);
    cudaMemcpyAsync(pinned, d, sizeof x, cudaMemcpyDeviceToHost, stream);
    if (argc > 1) cudaStreamSynchronize(stream);
    cudaError_t e = cudaDeviceSynchronize();
    file = fopen("y.bin", "wb");
    fwrite(pinned, 4, 100, file);
    cudaFreeHost(pinned), cudaFree(d), cudaStreamDestroy(stream);
    return e ? 4 : 0;
}
"""


def missing() -> str:
    try:
        find_tools()
    except WarpschoolError as problem:
        return problem.message
    return ""


needs_tools = pytest.mark.skipif(bool(missing()), reason=f"whole programs cannot be built here: {missing()}")


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    folder = tmp_path_factory.mktemp("build")
    return load_program(
        SMALL.encode(), "small.cu", build_program(Source(SMALL.encode(), "small.cu", ""), folder, must=False,
                                                  may_cache=False)
    )  # fmt: skip


@pytest.fixture
def no_tools(monkeypatch):
    def none():
        raise ToolMissing("no nvcc on this machine", next_step='Install it with: pip install "warpschool[programs]"')

    monkeypatch.setattr(program_build, "find_tools", none)


X = np.arange(100, dtype=np.float32)


@needs_tools
def test_a_run_records_what_was_asked_for(small):
    run = small.run(["wait"], {"x.bin": X})
    kinds = [(call.kind, call.name.split("(")[0], call.nbytes, call.blocking) for call in run.report.calls]
    assert kinds == [
        ("allocate", "device", 400, False), ("allocate", "pinned", 400, False), ("HtoD", "", 400, True),
        ("launch", "twice", 0, False), ("DtoH", "", 400, False), ("synchronize", "stream", 0, False),
        ("synchronize", "device", 0, False), ("free", "pinned", 0, False), ("free", "device", 0, False),
    ]  # fmt: skip
    launch = run.calls("launch")
    line = SMALL.split("\n").index("    twice<<<1, 128, 0, stream>>>(d, 100);") + 1
    assert launch[0].stream > 0 and small.line_of(launch) == line
    assert small.array(run, "y.bin", np.float32, (100,)).tolist() == (2 * X).tolist()
    small.check_against(run, {"y.bin": 2.0 * X.astype(np.float64)})


@needs_tools
@pytest.mark.parametrize(
    ("fault", "status"),
    [
        (Fault("allocate", 0, MEMORY_ALLOCATION), 3), (Fault("launch", 0, ILLEGAL_ADDRESS), 4),
        (Fault("synchronize", 0, ILLEGAL_ADDRESS), 4), (Fault("HtoD", 0, ILLEGAL_ADDRESS), 0),
        (Fault("HtoD", 1, ILLEGAL_ADDRESS), 0),
    ],
    ids=str,
)  # fmt: skip
def test_a_call_fails_on_purpose(small, fault, status):
    assert small.run([], {"x.bin": X}, fault=fault, judged=False).status == status


@needs_tools
def test_a_call_that_nobody_checks_is_named_with_its_line(small):
    with pytest.raises(Judgement) as told:
        small.checks_every_call([], {"x.bin": X})
    line = SMALL.split("\n").index("    cudaMallocHost(&pinned, sizeof x);") + 1
    assert (told.value.verdict, told.value.line) == (Verdict.RTE, line)
    assert told.value.said.startswith("allocation 2 was made to fail (cudaErrorMemoryAllocation)")


@needs_tools
def test_kernels_that_do_nothing_change_what_comes_out(small):
    run, skipped = (small.run([], {"x.bin": X}, skip_launches=skip, judged=False) for skip in (False, True))
    assert skipped.files["y.bin"] == X.tobytes()
    small.done_by_kernels(run, skipped, ["y.bin"])
    with pytest.raises(Judgement) as told:
        small.done_by_kernels(skipped, skipped, ["y.bin"])
    assert told.value.verdict is Verdict.PERF


@needs_tools
def test_a_copy_that_nobody_waits_for(small):
    run = small.run([], {"x.bin": X})
    small.waits_for_copies(run)
    calls = tuple(call for call in run.report.calls if call.kind != "synchronize")
    hurried = program.ProgramRun(program.replace(run.report, calls=calls), {})
    with pytest.raises(Judgement) as told:
        small.waits_for_copies(hurried)
    assert told.value.verdict is Verdict.RACE


@needs_tools
def test_missing_and_cut_outputs_are_told(small):
    run = small.run([], {"x.bin": X})
    for name, shape, said in (("z.bin", (100,), "wrote no z.bin"), ("y.bin", (101,), "404")):
        with pytest.raises(Judgement, match=said):
            small.array(run, name, np.float32, shape)


@needs_tools
def test_too_many_launches_are_too_many(tmp_path):
    text = "__global__ void none() {}\nint main() { for (int k = 0; k < 1100; ++k) none<<<1, 1>>>();\n" \
           "return cudaDeviceSynchronize() == 0; }\n"  # fmt: skip
    built = build_program(Source(text.encode(), "many.cu", ""), tmp_path, must=False, may_cache=False)
    with pytest.raises(Judgement) as told:
        load_program(text.encode(), "many.cu", built).run([])
    assert told.value.verdict is Verdict.TLE and "1,024 launches" in told.value.said


def test_every_kind_of_finding_has_a_verdict():
    kinds = set(re.findall(r'"([a-z]+(?:-[a-z]+)*)"', Note.__doc__ or "")) | {"use-after-free"}
    assert len(kinds) > 15
    for kind in kinds:
        assert VERDICTS.get(kind) or verdict_of_hazard(kind)


def test_without_nvcc_one_is_told_what_to_install(no_tools):
    with pytest.raises(ToolMissing, match=r"warpschool\[programs\]"):
        ws.check(STEP, Course.find().step(STEP).solution)


def test_without_nvcc_a_hand_in_gets_no_grade(no_tools):
    result = KernelJob(STEP, Course.find().step(STEP).solution.read_bytes()).run()
    assert result.verdict is Verdict.SE and not result.is_grade and "warpschool[programs]" in result.seen


def test_what_no_compiler_is_asked_about(tmp_path):
    for data, verdict in ((b"\xff\xfe", "BAD"), (b"  \n", "BAD"), (b"//" + b"x" * (300 << 10), "CLE")):
        assert program_build._unfit(Source(data, "a.cu", "")).verdict == verdict


def test_a_kernel_is_no_program_and_a_program_no_kernel():
    course = Course.find()
    assert course.step(STEP).is_program and not course.step("lab00/01").is_program
    assert course.step(STEP) not in course.kernels() and course.step("lab00/01") in course.kernels()


def test_others_programs_need_a_machine_that_confines(monkeypatch):
    monkeypatch.setattr(program_build, "confinement_problem", lambda: "no Landlock")
    with pytest.raises(GradingError, match="no Landlock"):
        program_build.require_confinement()
