"""The cgroup of one confined process and of all that it starts."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path, PurePosixPath

from fib_rmsnorm.sandbox.cgroups.hierarchy import path_of

_POLL_S = 0.001
_DYING_LIMIT_S = 5.0  # what holds a GPU, or much memory, takes a while to die


class Cgroup:
    """A cgroup that this run has made."""

    def __init__(self, folder: Path, path: PurePosixPath, task_limit: int) -> None:
        """`path` is its place among the cgroups, as `/proc/<pid>/cgroup` has it."""
        self.folder = folder
        self.task_limit = task_limit
        """How many processes and threads it may hold."""
        self._path = path
        self._killed: set[int] = set()
        self._taking: threading.Thread | None = None

    def take(self, pid: int) -> None:
        """Begin to move a process into it. It must run nothing of others, and not be waited for, until that is done.

        A process could start in it by clone3, but not by the C library's fork, which ends the threads of OpenBLAS and
        the like before: what is forked without that waits for ever for threads that it does not have.
        """
        self._taking = threading.Thread(target=enter, args=(str(self.folder), pid))
        self._taking.start()

    def wait_until_taken(self) -> None:
        """Wait until the process that it takes is in it."""
        if self._taking is not None:
            self._taking.join()

    def kill(self) -> None:
        """Kill all that is in it, but do not wait for its end."""
        self.wait_until_taken()
        with suppress(OSError):
            self._killed.update(map(int, (self.folder / "cgroup.procs").read_text().split()))
        kill_all(self.folder)

    def holds(self, pid: int) -> bool:
        """Whether a process is in it, or was before it became a zombie."""
        return path_of(pid) == self._path

    def count_tasks(self) -> int:
        """The number of its processes and threads; without zombies, unless the kernel bounds it."""
        try:
            return int((self.folder / "pids.current").read_text())
        except OSError:
            pass
        try:
            return (self.folder / "cgroup.threads").read_text().count("\n")
        except OSError:
            return 0

    def end(self, reap: Callable[[], None]) -> None:
        """Wait until all that was killed is gone, and remove the cgroup.

        `reap` waits for those that have died: they are our children, or become our children when their parents die.
        """
        deadline = time.monotonic() + _DYING_LIMIT_S
        wait_until_empty(self.folder)
        reap()
        # A process leaves its cgroup a moment before it is a zombie.
        while any(map(self.holds, self._killed)) and time.monotonic() < deadline:
            time.sleep(_POLL_S)
            reap()
        remove(self.folder)


def enter(folder: str, pid: int = 0) -> None:
    """Move a process, this one if it is 0, into a cgroup, as far as the kernel allows.

    That waits for all processors, for 5 to 20 ms.
    """
    with suppress(OSError):
        Path(folder, "cgroup.procs").write_text(str(pid))


def kill_all(folder: Path) -> None:
    """Kill all that is in a cgroup and in those beneath it, but do not wait for its end."""
    with suppress(OSError):  # it is removed already
        descriptor = os.open(folder / "cgroup.kill", os.O_WRONLY)
        try:
            os.write(descriptor, b"1")
        finally:
            os.close(descriptor)


def wait_until_empty(folder: Path) -> None:
    """Wait until all that was killed in a cgroup has died, but no longer than a few seconds."""
    deadline = time.monotonic() + _DYING_LIMIT_S
    while _is_populated(folder) and time.monotonic() < deadline:
        time.sleep(_POLL_S)


def remove(folder: Path) -> None:
    """Remove a cgroup and those beneath it, as far as they are empty: the kernel refuses the others."""
    for each, _, _ in os.walk(folder, topdown=False):
        with suppress(OSError):
            os.rmdir(each)  # noqa: PTH106 - as os.walk names it


def _is_populated(folder: Path) -> bool:
    try:
        return "populated 1" in (folder / "cgroup.events").read_text()
    except OSError:
        return False
