"""The folder that keeps builds between runs."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from fib_rmsnorm.errors import InputError


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
