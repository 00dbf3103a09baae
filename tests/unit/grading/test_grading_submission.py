"""The kernel fixture: loading, running and judging, each rule with a kernel that breaks it."""

from __future__ import annotations

import math

import numpy as np
import pytest

from warpschool.contract import parse_contract
from warpschool.errors import GradingError
from warpschool.grading import submission
from warpschool.grading.submission import MAX_SOURCE_BYTES, Submission, load_submission
from warpschool.grading.verdicts import Judgement, Verdict

STEP = """\
// Entry:  scale(const float x[n] in, float y[n] out, int n)
// Launch: scale block=(64) grid=(cdiv(n, 64))
extern "C" __global__ void scale(const float* x, float* y, int n) {
    __shared__ float t[64];
    const int i = blockIdx.x * 64 + threadIdx.x;
    if (i < n) y[i] = 2 * x[i];
}
"""
BODY = "    if (i < n) y[i] = 2 * x[i];\n"


def variant(body: str) -> str:
    return STEP.replace(BODY, body + "\n")


def load(source: str | bytes) -> Submission:
    return load_submission(source, name="k.cu", step=parse_contract(STEP, name="step.cu"))


def run(body: str, n: int = 100, **options):
    kernel = load(variant(body))
    arrays = kernel.inputs({"n": n}, np.random.default_rng(5))
    result = kernel.run({"n": n}, arrays, **options)
    kernel.check_against(result, {"y": 2 * arrays["x"].astype(np.float64)})
    return result


def judgement(action, *arguments, **options) -> Judgement:
    with pytest.raises(Judgement) as caught:
        action(*arguments, **options)
    assert len(caught.value.seen.splitlines()) < 20
    return caught.value


def test_a_right_kernel_passes():
    assert run(BODY).hazards == ()


@pytest.mark.parametrize(
    ("source", "verdict", "words", "line"),
    [
        (b"// caf\xe9\n", "BAD", "k.cu:1: byte 0xe9 is not UTF-8", 1),
        (b"\xef\xbb\xbf \n\n", "BAD", "empty", 0),
        ("", "BAD", "the file is empty", 0),
        (b"// x\n" * MAX_SOURCE_BYTES, "CLE", "larger than 262,144 bytes", 0),
        (STEP.replace("2 * x", "2 * z"), "CE", 'identifier "z" is undefined', 6),
        (STEP.replace("{\n", "{\n#include </etc/passwd>\n"), "RJ", "passwd", 4),
        (STEP.replace('extern "C" ', "template <int N> "), "NE", "a template", 3),
        (STEP.replace("scale", "scala"), "NE", "asks for a kernel 'scale'", 1),
        ("__device__ int x;\n", "NE", "no kernel in this file", 1),
        (STEP.replace("float* y, int n)", "float* y, long n)"), "NE", "parameter 3", 3),
        (STEP.replace("float y[n] out", "float y[n] inout"), "NE", "asks for 'float y[n] out'", 1),
        (STEP.replace("// Launch", "// Lunch"), "BAD", "Did you mean 'Launch:'?", 2),
        (STEP.replace("// Launch: scale block=(64) grid=(cdiv(n, 64))\n", ""), "LE", "no Launch line", 1),
        (STEP.replace("grid=(cdiv(n, 64))", "grid=many"), "LE", "expected '(' but found 'many'", 2),
    ],
)
def test_files_that_cannot_run(source, verdict, words, line):
    found = judgement(load, source)
    assert found.verdict == verdict, found.seen
    assert words in found.seen
    assert not line or found.line == line


@pytest.mark.parametrize(
    ("body", "verdict", "line", "words"),
    [
        ("y[i] = 2 * x[i];", "OOB", 6, "n = 100"),
        ("t[threadIdx.x] = i < n ? x[i] : 0; if (i < n) y[i] = t[threadIdx.x ^ 32] + x[i];", "RACE", 6, "shared"),
        ("if (i < n) __syncthreads(); if (i < n) y[i] = 2 * x[i];", "SYNC", 6, "barrier"),
        ("if (i < n) y[i] = 2 * x[i] + 0 * t[threadIdx.x];", "UNINIT", 6, "t"),
        ("if (i < n) y[i] = 2 * x[i]; if (i == 1) ((float*)x)[0] = 7;", "RACE", 6, "x"),
        ("if (i < n) y[i] = 2 * x[i]; if (i == 0) ((float*)x)[0] = 7;", "WA", 0, "stores to its input x"),
        ("if (i < n) y[i] = 2 * x[i]; if (i == 3) __trap();", "RTE", 6, "trap"),
        ("for (int k = 0; k < n; k += 0) y[0] = 1;", "TLE", 0, "never ends"),
        ("for (int k = 0; k < 30000; ++k) printf(\"%d: a long line of text, again\\n\", k);", "OLE", 0, "printed more"),
        ("if (i < n) y[i] = 2 * x[i] + 1;", "WA", 0, "off by +1"),
        ("", "WA", 0, "never written"),
        ("if (i < 64) y[i] = 2 * x[i];", "WA", 0, "all elements from 64 on"),
        ("if (i < n) y[i] = nanf(\"\");", "WA", 0, "NaN"),
        ("if (i < n) y[i] = 2 * x[i]; if (i + 1 < n) *(float2*)(y + 1) = make_float2(0, 0);", "RTE", 6, "y"),
    ],
)
def test_kernels_that_fail(body, verdict, line, words):
    found = judgement(run, body)
    assert found.verdict == verdict, found.seen
    assert words in found.seen
    assert not line or found.line == line


@pytest.mark.parametrize(
    ("above", "words"),
    [
        ("#define int long", "other arguments than its Entry line says"),
        ("#define scale other", "there is no kernel 'scale'"),
        ("#undef __global__\n#define __global__ __device__", "there is no kernel 'scale'"),
    ],
)
def test_what_macros_hide_is_no_entry(above, words):
    kernel = load(STEP.replace('extern "C"', f'{above}\nextern "C"'))
    found = judgement(kernel.run, {"n": 8}, {"x": np.zeros(8, np.float32)})
    assert found.verdict == "NE" and words in found.seen


def test_a_variable_that_nobody_defines_stops_the_launch():
    declared = 'extern __device__ float elsewhere[];\nextern "C"'
    kernel = load(variant("if (i < n) y[i] = elsewhere[i];").replace('extern "C"', declared))
    found = judgement(kernel.run, {"n": 8}, {"x": np.zeros(8, np.float32)})
    assert found.verdict == "LE" and "elsewhere" in found.seen


def test_the_launches_of_a_check_share_a_budget_of_instructions(monkeypatch):
    """What each launch may do adds up over a check; where it ends is the same on every machine."""
    monkeypatch.setattr(submission, "WORK_LIMIT", 60_000)
    ended_at = []
    for _ in range(2):
        kernel = load(variant("for (int k = 0; k < 50; ++k) if (i < n) y[i] = x[(i + k) % n];"))
        kernel._work.left = submission.WORK_LIMIT
        rng = np.random.default_rng(5)
        ended_at.append(0)
        with pytest.raises(Judgement) as caught:
            while ended_at[-1] < 100:
                kernel.run({"n": 64}, kernel.inputs({"n": 64}, rng))
                ended_at[-1] += 1
        assert caught.value.verdict is Verdict.TLE and "need more than 60,000 instructions" in caught.value.seen
    assert ended_at[0] == ended_at[1] > 3


@pytest.mark.parametrize(("rounds", "is_judged"), [(50, False), (400, True)])
def test_what_the_reference_takes_too_may_go_on(rounds, is_judged, monkeypatch):
    """Half of the budget is free; then each run is given four times what the reference takes for it."""
    reference = load(variant("for (int k = 0; k < 40; ++k) if (i < n) y[i] = x[(i + k) % n];"))
    monkeypatch.setattr(submission, "WORK_LIMIT", 60_000)
    kernel = load(variant(f"for (int k = 0; k < {rounds}; ++k) if (i < n) y[i] = x[(i + k) % n];"))
    kernel.reference = lambda: reference
    rng = np.random.default_rng(5)
    found = None
    for _ in range(200):
        try:
            kernel.run({"n": 64}, kernel.inputs({"n": 64}, rng))
        except Judgement as judgement:
            found = judgement
            break
    assert (found is not None) is is_judged
    assert int(kernel.spent["executed"]) <= kernel._work.given
    if found is not None:
        assert found.verdict is Verdict.TLE and kernel._work.given < 20 * 60_000
    else:
        assert int(kernel.spent["executed"]) > 2 * 60_000


def test_a_run_that_has_been_made_is_not_made_again():
    """A criterion compares, counts and looks for races in one run; whatever may come out otherwise runs."""
    kernel = load(STEP)
    sizes = {"n": 64}
    arrays = kernel.inputs(sizes, np.random.default_rng(5))
    run = kernel.run(sizes, arrays)
    kernel.no_hazards(sizes, arrays)
    kernel.no_excess_sectors(sizes, {"x": arrays["x"].copy()})
    assert kernel.counters(sizes, arrays) == run.counters
    assert kernel.spent["launches"] == "1"
    arrays["x"][3] += 1
    assert kernel.run(sizes, arrays).outputs["y"][3] != run.outputs["y"][3]
    kernel.run({"n": 63}, kernel.inputs({"n": 63}, np.random.default_rng(5)))
    assert kernel.spent["launches"] == "3"


def test_nothing_of_the_reference_is_endless(monkeypatch):
    """What takes longest of all graded cases is right; its copy that takes ten times as long is not."""
    monkeypatch.setattr(submission, "ENDLESS_WORK", 1 << 10)
    monkeypatch.setattr(submission, "MOST_ENDLESS_WORK", 1 << 12)
    text = "float s = 0; for (int k = 0; k < {}; ++k) s = s * x[0] + 1; if (i < n) y[i] = s;"
    arrays = {"x": np.zeros(64, np.float32)}
    for rounds, is_judged in ((20_000, False), (200_000, True)):
        reference = load(variant(text.format(20_000)))
        reference.is_reference = True
        kernel = load(variant(text.format(rounds)))
        kernel.reference = lambda found=reference: found
        if is_judged:
            assert judgement(kernel.run, {"n": 64}, arrays).verdict is Verdict.TLE
        else:
            kernel.run({"n": 64}, arrays)


def test_a_launch_of_a_long_kernel_has_fewer_steps():
    """A step is worth the instructions that it may run: so many steps of a long loop would take hours."""
    body = "float s = x[0];\n#pragma unroll 1\nfor (int k = 0; k < (1 << 21); ++k) {" + "s = s * x[1] + 1;" * 600 + "}"
    found = judgement(run, body + " if (i < n) y[i] = s;")
    assert found.verdict is Verdict.TLE and "its budget of" in found.seen


def test_a_launch_of_many_warps_is_given_as_many_steps_at_once(monkeypatch):
    monkeypatch.setattr(submission, "ENDLESS_WORK", 1 << 10)
    kernel, limits = load(STEP), []
    run = submission._Metered.run

    def noted(program, *given, **options):
        limits.append(options["step_limit"])
        return run(program, *given, **options)

    monkeypatch.setattr(submission._Metered, "run", noted)
    sizes = {"n": 1 << 16}
    kernel.run(sizes, kernel.inputs(sizes, np.random.default_rng(5)))
    assert len(limits) == 2 and limits[0] < (1 << 16) // 32 <= limits[1]


ENDLESS = {
    "arithmetic": "float s = 0; while (s < 3) s = s * 0.5f + 1; y[i] = s;",
    "conflicts": "for (int k = 0; !(t[0] > 3); ++k) t[(threadIdx.x * 32 + k) % 64] *= 0.5f; y[i] = t[0];",
    "scattered": "float s = 0; for (unsigned k = 0; s < 3; ++k) s = x[(threadIdx.x * 33 + k) % n]; y[i] = s;",
}


@pytest.mark.parametrize("kind", ENDLESS)
def test_an_endless_loop_ends_by_what_its_turns_cost(kind):
    """An access of shared memory, or one that scatters, takes many times as long as an instruction that computes."""
    kernel = load(variant(ENDLESS[kind]))
    kernel.reference = lambda: load(STEP)
    found = judgement(kernel.run, {"n": 64}, kernel.inputs({"n": 64}, np.random.default_rng(5)))
    assert found.verdict is Verdict.TLE
    counted = found.__cause__.counted
    assert submission.ENDLESS_WORK <= submission._work(counted) <= 3 * submission.ENDLESS_WORK
    accesses = counted["shared_load_requests"] + counted["global_load_requests"]
    assert accesses < submission.ENDLESS_WORK // 4, "each of them counts several times"


@pytest.mark.parametrize(("body", "is_certain"), [
    ("for (int k = 0; k < n;) y[i] += x[k];", True),
    ("for (int k = 0; k < n;) { y[i] += x[k]; if (y[i] == 12345) return; }", False),
    ("for (int k = 0; k < n;) { y[i] += x[k]; if (y[i] == 12345) __trap(); }", False),
    (ENDLESS["arithmetic"], False),
])  # fmt: skip
def test_a_loop_that_nothing_leads_out_of_is_judged_without_the_reference(body, is_certain):
    kernel, asked = load(variant(body)), []

    def reference() -> submission.Submission:
        asked.append(body)
        return load(STEP)

    kernel.reference = reference
    found = judgement(kernel.run, {"n": 64}, kernel.inputs({"n": 64}, np.random.default_rng(5)))
    assert found.verdict is Verdict.TLE
    assert not asked if is_certain else asked
    again = judgement(kernel.run, {"n": 32}, kernel.inputs({"n": 32}, np.random.default_rng(5)))
    assert again.verdict is Verdict.TLE and len(asked) <= 1


def test_after_an_endless_loop_nothing_is_compiled_for_other_constants():
    """Compiling takes longer than all that an endless loop is allowed; what is compiled is still judged."""
    kernel = load(variant(f"if (n == 64) {{ {ENDLESS['arithmetic']} }} else if (i < n) y[i] = 1;"))
    arrays = kernel.inputs({"n": 64}, np.random.default_rng(5))
    assert judgement(kernel.run, {"n": 64}, arrays).verdict is Verdict.TLE
    run = kernel.run({"n": 32}, kernel.inputs({"n": 32}, np.random.default_rng(5)))
    assert (run.outputs["y"] == 1).all()
    compiled = len(kernel._programs)
    found = judgement(kernel.run, {"n": 32}, arrays, constants={"TILE": 32})
    assert found.verdict is Verdict.TLE and "not judged until the kernel comes to its end" in found.seen
    assert found.line == 6 and len(kernel._programs) == compiled


def test_what_the_reference_takes_is_known_however_much_that_is(monkeypatch):
    """Its own loops end: what a launch may do at most is no limit for it."""
    source = variant("for (int k = 0; k < 3000; ++k) if (i < n) y[i] = x[(i + k) % n];")
    monkeypatch.setattr(submission, "ENDLESS_WORK", 1 << 10)
    monkeypatch.setattr(submission, "MOST_ENDLESS_WORK", 1 << 12)
    kernel = load(source)
    kernel.reference = lambda: load(source)
    sizes, arrays = {"n": 64}, kernel.inputs({"n": 64}, np.random.default_rng(5))
    needed = kernel._needed(sizes, arrays, None)
    assert needed > submission.MOST_ENDLESS_WORK
    kernel.run(sizes, arrays)
    assert int(kernel.spent["executed"]) >= needed


def test_products_of_warpgroups_cost_what_following_them_takes():
    counted = {"tensor_instructions": 10, "warp_instructions": 10}
    assert submission._work(counted) == 10
    assert submission._work(counted, in_warpgroups=True) > 1000 * submission._work(counted)
    reference = load(STEP)
    assert "wgmma" not in reference._program("sim", None).module.ptx
    assert reference._program("sim", None).worked(counted) == 10


def test_the_gravest_hazard_speaks():
    found = judgement(run, "t[threadIdx.x] = 0; if (i < n) y[i] = t[threadIdx.x ^ 32];\n    y[i + 64] = 1;")
    assert found.verdict is Verdict.OOB
    assert "more places" in found.seen


def test_hazards_can_be_left_out():
    kernel = load(variant("t[threadIdx.x] = 0; if (i < n) y[i] = 2 * x[i] + t[threadIdx.x ^ 32];"))
    arrays = kernel.inputs({"n": 64}, np.random.default_rng(5))
    assert kernel.run({"n": 64}, arrays, hazards=False).hazards
    kernel.no_hazards({"n": 64}, arrays, kinds=("out-of-bounds",))
    assert judgement(kernel.no_hazards, {"n": 64}, arrays).verdict is Verdict.RACE
    assert judgement(kernel.counters, {"n": 64}, arrays).verdict is Verdict.RACE
    with pytest.raises(GradingError, match="no verdict is known"):
        kernel.no_hazards({"n": 64}, arrays, kinds=("rase",))


def test_inputs_are_seeded_and_can_be_given():
    kernel = load(STEP)
    first = kernel.inputs({"n": 100}, np.random.default_rng(1))["x"]
    assert first.dtype == np.float32
    assert -1 <= first.min() < -0.5 < 0.5 < first.max() < 1
    np.testing.assert_array_equal(first, kernel.inputs({"n": 100}, np.random.default_rng(1))["x"])
    assert kernel.inputs({"n": 2}, np.random.default_rng(1), x=[3, 4])["x"].tolist() == [3, 4]
    assert list(kernel.inputs({"n": 2}, np.random.default_rng(1))) == ["x"]


def test_budgets():
    kernel = load(STEP)
    arrays = kernel.inputs({"n": 128}, np.random.default_rng(1))
    counters = kernel.counters({"n": 128}, arrays)
    kernel.within(counters.global_load_bytes, 512, "requested bytes")
    kernel.at_least(counters.global_load_bytes, 512, "requested bytes")
    found = judgement(kernel.within, 1024, 512, "requested bytes", unit="bytes", line=6)
    assert (found.verdict, found.line) == (Verdict.PERF, 6)
    assert found.seen == "requested bytes: 1,024 bytes; at most 512 bytes"
    assert judgement(kernel.at_least, 1.5, 2, "reuse").seen == "reuse: 1.5; at least 2"
    assert judgement(kernel.within, math.nan, 512, "x").verdict is Verdict.PERF
    assert judgement(kernel.at_least, math.nan, 0, "x").verdict is Verdict.PERF


def test_excess_sectors_name_the_line():
    sizes = {"n": 1024}
    kernel = load(STEP)
    kernel.no_excess_sectors(sizes, kernel.inputs(sizes, np.random.default_rng(1)))
    kernel = load(variant("const int j = i * 32 % n + i * 32 / n;\n    if (i < n) y[i] = x[j] + x[j];"))
    arrays = kernel.inputs(sizes, np.random.default_rng(1))
    found = judgement(kernel.no_excess_sectors, sizes, arrays)
    assert (found.verdict, found.line) == (Verdict.PERF, 7)
    assert "global loads take 896 sectors more than needed, 896 of them in line 7 (28 for each request" in found.seen
    kernel.no_excess_sectors(sizes, arrays, loads=False)
    kernel.no_excess_sectors(sizes, arrays, most=896)
    assert judgement(kernel.no_excess_sectors, sizes, arrays, most=895).seen == found.seen


def test_excess_wavefronts_name_the_line():
    sizes = {"n": 64}
    body = "t[threadIdx.x * 2 % 64 + threadIdx.x / 32] = 1;\n    __syncthreads(); if (i < n) y[i] = t[threadIdx.x];"
    kernel = load(variant(body))
    arrays = kernel.inputs(sizes, np.random.default_rng(1))
    found = judgement(kernel.no_excess_wavefronts, sizes, arrays)
    assert (found.verdict, found.line) == (Verdict.PERF, 6)
    assert "shared stores take 2 wavefronts" in found.seen
    kernel.no_excess_wavefronts(sizes, arrays, stores=False)


def test_resources():
    assert load(STEP).resources()["scale"].registers > 0


def test_grader_mistakes_are_no_verdict_on_the_student():
    kernel = load(STEP)
    arrays = kernel.inputs({"n": 4}, np.random.default_rng(1))
    with pytest.raises(GradingError, match="'z' is no output"):
        kernel.check_against(kernel.run({"n": 4}, arrays), {"z": np.zeros(4)})
    assert judgement(kernel.run, {"n": 4}, {"x": np.zeros(4)}).verdict is Verdict.SE


def test_where_the_gpu_lacks_something_the_simulator_judges_and_the_reason_is_kept(monkeypatch):
    from warpschool.device import SimDevice, module as find
    from warpschool.errors import DeviceLacks

    class SmallDevice(SimDevice):
        name = "gpu"
        asked = 0

        def load(self, module):
            self.asked += 1
            raise DeviceLacks("147,456 bytes of dynamic shared memory; a small GPU allows 101,376")

    small = SmallDevice()
    monkeypatch.setattr(find, "gpu_problem", lambda: None)
    monkeypatch.setattr(find, "_gpu", lambda: small)
    kernel = load_submission(STEP, name="k.cu", on_gpu=True)
    assert not kernel.not_on_gpu
    arrays = kernel.inputs({"n": 64}, np.random.default_rng(5))
    for _ in range(2):
        result = kernel.run({"n": 64}, arrays)
        np.testing.assert_array_equal(result.outputs["y"], 2 * arrays["x"])
    assert "147,456 bytes" in kernel.not_on_gpu
    assert small.asked == 1, "a GPU that cannot is not asked again"
    wrong = load_submission(variant("    if (i < n) y[i] = 3 * x[i];\n"), name="k.cu", on_gpu=True)
    expected = {"y": 2 * arrays["x"].astype(float)}
    assert judgement(wrong.check_against, wrong.run({"n": 64}, arrays), expected).verdict is Verdict.WA


def test_sizes_that_needs_refuses_are_a_launch_error():
    source = STEP.replace("// Launch", "// Needs: n % 64 == 0\n// Launch")
    kernel = load(source)
    found = judgement(kernel.run, {"n": 100}, {"x": np.zeros(100, np.float32)})
    assert found.verdict is Verdict.LE
    assert "needs n % 64 == 0" in found.seen


@pytest.mark.parametrize("may_use_atomics", [True, False])
def test_on_a_gpu_the_simulator_judges_and_the_gpus_outputs_are_compared(monkeypatch, may_use_atomics):
    from warpschool.device import SimDevice, module as find

    class OtherDevice(SimDevice):
        """Stands in for a GPU: it counts nothing, looks for no hazards, and computes something else."""

        name = "gpu"
        launches = 0

        def asnumpy(self, array, *, stream=None):
            self.launches += array.name == "y"
            return super().asnumpy(array, stream=stream) + (array.name == "y")

    other = OtherDevice(count=False, check=False)
    monkeypatch.setattr(find, "gpu_problem", lambda: None)
    monkeypatch.setattr(find, "_gpu", lambda: other)
    step = parse_contract(STEP, name="step.cu")
    kernel = load_submission(STEP, name="k.cu", step=step, on_gpu=True, may_use_atomics=may_use_atomics)
    arrays = kernel.inputs({"n": 64}, np.random.default_rng(5))
    result = kernel.run({"n": 64}, arrays)
    np.testing.assert_array_equal(result.outputs["y"], 2 * arrays["x"] + 1)
    assert result.counters.global_load_bytes == 256
    assert other.launches == 1
    body = "t[threadIdx.x] = 0; if (i < n) y[i] = t[threadIdx.x ^ 32];"
    racing = load_submission(variant(body), name="k.cu", on_gpu=True)
    assert judgement(racing.run, {"n": 64}, arrays).verdict is Verdict.RACE
    assert other.launches == 1  # a kernel with hazards never reaches the GPU
