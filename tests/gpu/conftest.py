"""Tests that need a GPU: a visible skip where there is none.

With WARPSCHOOL_REQUIRE_GPU=1 (a run on a machine that is meant to have one) a missing GPU is an error, and so is a run
in which not one GPU test was executed.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from warpschool.device import gpu_problem

HERE = Path(__file__).parent
REQUIRED = os.environ.get("WARPSCHOOL_REQUIRE_GPU", "") not in ("", "0")
_executed: set[str] = set()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    problem = gpu_problem()
    if problem is None:
        return
    if REQUIRED:
        raise pytest.UsageError(f"WARPSCHOOL_REQUIRE_GPU is set, but {problem.message}")
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.skip(reason=problem.message))


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.when == "call" and not report.skipped and "tests/gpu/" in report.nodeid.replace(os.sep, "/"):
        _executed.add(report.nodeid)


def pytest_sessionfinish(session: pytest.Session) -> None:
    if REQUIRED and not _executed and session.config.option.collectonly is False:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
        reporter = session.config.pluginmanager.get_plugin("terminalreporter")
        if reporter is not None:
            reporter.write_line("WARPSCHOOL_REQUIRE_GPU is set, but no GPU test was executed", red=True)
