"""A process that starts too many others is ended with them; what a killed scheduler leaves is ended too."""

import fcntl
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from fib_rmsnorm.sandbox import Role, process
from fib_rmsnorm.sandbox.fork_server import ForkServer
from fib_rmsnorm.sandbox.process import NoAnswerError, ProcessDiedError
from support.command_line import cli_environment
from support.sandboxed import ROLE, ask

TASK_LIMIT = 300
# Which forks fail; a child takes those that are left. The first process is the one that leaves no room.
NO_ROOM = """
import os

fork, failing = os.fork, [False, False, True, False, True]


def fork_or_fail():
    if failing and failing.pop(0):
        raise BlockingIOError
    return fork()


os.fork = fork_or_fail
"""


@pytest.fixture
def lock(tmp_path):
    (tmp_path / "own").mkdir()
    return tmp_path / "own" / "lock"


def is_held(lock: Path) -> bool:
    with lock.open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def start(server, lock, what, count, then_s):
    started = server.spawn(ROLE, writable=[lock.parent])
    return ask(started, "start", lock=str(lock), what=what, count=count, then_s=then_s)


@pytest.fixture
def few_tasks(monkeypatch):
    monkeypatch.setattr(process, "find_task_limit", lambda: TASK_LIMIT)


@pytest.mark.usefixtures("few_tasks")
@pytest.mark.parametrize("what", ["start_ended", "start_living", "start_session", "start_threads"])
def test_unlimited_processes_and_threads_are_stopped(lock, what):
    """A process counts until somebody has waited for it."""
    before = psutil.Process().children()
    with ForkServer([ROLE]) as server:
        with pytest.raises(NoAnswerError, match=r"^started \d+ processes and threads; the limit is 300$"):
            start(server, lock, what, 2 * TASK_LIMIT, 30)
        assert not is_held(lock)
        left = [child for child in psutil.Process().children() if child not in before]
        assert [child for child in left if child.status() == psutil.STATUS_ZOMBIE] == []


@pytest.mark.usefixtures("few_tasks")
def test_one_that_leaves_no_room_for_others_ends_and_they_start(lock, tmp_path, monkeypatch):
    """Its user may have no more: a fork fails, first the fork server's, then that of the process between."""
    (tmp_path / "no_room.py").write_text(NO_ROOM)
    monkeypatch.syspath_prepend(tmp_path)
    with ForkServer([ROLE, Role("no_room", runs_untrusted_code=False)]) as server:
        greedy = server.spawn(ROLE, writable=[lock.parent])
        monkeypatch.setattr(process, "_POLL_S", 60)  # it answers before anybody counts
        request = {"lock": str(lock), "what": "start_threads", "count": TASK_LIMIT, "then_s": 0}
        assert ask(greedy, "start", **request)["ok"]
        assert start(server, lock.with_name("another"), "start_ended", 0, 0)["ok"]
        with pytest.raises(ProcessDiedError, match=r"^started \d+ processes and threads; the limit is 300$"):
            ask(greedy, "start", **request)


@pytest.mark.usefixtures("few_tasks")
@pytest.mark.parametrize("what", ["start_session", "start_threads"])
def test_fewer_than_the_limit_are_left_alone(lock, what, monkeypatch):
    monkeypatch.setattr(process, "_POLL_S", 0.001)
    with ForkServer([ROLE]) as server:
        assert start(server, lock, what, TASK_LIMIT // 2, 1)["ok"]
    assert not is_held(lock)


def test_a_scheduler_that_was_killed_leaves_no_process(lock, tmp_path):
    """Nor temporary files: its fork server, which outlives it, ends and removes what is left."""
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    program = f"""
import os, signal, sys
from pathlib import Path
sys.path[:0] = {sys.path!r}
from fib_rmsnorm.sandbox.fork_server import ForkServer
from sandbox.test_limits import ROLE, start
start(ForkServer([ROLE]), Path({str(lock)!r}), "start_session", 3, 0)
assert list(Path({str(temporary)!r}).glob("*/*"))
os.kill(os.getpid(), signal.SIGKILL)
"""
    environment = {**cli_environment(), "TMPDIR": str(temporary)}
    run = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=False)
    assert run.returncode == -signal.SIGKILL, run.stderr
    while is_held(lock) or list(temporary.iterdir()):
        time.sleep(0.01)
    assert not lock.with_name("outlived").exists()
