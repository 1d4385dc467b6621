"""Keep a process from files that are not its own, and from reading, tracing or signalling other processes.

Without this, processes of one user can read each other's memory and open files (`/proc/<pid>/mem`, `ptrace`): a worker
could read the judge's answers, overwrite the scheduler's verdict or kill it. It could also change files that others
load or trust: torch's libraries, Traces, another Solution's builds. It could read keys and print them into a log that
is published. A Landlock domain prevents that, for root too, and needs no privileges. Linux before 5.19
lacks a Landlock that suffices, and does not confine processes.
"""

import os
import stat
import struct
from collections.abc import Iterable, Sequence
from pathlib import Path

from fib_rmsnorm.sandbox.confinement.libc import system_call

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446  # system calls, with the same numbers on every architecture
_ASK_VERSION = 1
_PATH_BENEATH = 1
# Version 1 forbids moving files between folders, which compilers do in their caches.
_LEAST_VERSION = 2
_EXECUTE = 1 << 0
_WRITE_FILE = 1 << 1
_READ_FILE = 1 << 2
_READ_FOLDER = 1 << 3
_READ = _EXECUTE | _READ_FILE | _READ_FOLDER
_REMOVE = 0b11 << 4  # folders, files
_MAKE = 0b1111111 << 6  # character devices, folders, files, sockets, pipes, block devices, links
_MAKE_DEVICE = 1 << 6 | 1 << 11
_MOVE_FILES = 1 << 13
_TRUNCATE = 1 << 14
_OF_FILES = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE
"""The rights that a rule for something other than a folder may grant."""
_VERSION_WITH_TRUNCATE = 3
_VERSION_WITH_TCP = 4
_VERSION_WITH_SCOPES = 6
_BIND_AND_CONNECT_TCP = 0b11
_SCOPE_ABSTRACT_SOCKETS_AND_SIGNALS = 0b11
# Programs write to these without affecting others: GPUs, and under Windows the host's GPU.
_DEVICES = ("null", "zero", "full", "random", "urandom", "tty", "nvidia*", "dri", "kfd", "dxg")

_HAS_GPU = Path("/dev/nvidiactl")
_THREADS = Path("/proc/self/task")
"""CUDA does not start unless it can name its threads in `comm`. Only the process's own files lie there."""


def landlock_version() -> int:
    """The Landlock version of the running kernel; 0 if it has none, or one that is too old."""
    try:
        version = system_call(_CREATE_RULESET, None, 0, _ASK_VERSION)
    except OSError:
        return 0
    return version if version >= _LEAST_VERSION else 0


def describe_gaps(version: int) -> str | None:
    """Say what a Solution can do to its user's files and processes under a Landlock version; None if nothing."""
    if version >= _VERSION_WITH_SCOPES:
        return None
    can = "send signals to your processes"
    if version == 0:
        can = "read the memory of your other processes and of the judge, and read and write your files"
    elif version < _VERSION_WITH_TRUNCATE:
        can = "empty your files, and send signals to your processes"
    found = f"Landlock version {version}" if version else "no Landlock that suffices"
    return f"{found} in this kernel: a solution can {can}"


def enter_landlock(
    readable: Iterable[str | Path], listable: Iterable[str | Path], writable: Sequence[str | Path]
) -> None:
    """Put this process and all its descendants into a Landlock domain.

    They can read and execute files under `readable`, list files under `listable`, and read and write files under
    `writable`, and use no TCP. Paths that do not exist grant nothing.

    Does nothing if the kernel has no Landlock. Files that are open already stay open, and so do pipes, sockets and
    files in memory.
    """
    version = landlock_version()
    if version == 0:
        return
    truncate = _TRUNCATE if version >= _VERSION_WITH_TRUNCATE else 0
    rights = _READ | _WRITE_FILE | _REMOVE | _MAKE | _MOVE_FILES | truncate
    attributes = struct.pack("Q", rights)
    if version >= _VERSION_WITH_TCP:
        attributes += struct.pack("Q", _BIND_AND_CONNECT_TCP)
    if version >= _VERSION_WITH_SCOPES:
        attributes += struct.pack("Q", _SCOPE_ABSTRACT_SOCKETS_AND_SIGNALS)
    ruleset = system_call(_CREATE_RULESET, attributes, len(attributes), 0)
    for path in readable:
        _allow(ruleset, path, _READ)
    for path in listable:
        _allow(ruleset, path, _READ_FOLDER)
    for path in writable:
        _allow(ruleset, path, rights & ~_MAKE_DEVICE)
    for pattern in _DEVICES:
        for device in Path("/dev").glob(pattern):
            _allow(ruleset, device, _READ | _WRITE_FILE)
    if _HAS_GPU.exists():
        _allow(ruleset, _THREADS, _READ | _WRITE_FILE | truncate)
    system_call(_RESTRICT_SELF, ruleset, 0)
    os.close(ruleset)


def _allow(ruleset: int, path: str | Path, rights: int) -> None:
    try:
        descriptor = os.open(path, os.O_PATH)
    except OSError:
        return  # nor could it be read without Landlock
    try:
        granted = rights if stat.S_ISDIR(os.fstat(descriptor).st_mode) else rights & _OF_FILES
        system_call(_ADD_RULE, ruleset, _PATH_BENEATH, struct.pack("=Qi", granted, descriptor), 0)
    finally:
        os.close(descriptor)
