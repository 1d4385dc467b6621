"""A tool that calls a Solution ends with all that it has started, prints no more than is kept, and ncu takes turns."""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import pytest

from fib_rmsnorm.errors import InputError
from fib_rmsnorm.machine.devices import Device
from fib_rmsnorm.profiling import ncu
from fib_rmsnorm.profiling.tool_process import read_report, run_tool
from fib_rmsnorm.sandbox.confinement import find_gaps
from support.registries import add_kernel
from support.watched_attacks import SECRET_VARIABLE

needs_sandbox = pytest.mark.skipif(bool(find_gaps()), reason="this machine confines less: see fib-rmsnorm env")

# A process that a confined one leaves behind, in a session of its own; it says its number.
LEAVES_DAEMON = """
import os
import sys

from fib_rmsnorm.sandbox.confinement import confine
from fib_rmsnorm.sandbox.confinement.readable import find_readable

if os.fork() == 0:
    confine(find_readable(), [], [])
    if os.fork() == 0:
        os.setsid()
        print(os.getpid(), flush=True)
        time.sleep(600)
    os._exit(0)
os.wait()
time.sleep(float(sys.argv[1]))
"""


@pytest.fixture
def solution(registry):
    return add_kernel(registry, "right")


def python(source, *arguments):
    return [sys.executable, "-c", source, *map(str, arguments)]


@pytest.mark.parametrize("run", [run_tool, read_report])
def test_a_tool_knows_no_secrets(solution, monkeypatch, run):
    monkeypatch.setenv(SECRET_VARIABLE, "secret")
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    variables = dict(
        line.partition("=")[::2] for line in run(["env"], 600, solution, {"TMPDIR": "/own"}).stdout.splitlines()
    )
    assert (variables["OMP_NUM_THREADS"], variables["TMPDIR"]) == ("1", "/own")
    assert SECRET_VARIABLE not in variables


def test_it_has_neither_the_users_input_nor_terminal(solution):
    source = "import os, sys; print(repr(sys.stdin.read()), os.getsid(0) == os.getpid())"
    assert run_tool(python(source), 600, solution, {}).stdout == "'' True\n"


def test_of_what_is_printed_without_end_little_is_kept(solution):
    run = run_tool(python("print('begin'); print('x' * 10_000_000); print('end')"), 600, solution, {})
    assert run.stdout.startswith("begin\n") and run.stdout.endswith("end\n")
    assert len(run.stdout) < 100_000
    assert len(read_report(python("print('x' * 1_000_000)"), 600, solution, {}).stdout) == 1_000_001


@needs_sandbox
def test_what_a_solution_leaves_running_ends_with_the_tool(solution):
    daemon = int(run_tool(python(LEAVES_DAEMON, 0), 600, solution, {}).stdout)
    assert not psutil.pid_exists(daemon)


def test_what_takes_too_long_ends_with_all_that_it_has_started(solution, tmp_path):
    pid = tmp_path / "pid"
    with pytest.raises(InputError, match=r"right: timed out after 1 s; try a longer --timeout"):
        run_tool(["sh", "-c", f"sleep 600 & echo $! > {pid}; wait"], 1, solution, {})
    assert not psutil.pid_exists(int(pid.read_text()))


def test_a_tool_that_cannot_be_run_is_an_error_in_one_line(solution, tmp_path):
    with pytest.raises(InputError, match=r"cannot run .*/tool: Permission denied"):
        (tmp_path / "tool").touch()
        run_tool([str(tmp_path / "tool")], 1, solution, {})


def test_two_profiles_at_once_take_turns(registry, tmp_path, monkeypatch):
    program, times = tmp_path / "ncu", tmp_path / "times"
    program.write_text(f"#!/bin/sh\nprintf 'begin ' >> {times}\nsleep 0.2\nprintf 'end ' >> {times}\n")
    program.chmod(0o755)
    monkeypatch.setattr(ncu, "find_ncu", lambda: program)
    solution = add_kernel(registry, "right")
    (definition,) = registry.definitions().values()
    workload = registry.workloads(definition.name)[0]

    def profile(report: Path):
        with pytest.raises(InputError, match="ncu recorded no kernel"):
            ncu.profile(definition, solution, workload, Device("cuda:0", "Fake GPU", 80 << 30), report, 60)

    monkeypatch.setattr(ncu, "require_gpu", lambda *_: None)
    nothing = subprocess.CompletedProcess([], 0, "", "")
    monkeypatch.setattr(ncu, "read_report", lambda *_: nothing)  # which need not wait its turn
    with ThreadPoolExecutor() as threads:
        list(threads.map(profile, (tmp_path / f"{number}.ncu-rep" for number in range(2))))
    assert times.read_text() == "begin end begin end "
