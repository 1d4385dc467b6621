"""Digests beside built files: a build that was damaged since is made again instead of blamed on its Solution."""

from __future__ import annotations

import hashlib
from pathlib import Path


def seal(file: Path) -> None:
    """Write the digest of a file that has just been built beside it."""
    _digest_file(file).write_text(_digest(file), encoding="ascii")


def is_intact(file: Path) -> bool:
    """Whether a file exists and has the content that it had when it was sealed."""
    try:
        return _digest_file(file).read_text(encoding="ascii") == _digest(file)
    except (OSError, UnicodeDecodeError):
        return False


def _digest_file(file: Path) -> Path:
    return file.with_name(f"{file.name}.sha256")


def _digest(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()
