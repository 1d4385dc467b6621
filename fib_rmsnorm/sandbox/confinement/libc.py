"""Calls of the C library that Python does not offer."""

import ctypes
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

_PR_SET_CHILD_SUBREAPER = 36
_IOLBF = 1

_adopting_lock = threading.Lock()
_adopting = 0
"""How many `adopt_orphans` of this process are open."""


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


def system_call(number: int, *arguments: object) -> int:
    """Make a system call. Raises OSError if the kernel refuses it."""
    result: int = libc().syscall(number, *arguments)
    if result < 0:
        error = ctypes.get_errno()
        raise OSError(error, f"system call {number} failed: {os.strerror(error)}")
    return result


def become_subreaper() -> None:
    """Make orphaned descendants children of this process, in place of init."""
    prctl(_PR_SET_CHILD_SUBREAPER, 1)


@contextmanager
def adopt_orphans() -> Iterator[None]:
    """Be a subreaper meanwhile.

    A program that uses our library is none before and after: nobody would wait for the orphans of its other children,
    which would stay as zombies.
    """
    global _adopting  # noqa: PLW0603 - a process is a subreaper or is not
    with _adopting_lock:
        become_subreaper()
        _adopting += 1
    try:
        yield
    finally:
        with _adopting_lock:
            _adopting -= 1
            if not _adopting:
                prctl(_PR_SET_CHILD_SUBREAPER, 0)
