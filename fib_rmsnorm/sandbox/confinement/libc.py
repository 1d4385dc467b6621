"""Calls of the C library that Python does not offer."""

from __future__ import annotations

import ctypes
import os
from functools import cache

_PR_SET_NO_NEW_PRIVS = 38
_IOLBF = 1
_FALLOC_FL_KEEP_SIZE, _FALLOC_FL_PUNCH_HOLE = 1, 2


@cache
def libc() -> ctypes.CDLL:
    """The C library; its functions set `ctypes.get_errno()`. Loading it takes as long as ten of its calls."""
    return ctypes.CDLL(None, use_errno=True)


def prctl(option: int, argument: int) -> None:
    """Call prctl(2). Raises OSError if the kernel refuses."""
    if libc().prctl(option, argument, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl failed")


def write_each_line() -> None:
    """Have stdout of the C library written at the end of each line, to a file as to a terminal."""
    stdout = ctypes.c_void_p.in_dll(libc(), "stdout")
    libc().setvbuf(stdout, None, _IOLBF, ctypes.c_size_t(0))


def free_beginning(descriptor: int, length: int) -> None:
    """Free the disk space of the first `length` bytes of a file, which read as zeros then. What follows stays in place.

    Raises OSError where the file system cannot.
    """
    if not length:
        return
    how = _FALLOC_FL_PUNCH_HOLE | _FALLOC_FL_KEEP_SIZE
    if libc().fallocate(descriptor, how, ctypes.c_int64(0), ctypes.c_int64(length)) != 0:
        raise OSError(ctypes.get_errno(), "fallocate failed")


def system_call(number: int, *arguments: object) -> int:
    """Make a system call. Raises OSError if the kernel refuses it."""
    result: int = libc().syscall(number, *arguments)
    if result < 0:
        error = ctypes.get_errno()
        raise OSError(error, f"system call {number} failed: {os.strerror(error)}")
    return result


def gain_no_privileges() -> None:
    """Let no program that this process starts gain privileges, as Landlock and seccomp require of anyone but root."""
    prctl(_PR_SET_NO_NEW_PRIVS, 1)
