"""The command line: exit codes, JSON, plain text, and what it says about bad input."""

from __future__ import annotations

import errno
import json
import os
import re
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from warpschool import cli
from warpschool.authoring import specimens
from warpschool.cli import app, main, output
from warpschool.cli.output import BAD_INPUT, FAILED, LACKING, OK
from warpschool.course import Course
from warpschool.device import gpu_problem
from warpschool.inspect import machine

SAXPY = Course.find().step("lab00_first_kernels/01_saxpy")
SOLUTIONS = Course.find().root / "solutions"
NO_GUARD = specimens.read(Path(__file__).parents[2] / "specimens" / SAXPY.name / "no_guard.toml")
WGMMA = Course.find().step("lab07_tensor_cores/06_wgmma")
ANSI = re.compile(r"\x1b\[")
COMMANDS = sorted(typer.main.get_command(app).commands)


@pytest.fixture(autouse=True)
def _own_cache(tmp_path_factory, monkeypatch):
    """Results of other runs must not show up in `status` and `hint`."""
    monkeypatch.setenv("WARPSCHOOL_CACHE", str(tmp_path_factory.getbasetemp() / "cli-cache"))


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(*arguments: object, stdin: str = ""):
    return CliRunner().invoke(app, [str(argument) for argument in arguments], input=stdin)


def run_process(*arguments: object, **environment: str) -> subprocess.CompletedProcess[str]:
    settings = {key: value for key, value in os.environ.items() if key not in ("NO_COLOR", "FORCE_COLOR")}
    return subprocess.run(
        [sys.executable, "-m", "warpschool", *map(str, arguments)],
        env=settings | environment, capture_output=True, text=True, timeout=600, check=False,
    )  # fmt: skip


def squeezed(text: str) -> str:
    return " ".join(re.sub(r"[│╭╮╰╯─]", " ", text).split())


@pytest.mark.parametrize("command", COMMANDS)
def test_help_teaches_with_an_example_and_names_the_exit_codes(command):
    said = squeezed(run(command, "--help").output)
    assert f"Example: warpschool {command}" in said
    assert "1 the kernel failed, 2 bad input, 3 this machine lacks something" in said
    assert "--json" in said
    assert "--plain" in said


def test_help_lists_every_command():
    said = run("--help").output
    assert all(re.search(rf"\b{command}\b", said) for command in COMMANDS)


def test_version():
    assert re.fullmatch(r"warpschool \d+\.\d+\.\d+\n", run("--version").output)


# ---------------------------------------------------------------- check


def test_check_accepts_the_reference():
    result = run("check", "lab00/01", "--kernel", SAXPY.solution)
    assert result.exit_code == OK
    assert "AC, accepted" in result.output
    assert "hint" not in result.output


def test_check_draws_the_finding_on_the_line_and_gives_one_hint(tmp_path):
    kernel = tmp_path / "no_guard.cu"
    kernel.write_text(NO_GUARD.source(SOLUTIONS))
    result = run("check", "lab00/01", "--kernel", kernel)
    assert result.exit_code == FAILED
    line = NO_GUARD.line(kernel.read_text())
    assert re.search(rf">\s+{line} \|", result.output)
    assert re.search(r"\| +\^+", result.output)
    assert re.search(r"thread \(\d+, 0, 0\) of block", result.output)
    assert "24 threads too many" in result.output
    assert "warpschool hint lab00/01 2" in result.output


def test_check_json_is_the_result_and_nothing_else():
    result = run("check", SAXPY, "--kernel", SAXPY.solution, "--json", "--seed", 3)
    found = json.loads(result.stdout)
    assert (found["verdict"], found["seed"], found["score"]) == ("AC", 3, found["max_score"])


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda path: None, "there is no file"),
        (lambda path: path.mkdir(), "is a folder"),
        (lambda path: path.write_bytes(b"// x\n\xff\xfe"), "kernel.cu:2: byte 0xff is not UTF-8"),
        (lambda path: path.write_bytes(b""), "is empty"),
        (lambda path: path.write_text(" \n\n"), "is empty"),
    ],
)
@pytest.mark.parametrize("command", ["check", "profile"])
def test_a_bad_kernel_file_is_bad_input(folder, command, make, says):
    make(folder / "kernel.cu")
    arguments = ["check", "lab00/01", "--kernel"] if command == "check" else ["profile"]
    result = run(*arguments, "kernel.cu")
    assert result.exit_code == BAD_INPUT
    assert says in result.stderr
    assert "next:" in result.stderr
    assert "Traceback" not in result.output


def test_an_unknown_step_is_bad_input_and_offers_others():
    result = run("check", "lab00_first_kernels/01_saxpi")
    assert result.exit_code == BAD_INPUT
    assert "Did you mean lab00_first_kernels/01_saxpy?" in result.stderr


def test_errors_are_json_too():
    result = run("check", "nonsense", "--json")
    assert result.exit_code == BAD_INPUT
    assert json.loads(result.stdout)["error"]["kind"] == "CourseError"


@pytest.mark.skipif(gpu_problem() is None, reason="this machine has a GPU")
def test_a_missing_gpu_is_what_the_machine_lacks():
    result = run("check", "lab00/01", "--kernel", SAXPY.solution, "--device", "gpu")
    assert result.exit_code == LACKING
    assert "no GPU" in result.stderr


def test_a_kernel_may_come_through_a_pipe(tmp_path):
    """What the shell's `<(...)` gives can be read once."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=lambda: pipe.write_bytes(Path(SAXPY.solution).read_bytes()), daemon=True)
    writer.start()
    result = run("check", "lab00/01", "--kernel", pipe, "--json")
    writer.join(60)
    assert json.loads(result.stdout)["verdict"] == "AC"
    refused = run("check", "lab00/01", "--kernel", pipe, "--watch")
    assert refused.exit_code and "is a pipe" in refused.output


@pytest.mark.slow
def test_check_of_a_step_for_one_kind_of_gpu():
    result = run("check", "lab07/06", "--kernel", WGMMA.solution, "--device", "sim", "--plain")
    assert result.exit_code == OK and "accepted" in squeezed(result.output)


def test_check_without_a_kernel_of_ones_own_in_an_installed_course(folder, monkeypatch):
    monkeypatch.setattr("warpschool.harness.source.checkout_root", lambda: None)
    result = run("check", "lab00/01")
    assert result.exit_code == BAD_INPUT
    assert "warpschool start" in result.stderr


def test_watch_checks_again_when_the_file_is_saved(folder):
    kernel = folder / "kernel.cu"
    kernel.write_text(SAXPY.starter.read_text())
    process = subprocess.Popen(
        [sys.executable, "-u", "-m", "warpschool", "check", "lab00/01", "--kernel", str(kernel), "--watch"],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip
    try:
        first = _until(process, "watching")
        kernel.write_text(SAXPY.solution.read_text())
        second = _until(process, "watching")
    finally:
        process.send_signal(2)
        rest, _ = process.communicate(timeout=240)
    assert "WA" in first
    assert "AC, accepted" in second
    assert process.returncode == OK
    assert "Traceback" not in rest


def _until(process: subprocess.Popen[str], word: str) -> str:
    said, deadline = "", time.monotonic() + 240
    while word not in said and time.monotonic() < deadline:
        said += process.stdout.readline()
    return said


# ---------------------------------------------------------------- one's own copy


def test_start_makes_a_copy_and_never_overwrites(folder):
    assert run("start", "mine").exit_code == OK
    own = folder / "mine" / "kernels" / "lab00_first_kernels" / "01_saxpy.cu"
    assert own.read_text() == SAXPY.starter.read_text()
    own.write_text("my work")
    again = json.loads(run("start", "mine", "--json").stdout)
    assert again["added"] == []
    assert own.read_text() == "my work"


def test_start_adds_what_is_missing(folder):
    run("start", "mine")
    own = folder / "mine" / "kernels" / "lab00_first_kernels" / "01_saxpy.cu"
    own.unlink()
    added = json.loads(run("start", "mine", "--json").stdout)["added"]
    assert added == ["kernels/lab00_first_kernels/01_saxpy.cu"]


def test_start_refuses_a_file(folder):
    (folder / "file").write_text("")
    assert run("start", "file").exit_code == BAD_INPUT


def test_status_and_hint_follow_the_work(folder, monkeypatch):
    run("start", "mine")
    monkeypatch.chdir(folder / "mine")
    own = Path("kernels/lab00_first_kernels/01_saxpy.cu")
    assert _state() == "not started"
    own.write_text(SAXPY.starter.read_text() + "\n// begun\n")
    assert _state() == "changed, not checked"
    assert run("check", "lab00/01").exit_code == FAILED
    assert _state() == "WA: wrong results"
    assert "Right answers" in json.loads(run("hint", "lab00/01", "--json").stdout)["hints"]
    own.write_text(SAXPY.solution.read_text())
    assert run("check", "lab00/01").exit_code == OK
    assert _state() == "accepted"
    assert "nothing to hint at" in run("hint", "lab00/01").output


def test_a_check_of_a_starter_as_it_was_given_takes_no_hint_away(folder, monkeypatch):
    run("start", "mine")
    monkeypatch.chdir(folder / "mine")
    before = json.loads(run("hint", "lab00/03", "--json").stdout)["hints"]
    assert run("check", "lab00/03").exit_code == FAILED
    assert json.loads(run("hint", "lab00/03", "--json").stdout)["hints"] == before


def _state() -> str:
    rows = json.loads(run("status", "--json").stdout)["steps"]
    return next(row["state"] for row in rows if row["step"] == SAXPY.name)


def test_hint_levels_build_on_each_other():
    first, third = (json.loads(run("hint", "lab00/01", level, "--json").stdout)["hints"] for level in (1, 3))
    assert all(len(hints) == 1 for hints in first.values())
    assert all(third[title][:1] == hints and len(third[title]) == 3 for title, hints in first.items())
    assert run("hint", "lab00/01", 4).exit_code == BAD_INPUT


def test_diff_of_a_solution_and_its_starter_only_adds():
    found = json.loads(run("diff", SAXPY.starter, SAXPY.solution, "--json").stdout)
    assert found["removed"] == 0
    assert found["added"] > 0


def test_diff_of_two_references():
    result = run("diff", "lab01/01", "lab02/01", "--solutions")
    assert result.exit_code == OK
    assert "+    __shared__ float tileA" in result.output


def test_solution_asks_first(folder):
    assert run("solution", "lab00/01").exit_code == BAD_INPUT  # nobody there to be asked
    shown = run("solution", "lab00/01", "--yes")
    assert "z[i] = a * x[i] + y[i];" in shown.output


# ---------------------------------------------------------------- profile, doctor, and the rest


def test_profile_shows_costs_per_line():
    result = run("profile", Course.find().step("lab01/01").solution, "--size", "M=32", "--size", "N=32", "-s", "K=16")
    assert result.exit_code == OK
    row = next(line for line in result.output.splitlines() if "sum += A[row * K + k]" in line)
    assert re.match(r"\s*\d+\s+\d+ %", row)
    assert f"{32 * 32 * 16:,}" in row  # one FMA for each product


def test_profile_json_has_counters_of_lines_and_replaced_constants():
    source = Course.find().step("lab02/01").solution
    found = json.loads(
        run("profile", source, "-s", "M=16", "-s", "N=16", "-s", "K=16", "-c", "TILE=8", "--json").stdout
    )
    assert found["launches"][0]["block"] == [8, 8, 1]
    assert found["counters"]["fma_instructions"] == 16**3
    assert sum(line.get("fma_instructions", 0) for line in found["lines"].values()) == 16**3


def test_profile_of_a_kernel_with_a_hazard_fails(folder):
    kernel = folder / "no_guard.cu"
    kernel.write_text(NO_GUARD.source(SOLUTIONS))
    result = run("profile", kernel, "--size", "n=100", "--html", "page.html")
    assert result.exit_code == FAILED
    assert "out-of-bounds" in result.output
    assert "out-of-bounds" in (folder / "page.html").read_text()


@pytest.mark.parametrize(
    ("what", "word"), [("ptx", ".visible .entry saxpy"), ("lanes", "uniform"), ("ir", "define"), ("asm", "run_blocks:")]
)
def test_profile_emits_code(what, word):
    result = run("profile", SAXPY.solution, "--emit", what)
    assert result.exit_code == OK
    assert word in result.stdout


@pytest.mark.parametrize(
    "arguments", [["-s", "M"], ["-s", "n=x"], ["-s", "Q=3"], ["-c", "BLOCK=1.5"], ["--emit", "ptx", "--json"]]
)
def test_profile_refuses_bad_numbers(arguments):
    result = run("profile", SAXPY.solution, *arguments)
    assert result.exit_code == BAD_INPUT
    assert "Traceback" not in result.output


def test_profile_quotes_the_compiler(folder):
    Path("bad.cu").write_text(SAXPY.solution.read_text().replace("a * x[i]", "a * q[i]"))
    result = run("profile", "bad.cu")
    assert result.exit_code == FAILED
    assert 'identifier "q" is undefined' in result.stderr


def test_doctor_knows_what_works():
    result = run("doctor", "--json")
    found = {f["what"]: f["state"] for f in json.loads(result.stdout)["findings"]}
    assert result.exit_code == OK
    assert found["compiler"] == found["simulator"] == found["course"] == "ok"


def test_doctor_without_a_compiler_lacks_something(monkeypatch, folder):
    monkeypatch.setenv("WARPSCHOOL_CUDA", str(folder))
    from warpschool.compile import find_toolchain

    find_toolchain.cache_clear()
    try:
        result = run("doctor")
    finally:
        find_toolchain.cache_clear()
    assert result.exit_code == LACKING
    assert "no NVRTC" in result.output


@pytest.mark.parametrize("command", [["lab"], ["release", "lab02"]])
def test_what_is_not_there_says_what_to_install(command, folder, monkeypatch):
    run("start", ".")
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    result = run(*command)
    assert result.exit_code == LACKING
    assert "next:" in result.stderr


def test_grade_takes_every_file_and_writes_the_results(folder):
    for student, source in {"ada": SAXPY.solution, "bob": SAXPY.starter}.items():
        target = folder / "in" / student / "lab00_first_kernels"
        target.mkdir(parents=True)
        (target / "01_saxpy.cu").write_text(source.read_text())
    (folder / "in" / "ada" / "notes.cu").write_text("// nothing")
    result = run("grade", "in", "--out", "results.json")
    assert result.exit_code == OK
    found = json.loads(Path("results.json").read_text())
    assert [(r["student"], r["result"]["verdict"]) for r in found["results"]] == [("ada", "AC"), ("bob", "WA")]
    assert found["foreign"] == ["ada/notes.cu"]
    assert run("grade", "in/ada", "--step", "lab00/01", "--json").exit_code == OK


def test_grade_of_nothing_is_bad_input(folder):
    assert run("grade", ".").exit_code == BAD_INPUT
    assert run("grade", "nowhere").exit_code == BAD_INPUT


# ---------------------------------------------------------------- real processes


def test_output_that_is_no_terminal_is_plain():
    result = run_process("check", "lab00/01", "--kernel", SAXPY.starter, FORCE_COLOR="")
    assert result.returncode == FAILED
    assert not ANSI.search(result.stdout + result.stderr)
    assert "\r" not in result.stdout + result.stderr


@pytest.mark.parametrize("environment", [{"NO_COLOR": "1"}, {"TERM": "dumb"}, {}], ids=["NO_COLOR", "dumb", "colour"])
def test_terminals(environment):
    """In a pseudo-terminal colour appears, and NO_COLOR and dumb terminals get none and no redraws."""
    pexpect = pytest.importorskip("pexpect")
    settings = {k: v for k, v in os.environ.items() if k != "NO_COLOR"} | {"TERM": "xterm-256color"} | environment
    said, code = pexpect.run(
        f"{sys.executable} -m warpschool diff {SAXPY.starter} {SAXPY.solution}",
        env=settings, withexitstatus=True, timeout=240,
    )  # fmt: skip
    assert code == OK
    assert bool(ANSI.search(said.decode())) is (not environment)


def test_the_reader_of_a_pipe_may_leave():
    command = f"{sys.executable} -m warpschool profile {SAXPY.solution} --emit ptx | head -1"
    result = subprocess.run(["sh", "-c", command], capture_output=True, text=True, timeout=240, check=False)
    assert result.returncode == OK
    assert "Traceback" not in result.stderr


def test_a_bug_is_reported_on_one_screen(monkeypatch):
    def broken(*_, **__):
        raise RuntimeError("boom")

    monkeypatch.setattr("warpschool.course.Course.find", broken)
    result = run("status")
    assert result.exit_code == 70
    assert "warpschool itself failed: RuntimeError: boom" in result.stderr
    assert "Traceback" not in result.stderr


def test_help_is_broken_by_the_terminal_and_not_by_the_source(monkeypatch):
    monkeypatch.setattr("typer.rich_utils.MAX_WIDTH", 300)
    said = run("start", "--help").output
    (line,) = [line for line in said.splitlines() if "Run it again after an update" in line]
    assert "the new version is put beside yours." in line


USAGE = [
    (["check"], "Missing argument 'STEP'", "For example: warpschool check lab02/01 --watch"),
    (["chek", "lab00/01"], "No such command 'chek'", "warpschool --help tells what there is"),
    (["check", "lab00/01", "--wach"], "No such option: --wach", "warpschool check lab02/01 --watch"),
    (["check", "lab00/01", "my.cu"], "Got unexpected extra argument", "for another file: warpschool check"),
    (["hint", "lab00/01", "7"], "Invalid value for 'LEVEL'", "warpschool hint lab02/01 2"),
    (["new-lab"], "Missing argument 'NAME'", "For example: warpschool new-lab reduction"),
]


@pytest.mark.parametrize(("arguments", "problem", "advice"), USAGE)
def test_a_wrong_command_line_is_a_sentence_and_an_example(arguments, problem, advice, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["warpschool", *arguments])
    with pytest.raises(SystemExit) as caught:
        main()
    said = capsys.readouterr()
    assert caught.value.code == BAD_INPUT and not said.out
    error, next_line = said.err.splitlines()
    assert error.startswith(f"error: {problem}") and next_line.startswith("next: ") and advice in next_line


def test_a_wrong_command_line_with_json_is_a_document(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["warpschool", "check", "--json"])
    with pytest.raises(SystemExit):
        main()
    assert "For example: warpschool check" in json.loads(capsys.readouterr().out)["error"]["next_step"]


@pytest.mark.parametrize(("arguments", "code"), [([], OK), (["--version"], OK), (["diff", "lab00/01"], OK),
                                                 (["check", "lab99/01"], BAD_INPUT)])  # fmt: skip
def test_the_console_script_exits_as_the_command_does(arguments, code, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["warpschool", *arguments])
    with pytest.raises(SystemExit) as caught:
        main()
    assert (caught.value.code or OK) == code
    assert "check" in capsys.readouterr().out or arguments


def test_every_error_of_a_command_says_what_to_do_next(folder):
    (folder / "copy").mkdir()
    (folder / "f").write_text("")
    for arguments in (
        ["check", "lab99/01"], ["check", "lab00/01", "--watch", "--json"], ["debug", "nothing.cu"],
        ["solution", "lab00/01"], ["profile", "copy"], ["check", "lab00/01", "--kernel", "copy"], ["start", "f"],
        ["new-lab", "x", "--root", "copy"], ["tour", "--html", "no/such/page.html"], ["tour", "--gpu", "rtx1"],
        ["diff", "lab00/99"], ["release", "lab00"],
    ):  # fmt: skip
        result = run(*arguments)
        assert result.exit_code in (BAD_INPUT, LACKING), arguments
        assert re.search(r"^next: \S", result.stderr, flags=re.MULTILINE), arguments


def test_a_copy_that_is_one_folder_down_is_named(folder, monkeypatch):
    monkeypatch.setattr("warpschool.harness.source.checkout_root", lambda: None)
    (folder / "copy").mkdir()
    (folder / "copy" / ".warpschool").write_text("{}")
    assert "cd copy" in run("check", "lab00/01").stderr
    monkeypatch.chdir(folder / "copy")
    assert f"bring it back with: warpschool start {folder}" in run("check", "lab00/01").stderr


def test_doctor_tries_to_write(monkeypatch, tmp_path):
    assert machine._writing_problem(tmp_path / "to" / "come") == ""

    def full(**_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(machine.tempfile, "NamedTemporaryFile", full)
    found = machine._cache()
    assert found.state == "no" and "No space left on device" in found.text and "WARPSCHOOL_CACHE" in found.next_step


def test_where_home_is_read_only_matplotlib_has_its_folder(monkeypatch, tmp_path):
    monkeypatch.delenv("MPLCONFIGDIR", raising=False)
    monkeypatch.setenv("WARPSCHOOL_CACHE", str(tmp_path))
    monkeypatch.setattr(os, "access", lambda path, mode: str(path).startswith(str(tmp_path)))
    cli._spare_matplotlibs_complaint()
    assert os.environ["MPLCONFIGDIR"] == str(tmp_path / "matplotlib")


def test_a_damaged_installation_is_told_from_a_fault_of_warpschool():
    lacking = ModuleNotFoundError("No module named 'llvmlite'", name="llvmlite")
    own = ImportError("cannot import name 'x' from 'warpschool.course'", name="warpschool.course")
    assert (output.exit_code(lacking), output.exit_code(own)) == (LACKING, output.BUG)
    assert "Install it anew" in output._words(lacking)[1] and "Please report it" in output._words(own)[1]
