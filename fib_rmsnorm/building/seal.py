"""Digests beside built files: a build that was damaged since is made again instead of blamed on its Solution."""

from __future__ import annotations

import hashlib
from contextlib import suppress
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


def break_seal(file: Path) -> None:
    """Have a file built again by whoever needs it next."""
    _digest_file(file).unlink(missing_ok=True)


def note_load(file: Path) -> None:
    """Note beside a library that it loads here. Where nobody may write, nothing is noted."""
    with suppress(OSError):
        _load_file(file).touch()


def has_loaded(file: Path) -> bool:
    """Whether a library has loaded before; a build of another folder, or of this one again, has not."""
    return _load_file(file).exists()


def _load_file(file: Path) -> Path:
    return file.with_name(f"{file.name}.loaded")


def _digest_file(file: Path) -> Path:
    return file.with_name(f"{file.name}.sha256")


def _digest(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()
