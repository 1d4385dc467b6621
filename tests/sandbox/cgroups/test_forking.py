"""How a process gets into a cgroup: as whoever made it, and as a user to whom one was given."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from fib_rmsnorm.sandbox.cgroups.run_cgroups import end_run
from support.command_line import cli_environment
from support.hidden_daemons import WHY_NONE

needs_cgroup = pytest.mark.skipif(bool(WHY_NONE), reason=WHY_NONE)
needs_root = pytest.mark.skipif(os.getuid() != 0, reason="needs root")

FORKS = """
import os, sys, time
from fib_rmsnorm.sandbox.cgroups import forking
from fib_rmsnorm.sandbox.cgroups.run_cgroups import RunCgroups
if sys.argv[1] == "without clone3":
    forking._clone_into = lambda folder: -1
cgroups = RunCgroups(1000)
made = cgroups.make()
folder = made.folder if sys.argv[1] != "without the cgroup" else made.folder / "gone"
reader, writer = os.pipe()
middle = forking.fork_into(str(folder))
if middle == 0:
    if (child := os.fork()) == 0:
        os.write(writer, b"ready")
        time.sleep(30)
    print(child, flush=True)
    os._exit(0)
os.waitpid(middle, 0)
os.read(reader, 5)
print((made.folder / "cgroup.procs").read_text(), flush=True)
cgroups.close()
"""


@needs_cgroup
@pytest.mark.parametrize("how", ["with clone3", "without clone3", "without the cgroup"])
def test_a_fork_starts_in_its_cgroup_however_it_gets_there(how):
    """Where none can be had, it starts in its parent's."""
    program = [sys.executable, "-c", FORKS, how]
    with subprocess.Popen(program, env=cli_environment(), stdout=subprocess.PIPE, text=True) as process:
        child, *held = int(process.stdout.readline()), *process.stdout.readline().split()
        assert process.wait(60) == 0
        if how == "without the cgroup":
            os.kill(child, signal.SIGKILL)
    assert held == ([] if how == "without the cgroup" else [str(child)])


# As `systemd-run --user --scope -p Delegate=yes` does for a user: a cgroup that is the user's.
DELEGATED = """
import json, os, sys, time
from pathlib import Path
from fib_rmsnorm.sandbox.cgroups.forking import fork_into
from fib_rmsnorm.sandbox.cgroups.hierarchy import NoCgroupError, find_own_folder
from fib_rmsnorm.sandbox.cgroups.run_cgroups import RunCgroups
import ctypes
ctypes.CDLL(None), ctypes.PyDLL(None)
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
middle = fork_into(str(made.folder))
if middle == 0:
    if os.fork() == 0:
        time.sleep(30)
    os._exit(0)
os.waitpid(middle, 0)
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
    run = subprocess.run(program, env=cli_environment(), capture_output=True, text=True, timeout=60, check=False)
    answer = json.loads(run.stdout or "{}")
    own = Path(answer.pop("own"))
    end_run(own)
    assert answer == {name: value.format(own=own) if name == "reason" else value for name, value in found.items()}
