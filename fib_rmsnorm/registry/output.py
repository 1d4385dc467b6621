"""Files that a user names with --output: which files may be written, and a lock against a second run."""

import fcntl
import os
from pathlib import Path

from fib_rmsnorm.errors import InputError
from fib_rmsnorm.registry.files.regular_files import check_regular
from fib_rmsnorm.registry.layout import follow_links, registry_folder_of


def check_output(path: Path) -> None:
    """Raise InputError if an output may not be written to `path`.

    An output replaces the existing file, so it must not replace a registry's record, a device or a FIFO. Links are
    followed first.
    """
    if str(path) == "-":
        raise InputError("--output -: name a file; without --output, results are printed (with --json, as JSON)")
    target = follow_links(path)
    for place in (target, Path(os.path.normpath(path.absolute()))):  # a registry's folders may be links
        if folder := registry_folder_of(place):
            raise InputError(f"--output {path}: {folder} holds the registry's own files; choose another folder")
    try:
        check_regular(path, path.stat())
    except FileNotFoundError:
        pass
    except OSError as error:
        raise InputError(f"--output {path}: cannot write: {error.strerror}") from None
    except InputError as error:
        raise InputError(f"--output {error}; without --output, results are printed") from None
    if not target.parent.is_dir():
        raise InputError(f"--output {path}: no such folder: {target.parent}")
    if not os.access(target.parent, os.W_OK | os.X_OK):
        raise InputError(f"--output {path}: cannot write to the folder {target.parent}")


class OutputLock:
    """Locks an output for one run, with a lock file beside it, because the output itself is replaced.

    Raises InputError if another run holds the lock, or if the lock file cannot be written.
    """

    def __init__(self, path: Path) -> None:
        target = follow_links(path)
        self._path = target.with_name(f".{target.name}.lock")
        try:
            self._descriptor = self._acquire()
        except BlockingIOError:
            raise InputError(
                f"--output {path}: another run is writing this file; wait for it, or name another file"
            ) from None
        except OSError as error:
            raise InputError(f"--output {path}: cannot write: {error.strerror}") from None

    def _acquire(self) -> int:
        while True:
            descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o666)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                # Its last holder may have removed the file: a lock on a file without a name excludes nobody.
                if self._path.exists() and os.path.samestat(os.fstat(descriptor), self._path.stat()):
                    return descriptor
            except BaseException:
                os.close(descriptor)
                raise
            os.close(descriptor)

    def release(self) -> None:
        """Release the lock."""
        self._path.unlink(missing_ok=True)
        os.close(self._descriptor)
