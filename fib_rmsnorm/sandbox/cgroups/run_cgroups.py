"""The cgroups of a run: a folder beneath the scheduler's own cgroup, with one in it for each confined process."""

from __future__ import annotations

import errno
import itertools
import os
import re
from contextlib import suppress
from pathlib import Path, PurePosixPath

from fib_rmsnorm.sandbox.cgroups.cgroup import Cgroup, kill_all, remove, wait_until_empty
from fib_rmsnorm.sandbox.cgroups.hierarchy import NoCgroupError, find_own_folder, path_of

_LEAST_TASK_LIMIT = 4096
_TASKS_PER_CORE = 64  # thread pools and compilers start some for each
_PREFIX = "fib-rmsnorm"
# The namespace of pids, the scheduler's pid there, and when it started.
_NAME = re.compile(rf"{_PREFIX}-(\d+)-(\d+)-(\d+)-[0-9a-f]+")
_DELEGATE = "try systemd-run --user --scope -p Delegate=yes fib-rmsnorm bench"
_MOUNT = "try docker run --security-opt writable-cgroups=true, or podman run --security-opt unmask=/sys/fs/cgroup"


def default_task_limit() -> int:
    """How many processes and threads a confined process and its descendants may be."""
    return max(_LEAST_TASK_LIMIT, _TASKS_PER_CORE * (os.cpu_count() or 1))


class RunCgroups:
    """The cgroups of a run."""

    def __init__(self, task_limit: int) -> None:
        """Make the run's folder, and remove those of runs whose scheduler was killed, with all that they left.

        Raises NoCgroupError where this user may not make cgroups, or the kernel cannot kill them.
        """
        parent = find_own_folder()
        _remove_abandoned(parent)
        self._task_limit = task_limit
        self._numbers = itertools.count(1)
        self.folder = parent / "-".join((_PREFIX, *_identify("self"), os.urandom(4).hex()))
        try:
            self.folder.mkdir()
        except OSError as error:
            remedy = _MOUNT if error.errno == errno.EROFS else _DELEGATE
            raise NoCgroupError(f"none can be made in {parent}: {error.strerror}", remedy) from None
        try:
            _require_usable(self.folder)
        except NoCgroupError:
            self.close()
            raise
        self._path = (path_of("self") or PurePosixPath("/")) / self.folder.name
        self.bounds_tasks = self._enable_bound()
        """Whether the kernel refuses more processes and threads than the limit."""

    def _enable_bound(self) -> bool:
        """Have the kernel bound each cgroup, if the scheduler's own gives the pids controller to those beneath it."""
        if not (self.folder / "pids.max").exists():
            return False
        try:
            (self.folder / "cgroup.subtree_control").write_text("+pids")
        except OSError:
            return False
        return True

    def make(self) -> Cgroup | None:
        """Make a cgroup for a process; None if that fails, as where there are too many."""
        folder = self.folder / str(next(self._numbers))
        try:
            folder.mkdir()
            if self.bounds_tasks:
                (folder / "pids.max").write_text(str(self._task_limit))
        except OSError:
            return None
        return Cgroup(folder, self._path / folder.name, self._task_limit)

    def find(self, pid: int) -> Path | None:
        """The folder of the cgroup of this run in which a process is, or was before it became a zombie."""
        path = path_of(pid)
        if path is None or self._path not in path.parents:
            return None
        return self.folder / path.relative_to(self._path).parts[0]

    def close(self) -> None:
        """Kill what is left in the run's cgroups, and remove them."""
        end_run(self.folder)


def open_run_cgroups(task_limit: int) -> RunCgroups | None:
    """The cgroups of a run, or None where there can be none."""
    try:
        return RunCgroups(task_limit)
    except NoCgroupError:
        return None


def end_run(folder: Path) -> None:
    """Kill all that is in the cgroups of a run, and remove them."""
    kill_all(folder)
    wait_until_empty(folder)
    remove(folder)


def describe_cgroups() -> str:
    """Say whether confined processes get cgroups on this machine; if not, why, and what would allow it."""
    limit = default_task_limit()
    try:
        cgroups = RunCgroups(limit)
    except NoCgroupError as reason:
        remedy = f"; {reason.remedy}" if reason.remedy else ""
        return f"no cgroup for each worker ({reason}): processes without number are not stopped{remedy}"
    cgroups.close()
    how = "the kernel refuses more" if cgroups.bounds_tasks else "it is ended if it has more"
    return f"each worker gets a cgroup in {cgroups.folder.parent}, of {limit} processes and threads ({how})"


def _identify(pid: int | str) -> tuple[str, str, str]:
    """What no other process of this machine has. Raises OSError if there is no such process, or only a zombie."""
    name, _, fields = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")
    state, *others = fields.split()
    if state in "ZX":
        raise ProcessLookupError
    namespace = os.stat("/proc/self/ns/pid").st_ino  # noqa: PTH116 - its target is not in the file system
    return str(namespace), name.split()[0], others[18]


def _remove_abandoned(parent: Path) -> None:
    """End runs whose scheduler was killed. Those of other users and of other namespaces of pids are not ours to end."""
    with suppress(OSError):
        for folder in [*parent.iterdir()]:
            found = _NAME.fullmatch(folder.name)
            with suppress(OSError):  # another run may have ended it meanwhile, or its own
                if found and folder.stat().st_uid == os.geteuid() and _is_dead(*found.groups()):
                    end_run(folder)


def _is_dead(namespace: str, pid: str, started: str) -> bool:
    own, _, _ = _identify("self")
    if namespace != own:
        return False
    try:
        return _identify(pid) != (namespace, pid, started)
    except OSError:
        return True


def _require_usable(folder: Path) -> None:
    """Raise NoCgroupError if no process can be started in a new cgroup and killed by it."""
    if not (folder / "cgroup.kill").exists():
        raise NoCgroupError("Linux ends whole cgroups since 5.14")
    if (folder / "cgroup.type").read_text().strip() != "domain":
        raise NoCgroupError(f"{folder.parent} is for threads")
    if not os.access(folder.parent / "cgroup.procs", os.W_OK):
        raise NoCgroupError(f"no process may leave {folder.parent}", _DELEGATE)
