"""What a cgroup ends, in real ones. Where this user may make none, these tests are skipped and say why."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from fib_rmsnorm.sandbox.cgroups import run_cgroups
from fib_rmsnorm.sandbox.cgroups.hierarchy import NoCgroupError, find_own_folder
from fib_rmsnorm.sandbox.cgroups.run_cgroups import RunCgroups, open_run_cgroups
from fib_rmsnorm.sandbox.confinement import find_gaps
from fib_rmsnorm.sandbox.fork_server import ForkServer
from fib_rmsnorm.sandbox.process import ProcessLimitError, ProcessTimeoutError
from support.command_line import cli_environment
from support.hanging import FOR_EVER_S, when_printed
from support.hidden_daemons import LIFE_S, ROLE, WHY_NONE, are_ended, is_held, own_score, wait_until_held, write_role

needs_cgroup = pytest.mark.skipif(bool(WHY_NONE), reason=WHY_NONE)
needs_sandbox = pytest.mark.skipif(bool(find_gaps()), reason="this machine confines less: see fib-rmsnorm env")
TASK_LIMIT = 300
ENOUGH_MEMORY = 1 << 40


@pytest.fixture(autouse=True)
def role(tmp_path, monkeypatch):
    write_role(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)


@pytest.fixture
def lock(tmp_path):
    (tmp_path / "own").mkdir()
    return tmp_path / "own" / "lock"


@pytest.fixture
def fork_server():
    with ForkServer([ROLE], task_limit=TASK_LIMIT) as started:
        yield started


def spawn(fork_server, lock):
    return fork_server.spawn(ROLE, writable=[lock.parent, Path("/proc")])  # as GPUs need it, for a part


def ask(process, do, lock=None, **message):
    request = {"do": do, "lock": str(lock), "score": own_score(), **message}
    return process.request(request, time.monotonic() + FOR_EVER_S, ENOUGH_MEMORY)


@needs_cgroup
def test_what_hides_and_forks_on_and_on_ends_with_its_worker(fork_server, lock):
    process = spawn(fork_server, lock)
    assert ask(process, "leave_leaping", lock)["ok"]
    wait_until_held(lock)
    process.kill()
    assert not is_held(lock)
    assert not process.cgroup.folder.exists()


@needs_cgroup
def test_a_killed_scheduler_leaves_neither_a_process_nor_a_cgroup(lock):
    """Its fork server, which outlives it, ends what is left."""
    program = f"""
import signal, os, sys
from pathlib import Path
sys.path[:0] = {[str(lock.parents[1]), *sys.path]!r}
from fib_rmsnorm.sandbox.fork_server import ForkServer
from support.hidden_daemons import ROLE, own_score, wait_until_held
fork_server = ForkServer([ROLE])
lock = Path({str(lock)!r})
process = fork_server.spawn(ROLE, writable=[lock.parent, Path("/proc")])
process.request({{"do": "leave_leaping", "lock": str(lock), "score": own_score()}}, 1e12)
wait_until_held(lock)
print(process.cgroup.folder.parent, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert run.returncode == -signal.SIGKILL, run.stderr
    assert are_ended(lock)
    while Path(run.stdout.strip()).exists():
        time.sleep(0.01)


# The owner of a run's cgroups, with a process in one of them that outlives it: nobody guards these.
OWNS = f"""
import os, subprocess, sys, time
from fib_rmsnorm.sandbox.cgroups.cgroup import enter
from fib_rmsnorm.sandbox.cgroups.run_cgroups import RunCgroups
cgroups = RunCgroups(1000)
made = cgroups.make()
sleeper = subprocess.Popen(["sleep", "{LIFE_S}"])
enter(str(made.folder), sleeper.pid)
print(cgroups.folder, sleeper.pid, flush=True)
time.sleep({LIFE_S})
"""


@pytest.fixture
def owner():
    process = subprocess.Popen([sys.executable, "-c", OWNS], env=cli_environment(), stdout=subprocess.PIPE, text=True)
    yield process
    process.kill()
    process.wait()
    process.stdout.close()


@needs_cgroup
def test_what_a_run_left_whose_processes_were_all_killed_ends_with_the_next_one(owner):
    folder, sleeper = owner.stdout.readline().split()
    assert psutil.pid_exists(int(sleeper))  # before another test's run may end it
    owner.kill()  # a zombie from now on
    while psutil.Process(owner.pid).status() != psutil.STATUS_ZOMBIE:
        time.sleep(0.01)
    RunCgroups(1000).close()
    assert not Path(folder).exists()
    assert not psutil.pid_exists(int(sleeper)) or psutil.Process(int(sleeper)).status() == psutil.STATUS_ZOMBIE


@needs_cgroup
def test_the_cgroups_of_runs_that_live_and_of_others_are_left_alone(owner):
    folder, sleeper = owner.stdout.readline().split()
    parent, ours = find_own_folder(), RunCgroups(1000)
    namespace, pid = ours.folder.name.split("-")[2:4]
    others = [
        parent / "fib-rmsnorm",
        parent / f"fib-rmsnorm-{namespace}-{pid}",
        parent / f"my-fib-rmsnorm-{namespace}-{pid}-1-00",
        parent / f"fib-rmsnorm-{int(namespace) + 1}-{2**30}-1-00",  # of another namespace, where that pid may live
    ]
    abandoned = [
        parent / f"fib-rmsnorm-{namespace}-{2**30}-1-00",  # of nobody
        parent / f"fib-rmsnorm-{namespace}-{pid}-1-00",  # of one who had our pid before
    ]
    for each in (*others, *abandoned):
        each.mkdir()
    try:
        RunCgroups(1000).close()
        assert [each for each in abandoned if each.exists()] == []
        assert [each for each in (*others, ours.folder, Path(folder)) if not each.exists()] == []
        assert psutil.Process(int(sleeper)).status() != psutil.STATUS_ZOMBIE
    finally:
        for each in others:
            each.rmdir()
        ours.close()


@needs_cgroup
@pytest.mark.parametrize("live", [True, False])
def test_processes_without_number_are_stopped(fork_server, lock, live):
    """A process counts until somebody has waited for it."""
    before = psutil.Process().children()
    process = spawn(fork_server, lock)
    with pytest.raises(ProcessLimitError, match=r"started \d+ processes.*; the limit is 300"):
        ask(process, "start_many", lock, live=live, count=3000)
    assert not is_held(lock)
    assert not process.cgroup.folder.exists()
    left = [child for child in psutil.Process().children() if child not in before]
    assert [child for child in left if child.status() == psutil.STATUS_ZOMBIE] == []


@needs_cgroup
def test_fewer_processes_than_the_limit_are_left_alone(fork_server, lock, monkeypatch):
    polls = iter([FOR_EVER_S, FOR_EVER_S, 0.0])  # each looks at the number of processes
    when_printed(monkeypatch, "started all", lambda: next(polls))
    process = spawn(fork_server, lock)
    with pytest.raises(ProcessTimeoutError):
        ask(process, "start_many", lock, live=True, count=50)


@needs_cgroup
def test_a_child_made_the_schedulers_own_is_known_to_be_its_workers(fork_server, lock):
    """It has left its worker's session, which nothing else tells."""
    worker, other = spawn(fork_server, lock), spawn(fork_server, lock)
    assert ask(worker, "leave_sibling")["ok"]
    known = {worker.pid, other.pid}
    (sibling,) = (child for child in psutil.Process().children() if is_sibling(child, known))
    while os.getsid(sibling.pid) != sibling.pid:
        time.sleep(0.001)
    fork_server.kill_escaped()
    assert not sibling.is_running()
    assert fork_server.escaped_from & known == {worker.pid}


def is_sibling(child: psutil.Process, known: set[int]) -> bool:
    return child.pid not in known and "fib-rmsnorm-" in Path(f"/proc/{child.pid}/cgroup").read_text()


@needs_cgroup
@needs_sandbox
def test_a_confined_process_cannot_leave_its_cgroup(fork_server, lock):
    process = spawn(fork_server, lock)
    answer = ask(process, "leave_cgroup", folder=str(find_own_folder()))
    assert answer["ok"] is False and "PermissionError" in answer["message"]
    assert process.pid in map(int, (process.cgroup.folder / "cgroup.procs").read_text().split())


@needs_cgroup
def test_each_process_has_one_of_its_own_and_the_scheduler_none(fork_server, lock):
    processes = [spawn(fork_server, lock) for _ in range(3)]
    for each in processes:
        assert ask(each, "nonsense")["ok"] is False
    folders = {each.cgroup.folder for each in processes}
    assert len(folders) == 3
    held = [(folder / "cgroup.procs").read_text().split() for folder in folders]
    assert sorted(held) == sorted([str(each.pid)] for each in processes)
    assert str(os.getpid()) in (find_own_folder() / "cgroup.procs").read_text().split()


def test_without_cgroups_a_process_ends_with_what_it_left_too(monkeypatch, lock):
    def refuse():
        raise NoCgroupError("none")

    monkeypatch.setattr(run_cgroups, "find_own_folder", refuse)
    with ForkServer([ROLE], task_limit=1) as fork_server:
        before = {child.pid for child in psutil.Process().children()}
        process = spawn(fork_server, lock)
        assert process.cgroup is None
        assert ask(process, "leave_sibling")["ok"]
        process.kill()
        assert {child.pid for child in psutil.Process().children()} - before <= {fork_server._late_pid}


def test_the_kernel_bounds_each_where_it_can(monkeypatch, tmp_path):
    """A pretended cgroup that has the pids controller: not every machine gives it to version 2."""
    monkeypatch.setattr(run_cgroups, "find_own_folder", lambda: tmp_path)
    monkeypatch.setattr(run_cgroups, "_require_usable", lambda folder: (folder / "pids.max").touch())
    cgroups = open_run_cgroups(1234)
    assert cgroups.bounds_tasks
    assert (cgroups.folder / "cgroup.subtree_control").read_text() == "+pids"
    made = cgroups.make()
    assert (made.folder / "pids.max").read_text() == "1234"
    (made.folder / "pids.current").write_text("77\n")
    assert made.count_tasks() == 77


def test_a_kernel_that_cannot_end_a_cgroup_has_none(monkeypatch, tmp_path):
    monkeypatch.setattr(run_cgroups, "find_own_folder", lambda: tmp_path)
    with pytest.raises(NoCgroupError, match=r"5\.14"):
        RunCgroups(1000)
    assert [each for each in tmp_path.iterdir() if each.name.startswith("fib-rmsnorm-")] == []
