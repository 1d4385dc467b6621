"""What a confined process cannot do to its user's files, to other processes and to the network, root or not."""

import json
import os
import tempfile
import time
from pathlib import Path

import psutil
import pytest

from fib_rmsnorm.sandbox.confinement import find_gaps
from fib_rmsnorm.sandbox.confinement.readable import keep_harmless
from fib_rmsnorm.sandbox.fork_server import ForkServer
from support.command_line import run_python
from support.paths import REPOSITORY, TESTS
from support.sandboxed import ROLE, ask

needs_sandbox = pytest.mark.skipif(bool(find_gaps()), reason="this machine confines less: see fib-rmsnorm env")
needs_root = pytest.mark.skipif(os.getuid() != 0, reason="needs root")

# What every user may do on every machine without confinement; whether the others work is up to its settings.
ALWAYS_DONE = {
    *("prlimit64", "sched_setaffinity", "sched_setscheduler", "setpriority", "ioprio_set", "signal"),
    *("network", "connect", "bind", "socket of another", "datagram", "read a key", "link to a key", "list a folder"),
    *("make a pipe", "remove a folder", "memory", "descriptor"),
    *("send a file", "watch a folder", "program that runs as its user", "program made to run as its user"),
}


def attack(folder: Path, *how: str) -> dict[str, dict[str, str]]:
    user, own = folder / "user", folder / "own"
    for each in (user, own):
        each.mkdir(parents=True)
        each.chmod(0o777)
    for name in ("key", "traces.jsonl", "kernel.py"):
        (user / name).write_text(f"the honest {name}\n")
    (user / "empty").mkdir()
    before = list_files(user)
    found = json.loads(run_python("-m", "support.attacks", user, own, *how, PYTHONPATH=f"{REPOSITORY}:{TESTS}"))
    assert "free" in how or list_files(user) == before
    return found


def list_files(folder: Path) -> dict[str, tuple[int, bytes]]:
    """Numbers and contents of the files, but for the socket that the attacked makes."""
    return {path.name: (path.stat().st_ino, path.read_bytes()) for path in folder.iterdir() if path.is_file()}


@pytest.fixture
def open_folder():
    """Pytest's folders are closed to other users."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


@needs_sandbox
@pytest.mark.parametrize("user", ["own", pytest.param("nobody", marks=needs_root)])
def test_a_confined_process_reaches_nothing_beside_it(open_folder, user):
    found = attack(open_folder, "confined", user)
    assert {name: how for name, how in (found["attacks"] | found["forgeries"]).items() if how == "done"} == {}
    assert len(found["attacks"]) >= 38 and len(found["forgeries"]) == 30
    assert {name: how for name, how in found["honest"].items() if how != "done"} == {}
    assert found["honest"] or user == "nobody"


def test_the_attacks_succeed_without_confinement(open_folder):
    """Of the forgeries, those that need privileges or a kernel's permission may fail."""
    found = attack(open_folder, "free", "own")
    assert {name: how for name, how in found["attacks"].items() if how != "done" and name in ALWAYS_DONE} == {}
    assert sum(how == "done" for how in found["forgeries"].values()) >= 12


@pytest.fixture
def process(monkeypatch):
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "hidden-1")
    monkeypatch.setenv("NVIDIA_API_KEY", "hidden-2")
    monkeypatch.setenv("DATABASE_URL", "hidden-3")
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    with ForkServer([ROLE]) as fork_server:
        yield fork_server.spawn(ROLE, writable=[Path("/proc")])  # as GPUs need it, for a part


def test_a_process_knows_no_secrets_of_the_environment(process):
    answer = ask(process, "show")
    assert answer["variables"]["OMP_NUM_THREADS"] == "1"
    assert "hidden" not in json.dumps(answer)
    assert answer["home"] == answer["variables"]["TMPDIR"] != str(Path.home())


def test_what_compilers_and_gpus_read_is_kept():
    kept = {"PATH": "/bin", "CUDA_VISIBLE_DEVICES": "0", "TRITON_INTERPRET": "1", "LC_ALL": "C", "CXX": "g++"}
    dropped = {"GITHUB_TOKEN": "1", "SSH_AUTH_SOCK": "1", "CUDA_LICENSE_KEY": "1", "OMP_PROC_BIND": "true"}
    assert keep_harmless(kept | dropped) == kept


@needs_sandbox
def test_a_daemon_that_hides_does_not_outlive_the_run(process):
    """It differs from other children of the scheduler only by what it cannot remove."""
    score = Path("/proc/self/oom_score_adj").read_text()
    assert ask(process, "leave_daemon", score=score)["ok"]
    (daemon,) = psutil.Process(process.pid).children()
    while daemon.name() != "sleep":  # the program starts soon
        time.sleep(0.001)
    process.kill()
    assert not daemon.is_running()
