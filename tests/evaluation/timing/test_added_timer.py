"""A timer is one file and its place among the timers of a device: with them in the package, a bench times by it."""

from __future__ import annotations

import shutil
import subprocess
import sys

import pytest

from support.command_line import QUICK_OPTIONS, cli_environment
from support.paths import REPOSITORY
from support.registries import add_kernel

MADE_UP = '''\
from time import thread_time

from fib_rmsnorm.evaluation.timing.timer import Sample, Timer, repeat


class ThreadTime(Timer):
    """The time that the calling thread has a core, at least a microsecond."""

    name = "thread_time"

    def measure(self, prepare, calls, *, cold, budget_s, after=lambda: 0, queued=True):
        samples = []
        for index in repeat(calls, budget_s):
            call = prepare(index)
            started = thread_time()
            call()
            ended = thread_time()
            after()
            elapsed_ms = max(1e-3, (ended - started) * 1e3)
            samples.append(Sample(elapsed_ms, elapsed_ms))
        return samples
'''


@pytest.mark.process
def test_a_made_up_timer_times_a_bench(registry, tmp_path):
    add_kernel(registry, "right_v1")
    shutil.copytree(REPOSITORY / "fib_rmsnorm", tmp_path / "fib_rmsnorm")
    timing = tmp_path / "fib_rmsnorm" / "evaluation" / "timing"
    (timing / "thread_time.py").write_text(MADE_UP)
    timers = (timing / "__init__.py").read_text()
    added = timers.replace('"cpu": (', '"cpu": ("thread_time.ThreadTime", ')
    assert added != timers
    (timing / "__init__.py").write_text(added)
    command = [sys.executable, "-m", "fib_rmsnorm", "bench", "--root", str(registry.root), *QUICK_OPTIONS]
    environment = {**cli_environment(), "PYTHONPATH": str(tmp_path)}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = [trace.evaluation.performance for trace in registry.traces()]
    assert [each.timer for each in found] == ["thread_time"] * 2
    assert [(each.cold_l2, each.queued, each.launches) for each in found] == [(None, None, None)] * 2
    assert all(each.latency_ms > 0 and each.ceiling.copy_ms > 0 for each in found)
