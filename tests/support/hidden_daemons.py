"""A role whose process leaves others behind: hidden ones, those that fork on and on, and as many as it is asked for.

All of them end by themselves before long, and hold the lock of a file while they live: what may outlive a failed test
is harmless, and a test sees whether any lives.
"""

from __future__ import annotations

import fcntl
import time
from contextlib import suppress
from pathlib import Path

from fib_rmsnorm.sandbox.cgroups.hierarchy import NoCgroupError
from fib_rmsnorm.sandbox.cgroups.run_cgroups import RunCgroups
from fib_rmsnorm.sandbox.role import Role

ROLE = Role("hidden_daemons_role", runs_untrusted_code=True, needs_no_imports=True)
LIFE_S = 30.0
# It forks a child and exits, as that does: who kills one by one finds each already gone.
LEAPING = f"""
import fcntl, os, sys, time
lock = open(sys.argv[1], "w")
fcntl.flock(lock, fcntl.LOCK_EX)
until = time.monotonic() + {LIFE_S}
while time.monotonic() < until:
    if os.fork():
        os._exit(0)
    os.setsid()
open(sys.argv[1] + ".outlived", "w").close()
"""
SOURCE = f"""
import ctypes
import fcntl
import os
import platform
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace

from fib_rmsnorm.sandbox.channel import serve

LEAPS = {LEAPING!r}
CLONE = {{"x86_64": 56, "aarch64": 220}}
CLONE_PARENT = 0x8000


def become_hidden(message):
    \"\"\"In a session of its own, without environment, and as unlikely to be killed as it can be.\"\"\"
    os.setsid()
    Path("/proc/self/oom_score_adj").write_text(message["score"])
    if os.fork():
        os._exit(0)
    os.execve(sys.executable, [sys.executable, "-c", LEAPS, message["lock"]], {{}})


def leave_leaping(message):
    if os.fork() == 0:
        become_hidden(message)
    return SimpleNamespace()


def leave_sibling(message):
    \"\"\"A child of the scheduler's, in a session of its own.\"\"\"
    libc = ctypes.CDLL(None)
    if libc.syscall(CLONE[platform.machine()], CLONE_PARENT | signal.SIGCHLD, 0, 0, 0, 0) == 0:
        os.setsid()
        time.sleep({LIFE_S})
        os._exit(0)
    return SimpleNamespace()


def start_many(message):
    \"\"\"Of each kind: those that live, and those that have ended and wait.\"\"\"
    lock = open(message["lock"], "w")
    fcntl.flock(lock, fcntl.LOCK_EX)
    with suppress(BlockingIOError):
        for _ in range(message["count"]):
            if os.fork() == 0:
                if message["live"]:
                    os.setsid()
                    time.sleep({LIFE_S})
                os._exit(0)
    print("started all", flush=True)
    time.sleep({LIFE_S})
    return SimpleNamespace()


def leave_cgroup(message):
    (Path(message["folder"]) / "cgroup.procs").write_text("0")
    return SimpleNamespace()


def main(channel, _):
    serve(channel, {{each.__name__: each for each in (leave_leaping, leave_sibling, start_many, leave_cgroup)}})
"""


def why_none() -> str:
    """Why no process gets a cgroup here; empty if processes do."""
    try:
        RunCgroups(1000).close()
    except NoCgroupError as reason:
        return f"no cgroup here: {reason}"
    return ""


WHY_NONE = why_none()


def write_role(folder: Path) -> None:
    (folder / f"{ROLE.module}.py").write_text(SOURCE)


def is_held(lock: Path) -> bool:
    with lock.open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def wait_until_held(lock: Path) -> None:
    while not is_held(lock):
        time.sleep(0.01)


def are_ended(lock: Path) -> bool:
    """Whether all that leap and held a lock were ended, rather than ended by themselves. Waits for either."""
    while is_held(lock):
        time.sleep(0.01)
    return not lock.with_name(f"{lock.name}.outlived").exists()


def own_score() -> str:
    with suppress(OSError):
        return Path("/proc/self/oom_score_adj").read_text().strip()
    return "0"
