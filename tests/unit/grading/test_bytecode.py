"""Children find the packages' bytecode: what they may not write themselves lies there before the first of them."""

from __future__ import annotations

import importlib.util
import os
import sys

from warpschool.grading import cluster
from warpschool.grading.jobs import KernelJob, Store
from warpschool.grading.sandbox import compile_packages
from warpschool.grading.verdicts import Verdict


def test_modules_are_compiled_once_and_content_never(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    module, content = tmp_path / "ptxsim" / "one.py", tmp_path / "warpschool" / "_content" / "grader.py"
    for path in (module, content):
        path.parent.mkdir(parents=True)
        path.write_text("x = 1\n")
    compile_packages(tmp_path)
    made = importlib.util.cache_from_source(str(module))
    first = os.stat(made).st_mtime_ns
    assert not (content.parent / "__pycache__").exists()
    compile_packages.cache_clear()
    compile_packages(tmp_path)
    assert os.stat(made).st_mtime_ns == first


def test_what_cannot_be_compiled_is_left_alone(tmp_path):
    (tmp_path / "ptxsim").mkdir()
    (tmp_path / "ptxsim" / "broken.py").write_text("def :\n")
    (tmp_path / "ptxsim" / "__pycache__").write_text("no folder")
    compile_packages(tmp_path)


def test_a_batch_sees_to_it_and_a_stored_one_does_not(tmp_path, monkeypatch):
    called = []
    monkeypatch.setattr(cluster, "compile_packages", lambda: called.append(1))
    job = KernelJob("lab00_first_kernels/01_saxpy", b"")
    monkeypatch.setattr(cluster, "run_job", lambda job: job.failed("empty", Verdict.BAD))
    for _ in range(2):
        assert len(list(cluster.run([job], store=Store(tmp_path)))) == 1
    assert called == [1]
