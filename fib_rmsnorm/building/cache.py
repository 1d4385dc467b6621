"""The folder that keeps builds between runs."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from fib_rmsnorm.errors import InputError

_LEAST_ROOM_BYTES = 16 << 20
"""What compilers may leave for a moment, and a build for good."""


def cache_folder() -> Path:
    """$FIB_RMSNORM_CACHE, else `fib-rmsnorm` in the user's cache folder ($XDG_CACHE_HOME, else ~/.cache)."""
    named = os.environ.get("FIB_RMSNORM_CACHE")
    if named:
        return Path(named)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "fib-rmsnorm"


@contextmanager
def making_folders() -> Iterator[None]:
    """Raise InputError, which names the variable that moves the cache, if a folder in it cannot be made."""
    try:
        yield
    except OSError as error:
        fault = f"the cache, {cache_folder()}: {error.strerror}"
        raise InputError(f"{fault}; name a folder that you may write to in $FIB_RMSNORM_CACHE") from None


def require_room() -> None:
    """Raise InputError, which says how to move it, if the disk of the cache or of temporary files is all but full.

    A build that fails then says nothing about a kernel.
    """
    places = (("the cache", cache_folder(), "FIB_RMSNORM_CACHE"), ("temporary files", tempfile.gettempdir(), "TMPDIR"))
    for what, folder, variable in places:
        try:
            disk = os.statvfs(folder)
        except OSError:  # nothing is there yet
            continue
        fault = ""
        if disk.f_bavail * disk.f_frsize < _LEAST_ROOM_BYTES:
            fault = f"less than {_LEAST_ROOM_BYTES >> 20} MB is left on its disk"
        elif disk.f_files and not disk.f_favail:
            fault = "its disk can hold no more files"
        if fault:
            raise InputError(f"{what}, {folder}: {fault}; free some, or name another folder in ${variable}")
