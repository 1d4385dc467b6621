"""Make a fresh registry from the one that ships with this package."""

from __future__ import annotations

import errno
import os
import shutil
import tempfile
from pathlib import Path

from fib_rmsnorm.errors import InputError
from fib_rmsnorm.registry.layout import is_registry

_COPIED = ("workloads", "solutions", "definitions")
# A folder of Definitions is part of what makes a registry, so it is moved into place last.
_ORDER = ("traces", *_COPIED)
_LEFT_OUT = shutil.ignore_patterns("__pycache__", "*.pyc", ".*")


def shipped_registry() -> Path:
    """The registry in the installed package, or of a checkout the repository around it.

    Raises InputError if there is neither.
    """
    package = Path(__file__).resolve().parent.parent
    for root in (package / "_shipped", package.parent):
        if is_registry(root):
            return root
    raise InputError(f"{package} ships no registry; reinstall it: pip install --force-reinstall fib-rmsnorm")


def make_registry(target: Path) -> None:
    """Make a registry without Traces in `target`, a folder that is empty or not there.

    All of it or nothing: it is copied beside its place first. Raises InputError if `target` is in use or cannot
    be written.
    """
    source = shipped_registry()
    target = target.absolute()
    try:
        if target.exists() and (not target.is_dir() or any(target.iterdir())):
            raise InputError(f"{target} exists and is not an empty folder")
        _copy(source, target)
    except OSError as error:
        if error.errno == errno.ENOTEMPTY:
            raise InputError(f"{target} is not empty any more") from None
        raise InputError(f"cannot make {target}: {error.strerror or error}") from None


def _copy(source: Path, target: Path) -> None:
    is_new = not target.exists()
    # Inside a folder that exists, because its parent may be another file system, or not ours to write.
    place = target.parent if is_new else target
    place.mkdir(parents=True, exist_ok=True)
    staging = Path(tempfile.mkdtemp(dir=place, prefix=f".{target.name}."))
    try:
        (staging / "traces").mkdir()
        for folder in _COPIED:
            shutil.copytree(source / folder, staging / folder, ignore=_LEFT_OUT)
        if is_new:
            umask = os.umask(0)
            os.umask(umask)
            staging.chmod(0o777 & ~umask)
            staging.rename(target)
        else:
            _move_folders(staging, target)
    finally:
        shutil.rmtree(staging, ignore_errors=True)


def _move_folders(staging: Path, target: Path) -> None:
    moved: list[Path] = []
    try:
        for folder in _ORDER:
            (staging / folder).rename(target / folder)
            moved.append(target / folder)
    except BaseException:
        for path in moved:
            shutil.rmtree(path, ignore_errors=True)
        raise
