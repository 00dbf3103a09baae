"""What is said where there is no GPU, for each reason; and the gate that keeps a GPU run from testing nothing."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from warpschool.device.gpu import GpuDevice
from warpschool.errors import DeviceUnavailable

ROOT = Path(__file__).parents[3]
CUPY = """
class _Error(Exception): pass
class cuda:
    class runtime:
        CUDARuntimeError = _Error
        @staticmethod
        def getDeviceCount():
            {body}
"""


@pytest.fixture
def cupy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Puts a package called cupy with the given source in front of any real one."""

    def install(source: str) -> None:
        (tmp_path / "cupy.py").write_text(source)
        monkeypatch.syspath_prepend(tmp_path)
        monkeypatch.delitem(sys.modules, "cupy", raising=False)

    yield install
    sys.modules.pop("cupy", None)


def reason() -> DeviceUnavailable:
    with pytest.raises(DeviceUnavailable) as caught:
        GpuDevice()
    return caught.value


def test_cupy_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert "CuPy is not installed" in reason().message
    assert "pip install" in reason().next_step


def test_cupy_is_broken(cupy) -> None:
    cupy("raise ImportError('libcudart.so.13: no such file')")
    assert "CuPy cannot be imported: libcudart.so.13" in reason().message


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (
            "raise _Error('cudaErrorInsufficientDriver: driver too old')",
            "no NVIDIA driver, or it is",
        ),
        ("raise _Error('cudaErrorNoDevice: no CUDA-capable device is detected')", "no GPU can be used: no GPU"),
        ("return 0", "the driver reports none"),
    ],
)
def test_there_is_no_driver_or_no_gpu(cupy, body: str, message: str) -> None:
    cupy(CUPY.format(body=body))
    assert message in reason().message
    assert 'device="sim"' in reason().next_step


class TestGate:
    def gpu_tests(self, **environment: str) -> subprocess.CompletedProcess[str]:
        """Runs the GPU tests on a machine whose GPUs, if any, are hidden."""
        clean = {k: v for k, v in os.environ.items() if not k.startswith(("WARPSCHOOL_", "PYTEST_"))}
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/gpu"]
        hidden = clean | {"CUDA_VISIBLE_DEVICES": ""} | environment
        return subprocess.run(command, cwd=ROOT, env=hidden, capture_output=True, text=True, timeout=600)

    def test_without_a_gpu_every_test_is_skipped_visibly(self) -> None:
        found = self.gpu_tests()
        assert found.returncode == 0, found.stdout
        assert "SKIPPED" in found.stdout
        assert "no GPU can be used" in found.stdout
        assert "passed" not in found.stdout

    @pytest.mark.slow
    def test_a_run_that_needs_a_gpu_fails_without_one(self) -> None:
        found = self.gpu_tests(WARPSCHOOL_REQUIRE_GPU="1")
        assert found.returncode not in (0, 5), found.stdout
        assert "no GPU can be used" in found.stdout + found.stderr
