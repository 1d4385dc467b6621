"""What other processes take of a CPU's cores."""

from __future__ import annotations

import os
import subprocess
import sys

import psutil
import pytest

from fib_rmsnorm.machine import load
from fib_rmsnorm.machine.load import LoadWatch

CORES = len(os.sched_getaffinity(0))
WORK = "import time\nwhile time.process_time() < 0.4: pass"


def busy(seconds: float):
    """The times of all cores that were busy for so long together."""
    core = type(psutil.cpu_times(percpu=True)[0])
    fields = dict.fromkeys(core._fields, 0.0) | {"user": 10 + seconds / CORES, "idle": 10.0}
    return [core(**fields)] * (max(os.sched_getaffinity(0)) + 1)


@pytest.fixture
def told(monkeypatch):
    """Let the system tell these times, one after the other."""

    def run(*readings) -> None:
        following = iter(readings)
        monkeypatch.setattr(psutil, "cpu_times", lambda percpu: next(following))

    return run


def test_our_own_processes_are_no_others(told):
    """Not even one that has ended."""
    told(busy(0.0), busy(0.4))
    with LoadWatch() as watch:
        subprocess.run([sys.executable, "-c", WORK], check=True)
    assert watch.other_share() == pytest.approx(0, abs=0.05)


def test_what_is_busy_and_not_ours_is_others(told, clock, monkeypatch):
    monkeypatch.setattr(load, "time", clock)
    told(busy(0.0), busy(50.0 * CORES))
    with LoadWatch() as watch:
        clock.sleep(100)
    assert watch.other_share() == pytest.approx(0.5, abs=0.05)  # without what this process has taken itself


def test_a_machine_that_does_not_tell_is_unknown(told):
    told([], [])
    with LoadWatch() as watch:
        pass
    assert watch.other_share() is None


def test_this_machine_is_read():
    with LoadWatch() as watch:
        pass
    assert 0 <= (watch.other_share() or 0) <= 1
