"""Write a folder of many files completely, or not at all."""

from __future__ import annotations

import errno
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from fib_rmsnorm.errors import InputError
from fib_rmsnorm.registry.layout import FOLDERS, follow_links, registry_folder_of


@contextmanager
def staged_registry(target: Path) -> Iterator[Path]:
    """Yield a temporary folder to fill; on a normal exit, what it holds is moved to `target`.

    `target` is an empty or new folder. Raises InputError if it is in use or cannot be written.
    """
    target = target.absolute()
    if records := registry_folder_of(follow_links(target)):
        raise InputError(f"{target}: {records} holds a registry's own records; choose a folder outside it")
    try:
        if target.exists() and (not target.is_dir() or any(target.iterdir())):
            raise InputError(f"{target} exists and is not an empty folder")
        is_new = not target.exists()
        # Inside an existing target: its parent may be another file system, or not writable.
        place = target.parent if is_new else target
        place.mkdir(parents=True, exist_ok=True)
        staging = Path(tempfile.mkdtemp(dir=place, prefix=f".{target.name}."))
        try:
            for folder in FOLDERS:
                (staging / folder).mkdir()
            yield staging
            _move(staging, target, is_new=is_new)
        finally:
            shutil.rmtree(staging, ignore_errors=True)
    except OSError as error:
        if error.errno == errno.ENOTEMPTY:
            raise InputError(f"{target} is no longer empty") from None
        raise InputError(f"cannot create {target}: {error.strerror or error}") from None


def copy_new(source: str | Path, target: str | Path) -> None:
    """Copy a file to where none is. Raises InputError that names it.

    To `shutil.copytree`, that is the end: of an OSError it would collect one for each file that does not fit.
    """
    try:
        shutil.copyfile(source, target)
    except OSError as error:
        raise InputError(f"cannot write {target}: {error.strerror or error}") from None


def _move(staging: Path, target: Path, *, is_new: bool) -> None:
    if is_new:
        umask = os.umask(0)
        os.umask(umask)
        staging.chmod(0o777 & ~umask)
        staging.rename(target)
        return
    moved: list[Path] = []
    try:
        # definitions/ makes a folder a registry, so it is moved into place last.
        for path in sorted(staging.iterdir(), key=lambda each: (each.name == "definitions", each.name)):
            path.rename(target / path.name)
            moved.append(target / path.name)
    except BaseException:
        for path in moved:
            if path.is_dir():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink()
        raise
