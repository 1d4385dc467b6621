"""Confinement of untrusted code by the kernel: files, other processes, networks, privileges.

Each layer covers what the others cannot: Landlock restricts files and signals, seccomp other system calls, and
capabilities the rights of root.
"""

import ctypes
import struct
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from fib_rmsnorm.sandbox.confinement import landlock, seccomp
from fib_rmsnorm.sandbox.confinement.landlock import enter_landlock
from fib_rmsnorm.sandbox.confinement.libc import libc, prctl
from fib_rmsnorm.sandbox.confinement.readable import Readable
from fib_rmsnorm.sandbox.confinement.seccomp import enter_seccomp

_PR_SET_NO_NEW_PRIVS = 38
_VERSION_3 = 0x20080522
# Root in a container, whose folders may belong to another user, keeps two: to open files, which Landlock restricts
# anyway, and to lock pages in memory, as CUDA does. Without the others it cannot mount, trace, lower its OOM score,
# or take a real-time priority or another user's id.
_DAC_OVERRIDE, _DAC_READ_SEARCH, _IPC_LOCK = 1, 2, 14
_KEPT = 1 << _DAC_OVERRIDE | 1 << _DAC_READ_SEARCH | 1 << _IPC_LOCK
# NVIDIA's driver requires one of them to count anything. Seccomp refuses everything else that they allow.
_SYS_ADMIN, _PERFMON = 21, 38
_DRIVER_WITH_PERFMON = 565
_DRIVER_VERSION = Path("/sys/module/nvidia/version")
_LOWER = 0xFFFFFFFF


def confine(
    readable: Readable, also_readable: Sequence[str | Path], writable: Sequence[str | Path], *, is_watched: bool = False
) -> None:
    """Confine this process and all its descendants permanently, as far as Linux can.

    It confines the calling thread and the threads that this one starts. `is_watched` is for a process
    that reads a GPU's counters, with a tool that talks to a process of its own.
    """
    prctl(_PR_SET_NO_NEW_PRIVS, 1)  # as Landlock and seccomp require of anyone but root
    enter_landlock([*readable.readable, *also_readable], readable.listable, writable)
    drop_privileges(reads_counters=is_watched)
    enter_seccomp(sends_files=is_watched)


def drop_privileges(*, reads_counters: bool = False) -> None:
    """Give up all capabilities but those to open files and to lock memory.

    With `reads_counters`, the process keeps the one by which it may read a GPU's counters, if it has it.
    """
    kept = _KEPT
    if reads_counters:
        counting = _PERFMON
        with suppress(OSError, ValueError):
            if int(_DRIVER_VERSION.read_text(encoding="ascii").partition(".")[0]) < _DRIVER_WITH_PERFMON:
                counting = _SYS_ADMIN
        kept |= 1 << counting
    header = struct.pack("=Ii", _VERSION_3, 0)
    found = ctypes.create_string_buffer(24)  # lower, then upper halves: effective, permitted, inheritable
    if libc().capget(header, found) != 0:
        raise OSError(ctypes.get_errno(), "capget failed")
    halves = zip(struct.unpack("=6I", found.raw), (*[kept & _LOWER] * 2, 0, *[kept >> 32] * 2, 0), strict=True)
    if libc().capset(header, struct.pack("=6I", *(had & left for had, left in halves))) != 0:
        raise OSError(ctypes.get_errno(), "capset failed")


def find_gaps() -> list[str]:
    """List what this machine's kernel cannot prevent, in a line for each layer."""
    return [*filter(None, (landlock.describe_gaps(landlock.landlock_version()), seccomp.describe_gaps()))]
