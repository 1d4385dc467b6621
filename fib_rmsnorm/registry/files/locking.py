"""Locks on whole registries: who reads several files sees no half of a change, and who changes several is alone.

The lock is on the registry's folder itself: there is no lock file to leave behind, to commit or to count, it needs no
right to write, and it ends with the process that holds it. Processes on other machines that share the folder by NFS are
not excluded.
"""

import fcntl
import os
import threading
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from fib_rmsnorm.errors import InputError
from fib_rmsnorm.notices import notice

_PATIENCE_S = 1.0
_held = threading.local()


@contextmanager
def locked(*, reading: Iterable[Path] = (), writing: Iterable[Path] = ()) -> Iterator[None]:
    """Hold the locks of these registries: shared for reading, exclusive for writing. Wait for others to release them.

    A wait of more than a second is told.

    A thread may lock again what it holds already, but not for writing what it holds for reading. Raises InputError if a
    folder cannot be opened or locked.
    """
    held: dict[tuple[int, int], bool] = _held.__dict__.setdefault("registries", {})
    with ExitStack() as stack:
        wanted: dict[tuple[int, int], tuple[int, bool, Path]] = {}
        for roots, for_writing in ((reading, False), (writing, True)):
            for root in roots:
                try:
                    descriptor = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
                except OSError as error:
                    raise InputError(f"{root}: {error.strerror}") from None
                stack.callback(os.close, descriptor)
                found = os.fstat(descriptor)
                wanted[found.st_dev, found.st_ino] = descriptor, for_writing, root
        for key in sorted(wanted):  # in one order everywhere, or two commands could wait for each other
            descriptor, for_writing, root = wanted[key]
            if key in held:
                if for_writing and not held[key]:
                    raise RuntimeError(f"{root} is locked for reading: a reader cannot become a writer")
                continue
            _lock(descriptor, root, for_writing=for_writing)
            stack.callback(fcntl.flock, descriptor, fcntl.LOCK_UN)  # closing is not enough if a child has inherited it
            held[key] = for_writing
            stack.callback(held.pop, key)
        yield


def _lock(descriptor: int, root: Path, *, for_writing: bool) -> None:
    operation = fcntl.LOCK_EX if for_writing else fcntl.LOCK_SH
    try:
        try:
            fcntl.flock(descriptor, operation | fcntl.LOCK_NB)
        except BlockingIOError:
            told = f"waiting for another command, which {'uses' if for_writing else 'changes'} {root}"
            timer = threading.Timer(_PATIENCE_S, notice, [told])
            timer.daemon = True
            timer.start()
            try:
                fcntl.flock(descriptor, operation)
            finally:
                timer.cancel()
    except OSError as error:
        if for_writing:
            raise InputError(f"cannot lock {root} for writing: {error.strerror}") from None
        # A file system without locks: nobody can write to this registry by this tool.
