"""Start a process in a cgroup."""

from __future__ import annotations

import ctypes
import os
import signal
import struct
from contextlib import suppress
from pathlib import Path

_CLONE3 = 435  # the same number on every architecture
_CLONE_INTO_CGROUP = 0x200000000


def fork_into(folder: str) -> int:
    """Fork as `os.fork` does, with the child in a cgroup. Only for a child that forks again and exits.

    The C library's fork cannot do this, and its record of the child's thread is wrong until the child forks by it.
    Where the kernel cannot either, the child enters the cgroup by itself, if it can.
    """
    pid = _clone_into(folder)
    if pid < 0 and (pid := os.fork()) == 0:
        enter(folder)
    return pid


def _clone_into(folder: str) -> int:
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    except OSError:
        return -1
    arguments = struct.pack("=11Q", _CLONE_INTO_CGROUP, 0, 0, 0, signal.SIGCHLD, 0, 0, 0, 0, 0, descriptor)
    # PyDLL keeps the interpreter's lock, so the child has it.
    pid: int = ctypes.PyDLL(None).syscall(_CLONE3, arguments, ctypes.c_size_t(len(arguments)))
    os.close(descriptor)
    return pid


def enter(folder: str) -> None:
    """Move this process into a cgroup, as far as the kernel allows.

    That waits for all processors, for 5 to 20 ms; `fork_into` does not.
    """
    with suppress(OSError):
        Path(folder, "cgroup.procs").write_text("0")
