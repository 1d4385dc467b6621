"""The folder that keeps builds between runs."""

from __future__ import annotations

import os
from pathlib import Path


def cache_folder() -> Path:
    """$FIB_RMSNORM_CACHE, else `fib-rmsnorm` in the user's cache folder ($XDG_CACHE_HOME, else ~/.cache)."""
    named = os.environ.get("FIB_RMSNORM_CACHE")
    if named:
        return Path(named)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "fib-rmsnorm"
