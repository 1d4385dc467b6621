"""The fork server: two processes from which every worker and judge is forked.

One imports torch once, so that a worker starts in milliseconds rather than seconds, after a crash too. The other
imports next to nothing, and only when it is first asked: what it forks need not wait for the other. Neither touches
CUDA, so their children can. Each child is forked twice: its parent exits at once and the scheduler (a subreaper)
becomes its parent, so that the scheduler can wait for the child and see how it ended.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import os
import resource
import signal
import socket
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Sequence
from io import TextIOWrapper
from pathlib import Path
from typing import Any

from fib_rmsnorm.garbage_collection import collector_off
from fib_rmsnorm.sandbox.confinement import confine
from fib_rmsnorm.sandbox.confinement.libc import prctl, write_each_line
from fib_rmsnorm.sandbox.confinement.readable import Readable, find_readable
from fib_rmsnorm.sandbox.private_folder import remove_private_folder
from fib_rmsnorm.sandbox.subreaper import become_subreaper

RUN_VARIABLE = "FIB_RMSNORM_RUN"
_PR_SET_PDEATHSIG = 1
_FDS_PER_SPAWN = 3  # channel, log, outputs file
_REMOVALS, _BETWEEN_REMOVALS_S = 20, 0.1
_OOM_SCORE_ADJ = "1000"  # the highest: killed before any other process when memory runs out


def is_marked(pid: int) -> bool:
    """Whether a process is of those that we confine: it has more seccomp filters than this one, which nobody removes.

    Where no system calls are filtered: it has the OOM score that our children inherit, though they may lower it.
    """
    own = os.getpid()
    try:
        return _count_filters(pid) > _count_filters(own) or _is_killed_first(pid) > _is_killed_first(own)
    except OSError:
        return False


def _is_killed_first(pid: int) -> bool:
    return Path(f"/proc/{pid}/oom_score_adj").read_text().strip() == _OOM_SCORE_ADJ


def _count_filters(pid: int) -> int:
    """The number of seccomp filters of a process; 0 before Linux 5.9, which does not tell it."""
    for line in Path(f"/proc/{pid}/status").read_text(errors="replace").splitlines():
        name, _, value = line.partition(":")
        if name == "Seccomp_filters":
            return int(value)
    return 0


def main(
    early: int,
    late: int,
    scheduler: int,
    early_modules: Sequence[str],
    late_modules: Sequence[str],
    temporary: str,
) -> None:
    """Serve spawn requests, for roles of `late_modules` in a process that imports these, which takes seconds.

    `early` and `late` are the descriptors of the sockets. The first message on `early` is the pid of that process. Both
    serve until the process `scheduler` dies, which kills them when it ends by itself. If it was killed, what
    is left of the run is killed, and its `temporary` folder is removed.
    """
    sockets = [socket.socket(fileno=descriptor) for descriptor in (early, late)]
    # While we import, only this signal tells us that the scheduler has died. Later the socket does: unlike the
    # signal, it does not depend on the scheduler's thread that started us.
    prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != scheduler:
        return

    def serve_late() -> None:
        sockets[0].close()
        try:
            _serve_forks(sockets[1], scheduler, late_modules)
        except BaseException:
            traceback.print_exc()  # its last line is what the scheduler tells
            raise

    pid = _fork_twice(serve_late, scheduler)
    sockets[1].close()
    sockets[0].send(json.dumps({"pid": pid}).encode())
    prctl(_PR_SET_PDEATHSIG, 0)
    # Most runs compile nothing early, and what that imports would take time from the other's imports.
    if sockets[0].recv(1, socket.MSG_PEEK):
        _serve_forks(sockets[0], scheduler, early_modules)
    _kill_run()
    _remove_when_they_have_died(temporary)


def _kill_run() -> None:
    """Kill all that has the run's id in its environment but this process: descendants of workers that have died."""
    mark = f"{RUN_VARIABLE}={os.environ[RUN_VARIABLE]}".encode()
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if int(folder.name) != os.getpid() and mark in (folder / "environ").read_bytes().split(b"\0"):
                os.kill(int(folder.name), signal.SIGKILL)


def _remove_when_they_have_died(folder: str) -> None:
    """Remove what workers of a scheduler that was killed may still write to: they are dying too."""
    for _ in range(_REMOVALS):
        remove_private_folder(folder)
        if not Path(folder).exists():
            return
        time.sleep(_BETWEEN_REMOVALS_S)


def _serve_forks(server: socket.socket, scheduler: int, modules: Sequence[str]) -> None:
    # Imported for the children: a fork is ready to work at once. Frozen, so that the garbage collectors of the
    # children neither search the shared objects nor cause copies of their pages.
    with collector_off():
        for module in modules:
            importlib.import_module(module)
    readable = find_readable()
    gc.freeze()
    prctl(_PR_SET_PDEATHSIG, 0)
    while True:
        data, descriptors, _, _ = socket.recv_fds(server, 1 << 16, _FDS_PER_SPAWN)
        if not data:
            return
        request = json.loads(data)

        def become(request: dict[str, Any] = request, descriptors: list[int] = descriptors) -> None:
            server.close()
            _become(request, descriptors, readable)

        pid = _fork_twice(become, scheduler)
        for inherited in descriptors:
            os.close(inherited)
        server.send(json.dumps({"pid": pid}).encode())


def _fork_twice(run: Callable[[], None], scheduler: int) -> int:
    reader, writer = os.pipe()
    middle = os.fork()
    if middle == 0:
        middle = os.getpid()
        pid = os.fork()
        if pid:
            os._exit(0)
        os.close(reader)
        _run_child(run, writer, middle, scheduler)
    os.close(writer)
    os.waitpid(middle, 0)
    with os.fdopen(reader, "rb") as pipe:
        return int(pipe.read())


def _run_child(run: Callable[[], None], writer: int, middle: int, scheduler: int) -> None:
    status = 1
    try:
        os.setsid()
        os.write(writer, str(os.getpid()).encode())
        os.close(writer)
        # Wait until the scheduler is our parent. Until then, this signal would kill us when the middle process exits.
        while (parent := os.getppid()) != scheduler:
            if parent != middle:  # the scheduler has died, and another subreaper or init is our parent
                os._exit(1)
            time.sleep(0.0005)
        prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != scheduler:
            os._exit(1)
        run()
        status = 0
    finally:
        with contextlib.suppress(Exception):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(status)


def _become(request: dict[str, Any], fds: list[int], readable: Readable) -> None:
    """Run a role in this process, which was forked for it."""
    channel_fd, log_fd, outputs_fd = fds
    _redirect(log_fd)
    _limit()
    if request["is_confined"]:
        become_subreaper()  # so that its orphaned descendants stay its children
        confine(readable, request["readable"], request["writable"])
    os.environ.update(request["environment"])
    tempfile.tempdir = None  # chosen anew from the environment: the fork server may have chosen another
    _serve(str(request["module"]), channel_fd, outputs_fd)


def _redirect(log_fd: int) -> None:
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.dup2(log_fd, 1)
    os.dup2(log_fd, 2)
    # What is printed last, before a crash or in a call without end, is what its author wants to know.
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(line_buffering=True)
    write_each_line()


def _limit() -> None:
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with contextlib.suppress(OSError):
        # When memory runs out, Linux kills a solution's process before any other.
        Path("/proc/self/oom_score_adj").write_text(_OOM_SCORE_ADJ)


def _serve(module: str, channel_fd: int, outputs_fd: int) -> None:
    import faulthandler

    from fib_rmsnorm.sandbox.channel import Channel

    faulthandler.enable()
    importlib.import_module(module).main(Channel(channel_fd, takes_files=True), outputs_fd)
