"""How a process gets into a cgroup: from a fork server with threads, and as a user to whom one was given."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from fib_rmsnorm.sandbox.cgroups import cgroup
from fib_rmsnorm.sandbox.cgroups.cgroup import enter
from fib_rmsnorm.sandbox.cgroups.run_cgroups import end_run
from fib_rmsnorm.sandbox.fork_server import ForkServer
from fib_rmsnorm.sandbox.role import Role
from support.command_line import cli_environment
from support.hidden_daemons import WHY_NONE

needs_cgroup = pytest.mark.skipif(bool(WHY_NONE), reason=WHY_NONE)
needs_root = pytest.mark.skipif(os.getuid() != 0, reason="needs root")

THREADS = """
import os
os.environ["OPENBLAS_NUM_THREADS"] = "2"
from types import SimpleNamespace
import numpy
from fib_rmsnorm.sandbox.channel import serve
THREADS = len(os.listdir("/proc/self/task"))
def main(channel, outputs_fd):
    serve(channel, {"count": lambda message: SimpleNamespace(imported=THREADS)})
"""


@pytest.fixture
def role(tmp_path, monkeypatch):
    (tmp_path / "role_with_threads.py").write_text(THREADS)
    monkeypatch.syspath_prepend(tmp_path)
    return Role("role_with_threads", runs_untrusted_code=True)


def test_a_confined_process_starts_where_a_library_has_threads(role):
    """Those of OpenBLAS end before each fork; what is forked past the C library waits for them for ever."""
    with ForkServer([role]) as fork_server:
        answer = fork_server.spawn(role).request({"do": "count"}, time.monotonic() + 600)
    assert answer["imported"] > 1


@needs_cgroup
def test_nothing_is_asked_of_a_process_before_it_is_in_its_cgroup(role, monkeypatch):
    def enter_late(*arguments):
        time.sleep(0.5)
        enter(*arguments)

    monkeypatch.setattr(cgroup, "enter", enter_late)
    with ForkServer([role]) as fork_server:
        process = fork_server.spawn(role)
        process.request({"do": "count"}, time.monotonic() + 600)
        assert str(process.pid) in (process.cgroup.folder / "cgroup.procs").read_text().split()


@needs_cgroup
def test_a_process_that_is_killed_at_once_leaves_no_cgroup(role):
    with ForkServer([role]) as fork_server:
        process = fork_server.spawn(role)
        process.kill()
        assert not process.cgroup.folder.exists()


# As `systemd-run --user --scope -p Delegate=yes` does for a user: a cgroup that is the user's.
DELEGATED = """
import json, os, sys, time
from pathlib import Path
from fib_rmsnorm.sandbox.cgroups.cgroup import enter
from fib_rmsnorm.sandbox.cgroups.hierarchy import NoCgroupError, find_own_folder
from fib_rmsnorm.sandbox.cgroups.run_cgroups import RunCgroups
own = find_own_folder() / f"delegated-{os.getpid()}"
own.mkdir()
(own / "cgroup.procs").write_text("0")
if sys.argv[1] == "delegated":
    for each in (own, own / "cgroup.procs", own / "cgroup.threads", own / "cgroup.subtree_control"):
        os.chown(each, 65534, 65534)
os.setresgid(65534, 65534, 65534)
os.setresuid(65534, 65534, 65534)
try:
    cgroups = RunCgroups(1000)
except NoCgroupError as reason:
    print(json.dumps({"own": str(own), "reason": str(reason)}))
    sys.exit()
made = cgroups.make()
reader, writer = os.pipe()
if os.fork() == 0:
    enter(str(made.folder))
    os.write(writer, b"ready")
    time.sleep(30)
os.read(reader, 5)
held = len((made.folder / "cgroup.procs").read_text().split())
cgroups.close()
print(json.dumps({"own": str(own), "held": held, "left": [path.name for path in own.iterdir() if path.is_dir()]}))
"""


@needs_cgroup
@needs_root
@pytest.mark.parametrize(
    ("how", "found"),
    [("delegated", {"held": 1, "left": []}), ("not", {"reason": "none can be made in {own}: Permission denied"})],
)
def test_a_user_with_a_cgroup_of_its_own_may_make_them(how, found):
    program = [sys.executable, "-c", DELEGATED, how]
    run = subprocess.run(program, env=cli_environment(), capture_output=True, text=True, check=False)
    answer = json.loads(run.stdout or "{}")
    own = Path(answer.pop("own"))
    end_run(own)
    assert answer == {name: value.format(own=own) if name == "reason" else value for name, value in found.items()}
