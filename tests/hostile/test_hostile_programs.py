"""Hand-ins with host code: what their compilers and their processes are kept from, tried by programs that try it."""

from __future__ import annotations

import pytest

from warpschool.course import Course
from warpschool.errors import WarpschoolError
from warpschool.grading import program_build
from warpschool.grading.confinement import confinement_problem
from warpschool.grading.jobs import KernelJob
from warpschool.grading.program import load_program
from warpschool.grading.program_build import build_program
from warpschool.grading.verdicts import Judgement, Verdict
from warpschool.harness.source import Source
from warpschool.programs import find_tools

STEP = "lab14_programs/01_whole_program"


def missing() -> str:
    try:
        find_tools()
    except WarpschoolError as problem:
        return problem.message
    return confinement_problem()


needs_programs = pytest.mark.skipif(bool(missing()), reason=f"programs cannot be built or confined here: {missing()}")

HEAD = """
#include <arpa/inet.h>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
__global__ void nothing() {}
void say(const char* what, bool could) { printf("%s %s\\n", what, could ? "yes" : "no"); fflush(stdout); }
"""
TRIES = HEAD + """
int main(int argc, char** argv)
{
    const char* files[] = {"GRADER", "SOLUTION", "/etc/passwd", "/proc/1/environ", "SECRET"};
    for (const char* name : files) say("read", open(name, O_RDONLY) >= 0);
    say("list", opendir("FOLDER") != nullptr);
    say("write", open("/tmp/warpschool-left-behind", O_WRONLY | O_CREAT, 0600) >= 0);
    say("write beside", open("OUTSIDE/left", O_WRONLY | O_CREAT, 0600) >= 0);
    say("socket", socket(AF_INET, SOCK_STREAM, 0) >= 0 || socket(AF_UNIX, SOCK_STREAM, 0) >= 0);
    pid_t child = fork();
    if (child == 0) _exit(0);
    say("fork", child > 0);
    say("system", system("true") == 0);
    say("trace", ptrace(PTRACE_ATTACH, getppid(), nullptr, nullptr) == 0);
    say("environment", getenv("HOME") || getenv("PATH") || getenv("WARPSCHOOL_CACHE"));
    say("own folder", open("mine.bin", O_WRONLY | O_CREAT, 0600) >= 0);
    char* const none[] = {nullptr};
    char path[] = "/bin/true", *words[] = {path, nullptr};
    execve(path, words, none);
    say("execute", false);
    nothing<<<1, 1>>>();
    return cudaDeviceSynchronize();
}
"""


def built(text, folder):
    source = Source(text.encode(), "01_whole_program.cu", "test")
    return source, build_program(source, folder, must=True, may_cache=False)


def run(text, folder, **more):
    source, file = built(text, folder)
    program = load_program(source.data, source.name, file)
    return program.run([], judged=False, **more)


@needs_programs
def test_a_program_reads_and_writes_nothing_but_its_own_folder_and_starts_nothing(tmp_path):
    step = Course.find().step(STEP)
    secret, outside = tmp_path / "secret.txt", tmp_path / "outside"
    secret.write_text("the class's secret\n")
    outside.mkdir()
    (tmp_path / "build").mkdir()
    text = TRIES
    for word, path in {
        "GRADER": step.grader, "SOLUTION": step.solution, "SECRET": secret, "FOLDER": step.grader.parent,
        "OUTSIDE": outside,
    }.items():  # fmt: skip
        text = text.replace(word, str(path))
    found = run(text, tmp_path / "build")
    said = found.output.splitlines()
    assert said == [
        *["read no"] * 5, "list no", "write no", "write beside no", "socket no", "fork no", "system no", "trace no",
        "environment no", "own folder yes", "execute no",
    ], found.output + found.errors  # fmt: skip
    assert found.status == 0 and len(found.calls("launch")) == 1
    assert list(found.files) == ["mine.bin"] and not list(outside.iterdir())


@needs_programs
@pytest.mark.parametrize(
    "line",
    ['#include "{file}"', 'asm(".incbin \\"{file}\\"");', 'const char x[] = {{\n#embed "{file}"\n}};'],
    ids=["include", "incbin", "embed"],
)
@pytest.mark.parametrize("which", ["solution", "secret"])
def test_compilers_of_a_hand_in_see_no_file_of_the_course(line, which, tmp_path):
    secret = tmp_path / "secret.txt"
    secret.write_text("int known_word_of_the_secret;\n")
    file = Course.find().step(STEP).solution if which == "solution" else secret
    (tmp_path / "build").mkdir()
    _, file = built(line.format(file=file) + "\nint main() { return 0; }\n", tmp_path / "build")
    assert file.verdict == Verdict.CE
    assert "known_word" not in file.said and "saxpy" not in file.said


@needs_programs
def test_host_code_that_never_ends_is_ended_by_what_it_uses(tmp_path, monkeypatch):
    monkeypatch.setattr("warpschool.grading.program.HOST_CPU_S", 1)
    with pytest.raises(Judgement) as told:
        run(HEAD + "int main() { volatile long k = 0; for (;;) k = k + 1; }", tmp_path)
    assert told.value.verdict is Verdict.TLE and "processor time" in told.value.said


@needs_programs
def test_a_program_that_waits_for_ever_is_ended(tmp_path, monkeypatch):
    monkeypatch.setattr("warpschool.grading.program.IDLE_S", 2)
    with pytest.raises(Judgement) as told:
        run(HEAD + "int main() { pause(); }", tmp_path)
    assert told.value.verdict is Verdict.TLE and "waits" in told.value.said


@needs_programs
def test_a_kernel_that_never_ends_is_ended_by_its_budget(tmp_path):
    text = """__global__ void spin(volatile int* x) { while (*x == 0) {} }
int main() { int* x; cudaMalloc(&x, 4); cudaMemset(x, 0, 4); spin<<<1, 1>>>(x); return cudaDeviceSynchronize() != 0; }
"""
    found = run(text, tmp_path)
    assert found.status == 1 and [note.kind for note in found.report.notes] == ["endless"]


@needs_programs
def test_output_without_end_is_cut(tmp_path):
    with pytest.raises(Judgement) as told:
        source, file = built('#include <cstdio>\nint main() { for (;;) puts("again and again"); }', tmp_path)
        load_program(source.data, source.name, file).run([])
    assert told.value.verdict is Verdict.OLE


@needs_programs
@pytest.mark.slow
def test_what_a_check_says_does_not_depend_on_where_it_ran(tmp_path):
    """Names of folders and addresses differ from run to run; results do not."""
    source = Course.find().step(STEP).solution.read_bytes().replace(b"CHECK(cudaFree(d_x));", b"")
    first, again = (KernelJob(STEP, source).run().to_json() for _ in range(2))
    assert first == again and "MLE" in first and "/tmp" not in first


def test_without_confinement_a_class_is_not_graded_and_nobody_gets_zero_points(monkeypatch):
    monkeypatch.setattr(program_build, "confinement_problem", lambda: "this kernel has no Landlock")
    result = KernelJob(STEP, Course.find().step(STEP).solution.read_bytes()).run()
    assert result.verdict is Verdict.SE and not result.is_grade
    assert "no Landlock" in result.seen and "programs of other people" in result.seen


