"""Files that a user names with --output: which may be written, and that only one run at a time writes each."""

from __future__ import annotations

import fcntl
import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from fib_rmsnorm.errors import InputError
from fib_rmsnorm.registry.layout import FOLDERS, TUNING, follow_links, is_registry


def check_output(path: Path) -> None:
    """Raise InputError if `path` is no place for an output.

    Outputs replace what was there. So they are no record of a registry, and nothing but a regular file: a device or a
    FIFO would be gone. What a link leads to is what counts.
    """
    if str(path) == "-":
        raise InputError("--output -: leave --output out, and it goes to stdout (as JSON with --json)")
    target = follow_links(path)
    for place in (target, Path(os.path.normpath(path.absolute()))):  # a registry's folders may be links themselves
        if folder := _registry_folder_of(place):
            raise InputError(f"--output {path}: lies in {folder}, among the registry's own files; name another place")
    if fault := _find_fault(path):
        raise InputError(f"--output {path}: {fault}")
    if not target.parent.is_dir():
        raise InputError(f"--output {path}: no such folder: {target.parent}")
    if not os.access(target.parent, os.W_OK | os.X_OK):
        raise InputError(f"--output {path}: cannot write in the folder {target.parent}")


def _find_fault(path: Path) -> str | None:
    """What is there and must not be replaced."""
    try:
        found = path.stat()
    except FileNotFoundError:
        return None
    except OSError as error:
        return f"cannot write it: {error.strerror}"
    if stat.S_ISDIR(found.st_mode):
        return "is a folder"
    # /dev/stdout is a regular file where the shell sends stdout to one, and perhaps appends to it.
    if not stat.S_ISREG(found.st_mode) or any(os.path.samestat(found, each) for each in _standard_streams()):
        return "not a file of its own; leave --output out, and it goes to stdout"
    return None


def _standard_streams() -> Iterator[os.stat_result]:
    for descriptor in (1, 2):
        with suppress(OSError):  # closed
            yield os.fstat(descriptor)


def _registry_folder_of(path: Path) -> Path | None:
    for root in path.parents:
        folder = root / path.relative_to(root).parts[0]
        if folder.name in (*FOLDERS, TUNING) and is_registry(root):
            return folder
    return None


class OutputLock:
    """Holds a file for one run, through a file beside it, since the file itself is replaced.

    Raises InputError if another run holds it, or if nothing can be written there.
    """

    def __init__(self, path: Path) -> None:
        target = follow_links(path)
        self._path = target.with_name(f".{target.name}.lock")
        try:
            self._descriptor = self._acquire()
        except BlockingIOError:
            raise InputError(f"--output {path}: another run writes it; wait for that, or name another file") from None
        except OSError as error:
            raise InputError(f"--output {path}: cannot write it: {error.strerror}") from None

    def _acquire(self) -> int:
        while True:
            descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o666)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                # Whoever held it before may have removed it meanwhile: a lock on what has no name keeps nobody out.
                if self._path.exists() and os.path.samestat(os.fstat(descriptor), self._path.stat()):
                    return descriptor
            except BaseException:
                os.close(descriptor)
                raise
            os.close(descriptor)

    def release(self) -> None:
        """Let others have it."""
        self._path.unlink(missing_ok=True)
        os.close(self._descriptor)
