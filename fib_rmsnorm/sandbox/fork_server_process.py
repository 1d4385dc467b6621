"""The fork server: the process from which every worker and judge is forked.

It imports torch once, so that a worker starts in milliseconds rather than seconds, after a crash too. It does not touch
CUDA, so its children can. Each child is forked twice: its parent exits at once and the scheduler (a subreaper) becomes
its parent, so that the scheduler can wait for the child and see how it ended.
"""

import contextlib
import faulthandler
import gc
import importlib
import os
import re
import resource
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from io import TextIOWrapper
from pathlib import Path

import psutil

from fib_rmsnorm.file_trees import remove_tree
from fib_rmsnorm.garbage_collection import collector_off
from fib_rmsnorm.sandbox.channel import Channel, Message
from fib_rmsnorm.sandbox.confinement import confine
from fib_rmsnorm.sandbox.confinement.libc import become_subreaper, prctl, write_each_line
from fib_rmsnorm.sandbox.confinement.readable import Readable, find_readable

RUN_VARIABLE = "FIB_RMSNORM_RUN"
_PR_SET_PDEATHSIG = 1
_REMOVALS, _BETWEEN_REMOVALS_S = 20, 0.1
_SHARE_LEFT = 8
_OOM_SCORE_ADJ = "1000"  # the highest: killed before any other process when memory runs out


def make_private_folder(within: str | None = None) -> str:
    """Make a folder that other users cannot open, by default where the system has temporary files."""
    return tempfile.mkdtemp(prefix="fib-rmsnorm-", dir=within)


def remove_private_folder(folder: str) -> None:
    """Remove what a process left, as far as that is possible."""
    with contextlib.suppress(OSError):
        remove_tree(Path(folder))


_PACKAGE = Path(__file__).parents[1] / "__init__.py"
# A confined interpreter may be unable to list the folder that our package lies in, so it is told where that is.
_START = """\
import importlib.util, os, sys
sys.path[:] = sys.argv[1].split(os.pathsep)
spec = importlib.util.spec_from_file_location("fib_rmsnorm", sys.argv[2])
sys.modules["fib_rmsnorm"] = importlib.util.module_from_spec(spec)
spec.loader.exec_module(sys.modules["fib_rmsnorm"])
importlib.import_module(sys.argv[3]).main(*sys.argv[4:])
"""


def python_command(module: str, *arguments: object) -> list[str]:
    """The command that passes arguments to the `main` of our module, in a new process with our own `sys.path`.

    `-m` would put the working folder first, where a kernel's author may keep a triton.py.
    """
    return [sys.executable, "-c", _START, os.pathsep.join(sys.path), str(_PACKAGE), module, *map(str, arguments)]


def kill_children(is_meant: Callable[[int], bool]) -> None:
    """Kill the children of this process that are meant, by their ids, and wait for them.

    Their own children become ours in turn, if we adopt orphans, so this repeats until none is left.
    """
    found = True
    while found:
        found = False
        for child in psutil.Process().children():
            with contextlib.suppress(psutil.Error, OSError):
                if is_meant(child.pid):
                    child.kill()
                    os.waitpid(child.pid, 0)
                    found = True


def is_marked(pid: int) -> bool:
    """Whether we confine a process: it has more seccomp filters than this one, and no process can remove a filter.

    If no system calls are filtered, it has the OOM score that our children inherit, though they may lower it.
    """
    own = os.getpid()
    try:
        return _count_filters(pid) > _count_filters(own) or _is_killed_first(pid) > _is_killed_first(own)
    except OSError:
        return False


def _is_killed_first(pid: int) -> bool:
    return Path(f"/proc/{pid}/oom_score_adj").read_text().strip() == _OOM_SCORE_ADJ


def _count_filters(pid: int) -> int:
    """The number of seccomp filters of a process; 0 before Linux 5.9, which does not report it."""
    found = re.search(
        r"^Seccomp_filters:\s*(\d+)", Path(f"/proc/{pid}/status").read_text(errors="replace"), re.MULTILINE
    )
    return int(found[1]) if found else 0


def main(descriptor: str, scheduler_pid: str, temporary: str, *modules: str) -> None:
    """Import the modules of the roles, which takes seconds, and serve spawn requests on a channel.

    Ends when the scheduler dies; a scheduler that ends normally kills it. If the scheduler was killed, it
    kills the rest of the run and removes its `temporary` folder.
    """
    scheduler, channel = int(scheduler_pid), Channel(int(descriptor), takes_files=True)
    # While we import, only this signal tells us that the scheduler has died. Later the channel does: unlike the
    # signal, it does not depend on the scheduler's thread that started us.
    prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != scheduler:
        return
    # Imported for the children: a fork is ready to work at once. Frozen, so that the garbage collectors of the
    # children neither search the shared objects nor cause copies of their pages.
    with collector_off():
        for module in modules:
            importlib.import_module(module)
    readable = find_readable()
    gc.freeze()
    prctl(_PR_SET_PDEATHSIG, 0)
    _serve_forks(channel, scheduler, readable)
    _kill_run()
    for _ in range(_REMOVALS):  # workers of a scheduler that was killed are dying too, and may still write
        remove_private_folder(temporary)
        if not Path(temporary).exists():
            return
        time.sleep(_BETWEEN_REMOVALS_S)


def _kill_run() -> None:
    """Kill all other processes with the run's id in their environment: descendants of workers that have died."""
    mark = f"{RUN_VARIABLE}={os.environ[RUN_VARIABLE]}".encode()
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if int(folder.name) != os.getpid() and mark in (folder / "environ").read_bytes().split(b"\0"):
                os.kill(int(folder.name), signal.SIGKILL)


def _serve_forks(channel: Channel, scheduler: int, readable: Readable) -> None:
    while True:
        try:
            request = channel.receive()
        except (EOFError, OSError):
            return
        descriptors, channel.files = channel.files, []
        reader, writer = os.pipe()
        with contextlib.suppress(OSError):  # the user has no room for another process
            middle = os.fork()
            if middle == 0:
                middle, status = os.getpid(), 1
                try:
                    if os.fork() == 0:
                        os.close(reader)
                        channel.close()
                        _await_scheduler(writer, middle, scheduler)
                        _become(request, descriptors, readable)
                    status = 0
                finally:
                    with contextlib.suppress(Exception):
                        sys.stdout.flush()
                        sys.stderr.flush()
                    os._exit(status)
            os.waitpid(middle, 0)
        os.close(writer)
        with os.fdopen(reader, "rb") as pipe:
            pid = int(pipe.read() or 0)
        for inherited in descriptors:
            os.close(inherited)
        with contextlib.suppress(OSError):  # the scheduler has died
            channel.send({"pid": pid})


def _await_scheduler(writer: int, middle: int, scheduler: int) -> None:
    """Send our pid, and wait until the scheduler is our parent. If it dies, we die."""
    os.setsid()
    os.write(writer, str(os.getpid()).encode())
    os.close(writer)
    # Until then, the signal would kill us when the middle process exits.
    while (parent := os.getppid()) != scheduler:
        if parent != middle:  # the scheduler has died, and another subreaper or init is our parent
            os._exit(1)
        time.sleep(0.0005)
    prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != scheduler:
        os._exit(1)


def _become(request: Message, fds: list[int], readable: Readable) -> None:
    """Run a role in this process, which was forked for it."""
    channel_fd, log_fd, outputs_fd = fds
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(log_fd, 1)
    os.dup2(log_fd, 2)
    # The last output before a crash or a hang is what the author needs most.
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(line_buffering=True)
    write_each_line()
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    most = resource.getrlimit(resource.RLIMIT_NPROC)[0]
    if request["runs_untrusted_code"] and most != resource.RLIM_INFINITY:
        # The limit is for all of the user's processes: leave some to other programs.
        resource.setrlimit(resource.RLIMIT_NPROC, (most - most // _SHARE_LEFT,) * 2)
    with contextlib.suppress(OSError):
        # When memory runs out, Linux kills a solution's process before any other.
        Path("/proc/self/oom_score_adj").write_text(_OOM_SCORE_ADJ)
    become_subreaper()  # so that its orphaned descendants stay its children
    confine(readable, request["readable"], request["writable"])
    os.environ.update(request["environment"])
    tempfile.tempdir = None  # chosen anew from the environment: the fork server may have chosen another

    faulthandler.enable()
    importlib.import_module(str(request["module"])).main(Channel(channel_fd, takes_files=True), outputs_fd)
