"""What processes that share a folder of builds need: its lock, and digests beside built files."""

from __future__ import annotations

import fcntl
import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


@contextmanager
def held(folder: Path) -> Iterator[bool]:
    """Wait for the lock of a folder and hold it: one process at a time does something there.

    It is on the folder itself and leaves no file. Where a file system has no locks, nobody waits, and it is False.
    """
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


def seal(file: Path) -> None:
    """Write the digest of a file that has just been built beside it.

    A build that was damaged since is made again instead of blamed on its Solution.
    """
    _digest_file(file).write_text(_digest(file), encoding="ascii")


def is_intact(file: Path) -> bool:
    """Whether a file exists and has the content that it had when it was sealed."""
    try:
        return _digest_file(file).read_text(encoding="ascii") == _digest(file)
    except (OSError, UnicodeDecodeError):
        return False


def _digest_file(file: Path) -> Path:
    return file.with_name(f"{file.name}.sha256")


def _digest(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()
