"""Read a TOML file of a registry."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from fib_rmsnorm.errors import InputError
from fib_rmsnorm.registry.files.regular_files import MOST_RECORD
from fib_rmsnorm.registry.store import read_text

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


def read_toml(path: Path, root: Path, most: int = MOST_RECORD) -> dict[str, Any]:
    """Read a TOML file. Raises InputError if it is not TOML, and as `read_text` does."""
    text = read_text(path, root, most)
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # of integers with thousands of digits, it is not TOML's own
        raise InputError(f"{path}: {error}") from None
