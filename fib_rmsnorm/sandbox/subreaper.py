"""Subreapers: the processes that become the parents of their orphaned descendants, in place of init."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from fib_rmsnorm.sandbox.confinement.libc import libc, prctl

_PR_SET_CHILD_SUBREAPER = 36
_PR_GET_CHILD_SUBREAPER = 37

_lock = threading.Lock()
_adopting = 0
"""How many `adopt_orphans` of this process are open."""
_was_subreaper = False


def become_subreaper() -> None:
    """Make orphaned descendants children of this process."""
    prctl(_PR_SET_CHILD_SUBREAPER, 1)


@contextmanager
def adopt_orphans() -> Iterator[None]:
    """Be a subreaper meanwhile.

    A program that uses our library is none before and after, unless it made itself one: nobody would wait for the
    orphans of its other children, which would stay as zombies.
    """
    global _adopting, _was_subreaper  # noqa: PLW0603 - a process is a subreaper or is not
    with _lock:
        if not _adopting:
            _was_subreaper = _is_subreaper()
            become_subreaper()
        _adopting += 1
    try:
        yield
    finally:
        with _lock:
            _adopting -= 1
            if not _adopting and not _was_subreaper:
                prctl(_PR_SET_CHILD_SUBREAPER, 0)


def _is_subreaper() -> bool:
    answer = ctypes.c_int()
    libc().prctl(_PR_GET_CHILD_SUBREAPER, ctypes.byref(answer), 0, 0, 0)
    return bool(answer.value)
