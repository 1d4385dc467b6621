"""Processes that run on after a call are found; those of honest code are not."""

import os
import signal
import subprocess
import sys

import pytest

from fib_rmsnorm.sandbox import idle_check
from fib_rmsnorm.sandbox.idle_check import find_busy

NOBODY = 0
"""No process has this number, so nobody is running behind the figures that a test gives."""


@pytest.mark.parametrize(
    "code",
    [
        "",
        "threading.Thread(target=lambda: [time.sleep(0.002) for _ in range(10**6)], daemon=True).start()",
        "threading.Thread(target=lambda: sum(range(100_000)), daemon=True).start()",
        "subprocess.run(['true'])",
        "os.waitid(os.P_PID, subprocess.Popen(['true']).pid, os.WEXITED | os.WNOWAIT)",
    ],
    ids=["idle", "polls", "ends soon", "child that has ended", "child that nobody waited for"],
)
def test_an_honest_process_is_idle(code):
    started = "import sys, threading, time, os, subprocess\n" + code + "\nprint(flush=True)\ntime.sleep(600)\n"
    command = [sys.executable, "-c", started]
    with subprocess.Popen(command, stdout=subprocess.PIPE, start_new_session=True) as process:
        process.stdout.readline()
        found = find_busy([process.pid])
        os.killpg(process.pid, signal.SIGKILL)
    assert found == {}


def test_idle_processes_take_little_time(clock, monkeypatch):
    monkeypatch.setattr(idle_check, "time", clock)
    monkeypatch.setattr(idle_check, "_cpu_seconds", lambda _: 0.0)
    assert find_busy([NOBODY]) == {}
    assert clock.now <= 0.03


@pytest.mark.parametrize(("busy_s", "least_s", "most_s"), [(0, 0.002, 0.002), (0.1, 0.1, 0.105), (9, 0.35, 0.355)])
def test_it_waits_for_a_burst_to_end_but_not_forever(clock, monkeypatch, busy_s, least_s, most_s):
    monkeypatch.setattr(idle_check, "time", clock)
    monkeypatch.setattr(idle_check, "_cpu_seconds", lambda _: min(busy_s, clock.now))
    idle_check.wait_for_quiet([NOBODY])
    assert least_s <= clock.now <= most_s
