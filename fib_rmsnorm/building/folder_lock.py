"""The lock of a folder: one process at a time does something there. It is on the folder itself and leaves no file."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


@contextmanager
def held(folder: Path) -> Iterator[bool]:
    """Wait for the lock of a folder and hold it. Where a file system has no locks, nobody waits, and it is False."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        is_held = False
        with suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            is_held = True
        yield is_held
    finally:
        with suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_UN)  # closing is not enough if a child has inherited it
        os.close(descriptor)
