"""The folder of a confined process for temporary files, which is its home too."""

from __future__ import annotations

import tempfile
from contextlib import suppress
from pathlib import Path

from fib_rmsnorm.file_trees import remove_tree


def make_private_folder(within: str | None = None) -> str:
    """Make a folder that other users cannot open, by default where the system has temporary files."""
    return tempfile.mkdtemp(prefix="fib-rmsnorm-", dir=within)


def remove_private_folder(folder: str) -> None:
    """Remove what the process left, as far as that is possible."""
    with suppress(OSError):
        remove_tree(Path(folder))
