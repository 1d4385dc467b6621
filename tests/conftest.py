from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

# Before torch is imported, and for every process that a test starts: two runs of tests side by side have as many
# OpenMP threads as cores each, which wait for one another by spinning. That took most of the time of all tests.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# A shell that runs the tests in the background has them ignore Ctrl-C, and so all that they start.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

from support.registries import make_registry  # which imports torch


def pytest_addoption(parser):
    parser.addoption("--slow", action="store_true", help="also run the tests marked slow")


def pytest_collection_modifyitems(config, items):
    if not config.getoption("--slow"):
        for item in items:
            if "slow" in item.keywords:
                item.add_marker(pytest.mark.skip(reason="slow: run with --slow"))


def pytest_runtest_setup(item):
    if "gpu" in item.keywords:
        import torch

        if not torch.cuda.is_available():
            pytest.skip("needs a CUDA device")


@pytest.fixture(scope="session", autouse=True)
def surroundings(tmp_path_factory):
    """Builds go to a folder that lives as long as the tests, never to the user's cache."""
    base = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        base = base.parent  # every xdist worker builds a kernel that another has built already
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FIB_RMSNORM_CACHE", str(base / "cache"))
        for variable in ("FIB_RMSNORM_ROOT", "TRITON_INTERPRET", "PYTHONUNBUFFERED", "NO_COLOR"):
            patch.delenv(variable, raising=False)
        yield


@pytest.fixture
def registry(tmp_path: Path):
    """A registry with rmsnorm_d128, workloads of batches 1 and 8, and no solutions."""
    return make_registry(tmp_path / "registry")


class Clock:
    """Stands in for the module `time` where a test decides how long things take."""

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        return self.now

    perf_counter = monotonic

    def sleep(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture
def clock() -> Clock:
    return Clock()
