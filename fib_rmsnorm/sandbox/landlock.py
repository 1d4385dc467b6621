"""Keep a worker from writing other files than its own, and from reading, tracing or signalling other processes.

Without this, processes of one user can read each other's memory and open files (`/proc/<pid>/mem`, `ptrace`): a worker
could read the judge's answers, overwrite the scheduler's verdict or kill it. It could also change files that the judge
has loaded or that somebody believes: torch's libraries, Traces, the builds of another. A Landlock domain prevents that,
for root too, and needs no privileges. Linux before 5.19 has no Landlock that suffices; workers are not confined there.
"""

from __future__ import annotations

import ctypes
import os
import struct
from collections.abc import Iterator, Sequence
from pathlib import Path

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446  # system calls, with the same numbers on every architecture
_ASK_VERSION = 1
_PATH_BENEATH = 1
_PR_SET_NO_NEW_PRIVS = 38
# Version 1 forbids moving files between folders, which compilers do in their caches.
_LEAST_VERSION = 2
_WRITE_FILE = 1 << 1
_REMOVE = 0b11 << 4  # folders, files
_MAKE = 0b1111111 << 6  # character devices, folders, files, sockets, pipes, block devices, links
_MAKE_DEVICE = 1 << 6 | 1 << 11
_MOVE_FILES = 1 << 13
_TRUNCATE = 1 << 14
_VERSION_WITH_TRUNCATE = 3
_VERSION_WITH_SCOPES = 6
_SCOPE_ABSTRACT_SOCKETS_AND_SIGNALS = 0b11
# What programs write to without changing anything for others: GPUs, and on Windows the GPU of the host.
_DEVICES = ("null", "zero", "full", "random", "urandom", "tty", "nvidia*", "dri", "dxg")

_HAS_GPU = Path("/dev/nvidiactl")
_THREADS = Path("/proc/self/task")
"""CUDA does not start unless it can name its threads in `comm`. Only the process's own files lie there."""


def prctl(option: int, argument: int) -> None:
    """Call prctl(2). Raises OSError if the kernel refuses."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(option, argument, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl failed")


def landlock_version() -> int:
    """The Landlock version of the running kernel; 0 if it has none, or one that is too old."""
    try:
        version = _syscall(_CREATE_RULESET, None, 0, _ASK_VERSION)
    except OSError:
        return 0
    return version if version >= _LEAST_VERSION else 0


def describe_gaps(version: int) -> str | None:
    """Say what a Solution can do to its user's files and processes under a Landlock version; None if nothing."""
    if version == 0:
        return "read the memory of your other processes and of the judge, and write your files"
    if version < _VERSION_WITH_TRUNCATE:
        return "empty your files, and send signals to your processes"
    if version < _VERSION_WITH_SCOPES:
        return "send signals to your processes"
    return None


def enter_landlock(writable: Sequence[str | Path]) -> None:
    """Put this process and all its descendants into a Landlock domain, where they write beneath `writable` alone.

    Does nothing if the kernel has no Landlock. Files that are open already stay writable, and so do pipes, sockets and
    files in memory.
    """
    version = landlock_version()
    if version == 0:
        return
    rights = _WRITE_FILE | _REMOVE | _MAKE | _MOVE_FILES | (_TRUNCATE if version >= _VERSION_WITH_TRUNCATE else 0)
    attributes = struct.pack("Q", rights)
    if version >= _VERSION_WITH_SCOPES:
        attributes = struct.pack("QQQ", rights, 0, _SCOPE_ABSTRACT_SOCKETS_AND_SIGNALS)
    ruleset = _syscall(_CREATE_RULESET, attributes, len(attributes), 0)
    for folder in writable:
        _allow(ruleset, folder, rights & ~_MAKE_DEVICE)
    for device in _devices():
        _allow(ruleset, device, _WRITE_FILE)
    if _HAS_GPU.exists():
        _allow(ruleset, _THREADS, rights & (_WRITE_FILE | _TRUNCATE))
    prctl(_PR_SET_NO_NEW_PRIVS, 1)  # required of anyone but root
    _syscall(_RESTRICT_SELF, ruleset, 0)
    os.close(ruleset)


def _devices() -> Iterator[Path]:
    for pattern in _DEVICES:
        yield from Path("/dev").glob(pattern)


def _allow(ruleset: int, path: str | Path, rights: int) -> None:
    descriptor = os.open(path, os.O_PATH)
    try:
        _syscall(_ADD_RULE, ruleset, _PATH_BENEATH, struct.pack("=Qi", rights, descriptor), 0)
    finally:
        os.close(descriptor)


def _syscall(number: int, *arguments: object) -> int:
    result: int = ctypes.CDLL(None, use_errno=True).syscall(number, *arguments)
    if result < 0:
        error = ctypes.get_errno()
        raise OSError(error, f"a system call of Landlock failed: {os.strerror(error)}")
    return result
