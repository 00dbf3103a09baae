"""What the corpus must hold, kind by kind: each names the submissions, or the test, that stand for it."""

from __future__ import annotations

from pathlib import Path

import pytest

from . import hostile_kernels, hostile_labs, hostile_more, hostile_notebooks, hostile_steps

assert hostile_more.RIGHT_LINE and hostile_steps.BARRIER and hostile_labs.SCAN  # their import has filled the table
KERNELS = {attack.name: attack.verdict for attack in hostile_kernels.ATTACKS}
NOTEBOOKS = {attack.name: attack.verdict for attack in hostile_notebooks.ATTACKS}
TESTS = Path(__file__).parents[1]

OF_KERNELS = {
    "endless loop": ("endless loop", "endless loop over barriers"),
    "template bomb": ("template bomb",),
    "macro bomb": ("macro bomb of 475 bytes",),
    "identifier of 10 MB": ("identifier of 10 MB",),
    "system files": ("include of a system file", "include of the environment"),
    "the reference, plain": ("include of the reference", "include of a secret file"),
    "by digraph": ("include by digraph",),
    "spliced": ("include by splices",),
    "by a macro": ("include by a macro",),
    "__has_include": ("question whether a file exists",),
    "#line": ("forged line numbers",),
    "second entry": ("second entry by inline assembly", "entry that replaces its own"),
    "forged pointers": ("forged pointer", "pointer read from data"),
    "off by one": ("reads one too far, right output",),
    "missing barrier": ("missing barrier, right output",),
    "400 MB of shared memory": ("400 MB of static shared memory",),
    "printf": ("printf flood",),
    "malloc": ("device malloc loop",),
    "recursion": ("recursion", "endless recursion"),
    "nothing written": ("nothing written",),
    "NaN": ("NaN everywhere",),
    "inputs overwritten": ("inputs overwritten", "inputs overwritten after use"),
    "public sizes": ("sizes hard-coded",),
    "state": ("state kept in device variables", "answer kept from the launch before"),
    "encodings": ("byte order mark", "Windows line ends", "UTF-16"),
    "empty": ("empty file",),
    "past the counters": ("loads that are atomics", "stores that are atomics", "matrices in constant memory"),
    "the time of day": ("the hour of the day", "the hour by pasted letters"),
    "names that macros change": ("float is double", "the entry's name is another's", "global is nothing"),
    "past the header": ("an input that a kernel of one's own writes first", "an output that is scratch"),
}
OF_NOTEBOOKS = {
    "tags": ("skip-execution tags",),
    "input transformers": ("input transformers",),
    "deleted": ("kernel cell deleted", "check cells deleted"),
    "duplicated": ("kernel cell twice, the last one right", "kernel cell twice, the last one wrong"),
    "reordered": ("cells in reverse",),
    "retyped": ("kernel cell retyped to text",),
    "metadata": ("everything a solution cell", "marks of the wrong types", "another kernelspec and widgets"),
    "points": ("forged points", "forged outputs"),
    "own numpy.py": ("replaced numpy",),
    "SQL": ("SQL on the gradebook",),
    "kill": ("kills its parent",),
    "daemon": ("daemon fork",),
    "200 MB": ("200 MB",),
    "JSON": ("no JSON", "half the JSON", "nested without end"),
    "encodings": ("byte order mark", "Windows line ends", "UTF-16"),
    "empty": ("empty file",),
}
OF_TESTS = {
    "symlink to the gradebook": ("hostile/test_hostile_notebooks.py", "test_a_notebook_that_is_no_file_is_not_read"),
    "symlink of a kernel": ("hostile/test_hostile_kernels.py", "test_what_is_no_file_is_not_read"),
    "answers": ("hostile/test_hostile_kernels.py", "test_what_is_hard_coded_passes_the_practice_and_fails"),
    "every step's sizes": ("content/test_secret_cases.py", "test_sizes_learnt_by_heart_fail"),
    "worker killed": ("unit/grading/test_grading_batch.py", "test_two_workers_give_the_same_bytes_and_a_killed_one"),
    "check killed": ("unit/grading/test_grading_batch.py", "test_a_check_that_is_killed_from_outside_is_done_again"),
    "kill and forks in the sandbox": (
        "unit/grading/test_python_cells.py", "test_a_submission_leaves_nothing_running",
    ),
    "escapes": ("hostile/test_hostile_confinement.py", "test_an_escape_reaches_nothing"),
    "crashes": ("hostile/test_hostile_confinement.py", "test_a_crash_that_comes_back_is_the_submissions"),
    "poisoned caches": ("hostile/test_hostile_confinement.py", "test_what_one_source_leaves_no_other_one_reads"),
    "budgets": ("hostile/test_hostile_budgets.py", "test_it_ends_by_a_count"),
    "fork bombs": ("hostile/test_hostile_budgets.py", "test_cells_start_no_processes"),
    "scripts in markdown": ("hostile/test_hostile_displays.py", "test_no_markdown_is_more_than_shown"),
    "scripts in a browser": ("hostile/test_hostile_browser.py", "test_no_script_of_a_hand_in_ran"),
    "forged checks": ("unit/grading/test_python_cells.py", "test_a_function_stays_in_the_sandbox"),
}


@pytest.mark.parametrize("kind", OF_KERNELS)
def test_kernels_of_every_kind(kind):
    assert all(KERNELS[name] for name in OF_KERNELS[kind])


@pytest.mark.parametrize("kind", OF_NOTEBOOKS)
def test_notebooks_of_every_kind(kind):
    assert all(NOTEBOOKS[name] for name in OF_NOTEBOOKS[kind])


@pytest.mark.parametrize("kind", OF_TESTS)
def test_tests_of_every_kind(kind):
    path, name = OF_TESTS[kind]
    assert f"def {name}" in (TESTS / path).read_text("utf-8")
