"""Crash-safe files: atomic replacement, and appends that are durable on return."""

from __future__ import annotations

import fcntl
import json
import os
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from fib_rmsnorm.errors import InputError
from fib_rmsnorm.registry.layout import follow_links

Model = TypeVar("Model", bound=BaseModel)


def write_atomic(path: Path, text: str) -> None:
    """Replace `path` with `text`: at any moment, even after a crash, the file is completely old or completely new.

    Links are followed: their target is replaced.
    """
    path = follow_links(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        # mkstemp creates private files; ours get the permissions of any new file.
        umask = os.umask(0)
        os.umask(umask)
        Path(temporary).chmod(0o666 & ~umask)
        Path(temporary).replace(path)
        _sync_folder(path.parent)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def _sync_folder(folder: Path) -> None:
    # Without this, a power failure can lose the rename even though the file's data is safe.
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def append_line(path: Path, line: str) -> None:
    """Append `line` to a JSONL file, as `append_lines` does."""
    append_lines(path, [line])


def append_lines(path: Path, lines: Iterable[str]) -> None:
    """Append to a JSONL file; the lines are on disk on return. Processes write one at a time.

    If a killed writer left an unfinished last line, it is repaired first: a complete record gets its newline, a torn
    record is removed.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    is_new = not path.exists()
    with path.open("a+b") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        data = "".join(f"{line}\n" for line in lines).encode()
        if _mend_last_line(file.fileno()):
            data = b"\n" + data
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    if is_new:
        _sync_folder(path.parent)


def _mend_last_line(descriptor: int) -> bool:
    """Remove a torn last line; return whether a complete last line lacks its newline."""
    size = os.fstat(descriptor).st_size
    if size == 0 or os.pread(descriptor, 1, size - 1) == b"\n":
        return False
    start = size
    tail = b""
    while start > 0 and b"\n" not in tail:
        step = min(1 << 16, start)
        start -= step
        tail = os.pread(descriptor, step, start) + tail
    last = tail.rsplit(b"\n", 1)[-1]
    if is_json(last):
        return True
    os.ftruncate(descriptor, size - len(last))
    return False


def is_json(data: str | bytes) -> bool:
    """Whether `data` is one complete JSON value."""
    try:
        json.loads(data)
    except (ValueError, RecursionError):
        return False
    return True


def read_json(path: Path, model: type[Model]) -> Model:
    """Read one record. Raises InputError that names the file and the first fault."""
    try:
        return model.model_validate_json(read_text(path))
    except ValidationError as error:
        raise InputError(f"{path}: {describe(error)}") from None


def read_jsonl(path: Path, model: type[Model]) -> list[Model]:
    """Read a file with one record per line; skip a torn last line, which a killed writer leaves.

    Raises InputError that names the file, the line and the first fault.
    """
    return list(_parse_lines(path, _read(path), model))


def _parse_lines(path: Path, data: bytes, model: type[Model]) -> Iterator[Model]:
    # Split as bytes, because a torn line may end inside a character.
    lines = data.split(b"\n")
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            yield model.model_validate_json(line)
        except ValidationError as error:
            if number == len(lines) and not is_json(line):
                return
            raise InputError(f"{path}:{number}: {describe(error)}") from None


def read_text(path: Path) -> str:
    """Read a UTF-8 file. Raises InputError if it is missing, unreadable or not text."""
    try:
        return _read(path).decode()
    except UnicodeDecodeError:
        raise InputError(f"{path}: is not UTF-8 text") from None


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        raise InputError(f"no such file: {path}") from None
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}") from None


def describe(error: ValidationError) -> str:
    """Describe the first fault of a validation in one line."""
    first = error.errors(include_url=False)[0]
    where = ".".join(str(part) for part in first["loc"])
    message = " ".join(str(first["msg"]).split()).removeprefix("Value error, ")
    return f"{where}: {message}" if where else message
