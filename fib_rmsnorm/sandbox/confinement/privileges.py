"""Take root's privileges from a process that runs untrusted code."""

from __future__ import annotations

import ctypes
import struct
from contextlib import suppress
from pathlib import Path

from fib_rmsnorm.sandbox.confinement.libc import gain_no_privileges, libc

_VERSION_3 = 0x20080522
# Of root in a container whose folders belong to somebody else: to open files, which Landlock restricts anyway, and to
# lock pages in memory, as CUDA does. Without the others it cannot mount, trace, lower its OOM score, take a real-time
# priority or another user's id.
_DAC_OVERRIDE, _DAC_READ_SEARCH, _IPC_LOCK = 1, 2, 14
_KEPT = 1 << _DAC_OVERRIDE | 1 << _DAC_READ_SEARCH | 1 << _IPC_LOCK
# One of them NVIDIA's driver asks for before it counts anything. Seccomp refuses what else they allow.
_SYS_ADMIN, _PERFMON = 21, 38
_DRIVER_WITH_PERFMON = 565
_DRIVER_VERSION = Path("/sys/module/nvidia/version")
_LOWER = 0xFFFFFFFF


def drop_privileges(*, reads_counters: bool = False) -> None:
    """Give up all capabilities but those to open files and to lock memory. Programs that it starts gain none.

    With `reads_counters`, the process keeps the one by which it may read a GPU's counters, if it has it.
    """
    kept = _KEPT | (1 << _counting_capability() if reads_counters else 0)
    gain_no_privileges()
    header = struct.pack("=Ii", _VERSION_3, 0)
    found = ctypes.create_string_buffer(24)  # lower, then upper halves: effective, permitted, inheritable
    if libc().capget(header, found) != 0:
        raise OSError(ctypes.get_errno(), "capget failed")
    halves = zip(struct.unpack("=6I", found.raw), (*[kept & _LOWER] * 2, 0, *[kept >> 32] * 2, 0), strict=True)
    if libc().capset(header, struct.pack("=6I", *(had & left for had, left in halves))) != 0:
        raise OSError(ctypes.get_errno(), "capset failed")


def _counting_capability() -> int:
    with suppress(OSError, ValueError):
        if int(_DRIVER_VERSION.read_text(encoding="ascii").partition(".")[0]) < _DRIVER_WITH_PERFMON:
            return _SYS_ADMIN
    return _PERFMON
