"""`bench` interrupted and killed: it ends at once, leaves nobody behind and loses nothing that was printed."""

from __future__ import annotations

import random
import signal
import subprocess
import time
from pathlib import Path

import psutil
import pytest

from fib_rmsnorm.registry import Registry
from support.command_line import QUICK_OPTIONS, cli_command, cli_environment, printed, run_cli
from support.registries import RIGHT, add_kernel, keys, read_output

SLOW = RIGHT.replace("    x_fp32 = x.float()\n", "    import time\n\n    time.sleep(0.01)\n    x_fp32 = x.float()\n")


FOR_EVER_S = 10**6
"""Longer than pytest lets a test run: a command that waits for it fails."""


def start_bench(registry: Registry, *arguments: str | Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        cli_command("bench", "--root", registry.root, *QUICK_OPTIONS, "--timeout", str(FOR_EVER_S), *arguments),
        env=cli_environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def read_until_evaluated(process: subprocess.Popen[str], count: int) -> str:
    lines = ""
    while len(printed(lines)) < count:
        line = process.stdout.readline()
        if not line:
            break
        lines += line
    return lines


def processes_below(process: subprocess.Popen[str]) -> list[psutil.Process]:
    return psutil.Process(process.pid).children(recursive=True)


def assert_gone(processes: list[psutil.Process]) -> None:
    """They were killed, and are gone as soon as the machine comes round to it."""
    while any(map(is_running, processes)):
        time.sleep(0.02)


def is_running(process: psutil.Process) -> bool:
    try:
        return process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def interrupt(process: subprocess.Popen[str]) -> tuple[str, str]:
    """Press Ctrl-C: it ends whatever still runs, and nothing of it goes on. Returns what it printed since."""
    below = processes_below(process)
    process.send_signal(signal.SIGINT)
    rest, errors = process.communicate()
    assert process.returncode == 130, errors
    assert "Traceback" not in errors
    assert_gone(below)
    return rest, errors


@pytest.mark.parametrize(
    "evaluated", [pytest.param(0, marks=pytest.mark.process), 1, pytest.param(3, marks=pytest.mark.process)]
)
def test_ctrl_c_waits_for_nothing_and_keeps_what_is_finished(registry, tmp_path, evaluated):
    for number in range(3):
        add_kernel(registry, f"slow_v{number}", SLOW)
    sleep = f"    if x.shape[0] == 8:\n        __import__('time').sleep({FOR_EVER_S})\n    x_fp32 = x.float()\n"
    add_kernel(registry, "zhang_v1", RIGHT.replace("    x_fp32 = x.float()\n", sleep))
    output = tmp_path / "traces.json"
    process = start_bench(registry, "--output", output)
    lines = read_until_evaluated(process, evaluated) if evaluated else process.stderr.readline()
    if evaluated == 3:
        time.sleep(0.5)  # the next one sleeps for ever
    rest, errors = interrupt(process)
    last = errors.splitlines()[-1]
    assert last == "fib-rmsnorm: interrupted; finished evaluations are saved: continue with --resume"
    seen = printed(lines + rest)
    assert set(seen) <= set(keys(registry.traces()))
    assert len(seen) >= evaluated
    if seen:
        assert set(seen) <= set(keys(read_output(output)))


def test_ctrl_c_while_the_workers_start(registry):
    """Before anything is printed: torch is still being imported, here and in the workers' parent."""
    add_kernel(registry, "right_v1")
    for delay in (0.0, 0.7, 1.4):
        process = start_bench(registry)
        while not processes_below(process):  # from when it starts the workers' parent
            time.sleep(0.01)
        time.sleep(delay)
        interrupt(process)


def bench_until_killed(registry: Registry, output: Path, moments: random.Random, kills: int) -> None:
    """Kill bench again and again, each time going on with --resume; then let it finish."""
    for number in range(3):
        add_kernel(registry, f"right_v{number}", RIGHT)
    everything = {(f"right_v{number}", batch) for number in range(3) for batch in (1, 8)}
    for _ in range(kills):
        already = set(keys(registry.traces()))
        process = start_bench(registry, "--resume", "--output", output)
        lines = read_until_evaluated(process, moments.randint(0, len(everything) - 1))
        time.sleep(moments.uniform(0, 0.1))
        below = processes_below(process)
        process.kill()
        lines += process.communicate()[0]
        seen = set(printed(lines))
        recorded = keys(registry.traces())
        assert seen <= set(recorded)
        assert already <= set(recorded)
        assert len(recorded) == len(set(recorded)), "an evaluation was repeated"
        if seen:
            assert seen <= set(keys(read_output(output)))
        assert_gone(below)
        if set(recorded) == everything:
            registry.layout.traces.rename(registry.root / f"traces{time.monotonic_ns()}")
    found = run_cli("bench", "--root", registry.root, *QUICK_OPTIONS, "--resume", "--output", output)
    assert found.returncode == 0, found.stderr
    assert sorted(keys(registry.traces())) == sorted(everything)
    assert sorted(keys(read_output(output))) == sorted(everything)


@pytest.mark.process
def test_sigkill_loses_nothing_that_was_printed(registry, tmp_path):
    bench_until_killed(registry, tmp_path / "traces.json", random.Random(1), kills=2)


@pytest.mark.endurance
@pytest.mark.timeout(2400)
@pytest.mark.parametrize("suffix", ["json", "jsonl"])
def test_sigkill_at_fifty_moments(registry, tmp_path, suffix):
    bench_until_killed(registry, tmp_path / f"traces.{suffix}", random.Random(2), kills=50)
