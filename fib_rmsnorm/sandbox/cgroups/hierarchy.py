"""Where this process's cgroup lies in the file system."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

_MOUNTS = Path("/proc/self/mountinfo")
_TYPE = "cgroup2"
_ESCAPED = re.compile(r"\\([0-7]{3})")


class NoCgroupError(Exception):
    """Processes cannot get cgroups of their own here. The message says why, and `remedy` what would allow it."""

    def __init__(self, reason: str, remedy: str = "") -> None:
        super().__init__(reason)
        self.remedy = remedy


@dataclass(frozen=True)
class Mount:
    """A place where cgroups v2 are mounted."""

    root: str
    """The cgroup whose folder the mount point is, as processes of our cgroup namespace see it."""
    point: Path


def read_mounts(mountinfo: str) -> list[Mount]:
    """The mounts of cgroups v2 that `/proc/<pid>/mountinfo` lists. Version 1 may be mounted beside them (hybrid)."""
    found = []
    for line in mountinfo.split("\n"):
        fields, _, of_filesystem = (line + " ").partition(" - ")
        words = fields.split(" ")
        if len(words) > 4 and of_filesystem.split(" ")[0] == _TYPE:
            root, point = (_ESCAPED.sub(lambda match: chr(int(match[1], 8)), word) for word in words[3:5])
            found.append(Mount(root, Path(point)))
    return found


def read_path(cgroup: str) -> PurePosixPath | None:
    """The cgroup v2 that `/proc/<pid>/cgroup` names; None if it names none, or one outside of our namespace."""
    for line in cgroup.split("\n"):
        if line.startswith("0::/"):
            path = PurePosixPath(line.removeprefix("0::").removesuffix(" (deleted)"))
            return None if ".." in path.parts else path
    return None


def path_of(pid: int | str) -> PurePosixPath | None:
    """The cgroup of a process, which it keeps as a zombie; None if that is unknown."""
    try:
        return read_path(Path(f"/proc/{pid}/cgroup").read_text(errors="surrogateescape"))
    except OSError:
        return None


def folders_of(path: PurePosixPath, mounts: Iterable[Mount]) -> list[Path]:
    """Where the folder of a cgroup may lie, the likeliest first: a later mount hides an earlier one."""
    found = [
        mount.point / path.relative_to(mount.root)
        for mount in mounts
        if path.is_relative_to(mount.root) and ".." not in PurePosixPath(mount.root).parts
    ]
    return found[::-1]


def find_own_folder() -> Path:
    """The folder of this process's cgroup. Raises NoCgroupError if there is none."""
    path = path_of("self")
    mounts = read_mounts(_MOUNTS.read_text(errors="surrogateescape"))
    if path is None or not mounts:
        raise NoCgroupError("no cgroup v2 is mounted here")
    for folder in folders_of(path, mounts):
        if _holds_us(folder):
            return folder
    raise NoCgroupError("the cgroup of this process is not mounted here")


def _holds_us(folder: Path) -> bool:
    try:
        return str(os.getpid()) in (folder / "cgroup.procs").read_text().split()
    except OSError:
        return False
