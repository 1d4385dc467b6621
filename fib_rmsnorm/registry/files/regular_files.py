"""Find and open files that strangers may have made: regular files of a bounded size that do not lead out of a registry.

A FIFO would block for ever, a device would never end, and a link could make a command read or replace any file of its
user. Below the root of a registry, therefore, no link is followed.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from fnmatch import fnmatchcase
from functools import partial
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from fib_rmsnorm.errors import InputError

if TYPE_CHECKING:
    import msgspec

MOST_RECORD = 64 << 20
"""Bytes of a Definition, a Solution, a source file, or a line of JSONL. A Trace has a few kilobytes."""
MOST_ARRAY = 1 << 30
"""Bytes of a JSON file of many Traces."""
_START = 1 << 16
"""Bytes that tell an array from lines, and that are read of a file which says that it is smaller."""

# O_NONBLOCK: opening a FIFO does not wait for its other side. It does nothing to a regular file.
_SAFELY = os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY
_FOLDER = os.O_RDONLY | os.O_CLOEXEC | os.O_DIRECTORY


class NotARecordError(InputError):
    """A file, read as a record, is something else."""


def find_files(folder: Path, pattern: str) -> list[Path]:
    """Find what matches `pattern` in `folder` and below it, sorted; empty if there is no such folder.

    Folders are left out, but not links to folders, whatever their names: to read one is an error, and to skip one would
    leave out the records behind it. Raises InputError for a folder that cannot be read.
    """
    found: list[Path] = []
    waiting = [folder] if folder.is_dir() else []
    while waiting:
        current = waiting.pop()
        try:
            with os.scandir(current) as entries:
                for entry in entries:
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append(Path(entry.path))
                    elif fnmatchcase(entry.name, pattern) or (entry.is_symlink() and entry.is_dir()):
                        found.append(Path(entry.path))
        except OSError as error:
            raise InputError(f"{current}: {error.strerror}") from None
    return sorted(found, key=attrgetter("parts"))  # as paths compare, but many times as fast


def read_text(path: Path, root: Path | None = None) -> str:
    """Read a UTF-8 file. Raises InputError as `open_regular` does, if it is too large, and if it is not text."""
    with open_regular(path, root) as file:
        data = _read_at_most(file, MOST_RECORD, path)
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise NotARecordError(f"{path}: is not UTF-8 text") from None


def read_records(path: Path, root: Path | None = None) -> Iterator[tuple[int, bytes | msgspec.Raw]]:
    """The JSON of each record in a file: an array, one object, or one a line, as its start tells, whatever its name.

    They are numbered from 1. Lines have their newlines, which a torn last line lacks. Raises InputError as
    `open_regular` does, for what is too large, for no array, and for an empty file that should be one.
    """
    with open_regular(path, root) as file:
        start = file.readline(_START).lstrip(b"\xef\xbb\xbf \t\r\n")
        file.seek(0)
        if start.startswith(b"[") or (not start.strip() and path.suffix == ".json"):
            data = _read_at_most(file, MOST_ARRAY, path).strip()
            if not data:
                raise InputError(f"{path}: is empty")
            import msgspec

            try:
                records = msgspec.json.decode(data, type=list[msgspec.Raw])
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
                raise InputError(f"{path}: not a JSON array: {error}") from None
            yield from enumerate(records, start=1)
        elif start.strip() == b"{":
            yield 1, _read_at_most(file, MOST_RECORD, path)
        else:
            yield from read_lines(file, path)


def read_lines(file: BinaryIO, path: Path) -> Iterator[tuple[int, bytes]]:
    """The lines of an open file that are not empty, numbered from 1. Raises InputError for one that is too large."""
    for number, line in enumerate(iter(partial(file.readline, MOST_RECORD + 1), b""), start=1):
        if len(line) > MOST_RECORD:
            raise InputError(f"{path}:{number}: {_too_large(MOST_RECORD)}")
        if not line.isspace():
            yield number, line


def _read_at_most(file: BinaryIO, most: int, path: Path) -> bytes:
    """Read the rest of a file. Raises InputError for more than `most` bytes, before it reads them."""
    size = os.fstat(file.fileno()).st_size
    room = max(size, _START) + 1  # Python allocates as many bytes at once
    if size <= most and len(data := file.read(room)) == room:
        data += file.read(most)  # it has grown, or does not say its size
    if size > most or len(data) > most:
        raise InputError(f"{path}: {_too_large(most)}")
    return data


def _too_large(most: int) -> str:
    return f"is larger than {most >> 20} MiB, so it is not a record"


def open_regular(path: Path, root: Path | None = None) -> BinaryIO:
    """Open a file for reading.

    Without a `root`, the user has named the file, and links are followed. Raises InputError if it is missing,
    unreadable or not a regular file, or if it or a folder between it and `root` is a link.
    """
    try:
        if root is None:
            descriptor = os.open(path, os.O_RDONLY | _SAFELY)
        else:
            with enter_folder(path.parent, root) as folder:
                descriptor = open_in(folder, path, os.O_RDONLY)
    except FileNotFoundError:
        raise InputError(f"no such file: {path}") from None
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}") from None
    try:
        check_regular(path, os.fstat(descriptor))
    except BaseException:
        os.close(descriptor)
        raise
    return os.fdopen(descriptor, "rb", 1 << 16)  # a line of JSON has 6 kB: with 8 KiB, millions take 15% longer


def open_in(folder: int, path: Path, flags: int) -> int:
    """Open the file `path` in the folder with this descriptor. Raises InputError if it is a link."""
    try:
        return os.open(path.name, flags | _SAFELY | os.O_NOFOLLOW, 0o666, dir_fd=folder)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise _is_link(path) from None
        raise


def check_regular(path: Path, found: os.stat_result) -> None:
    """Raise InputError if a file that was found at `path` is not a regular file."""
    if stat.S_ISLNK(found.st_mode):
        raise _is_link(path)
    if stat.S_ISDIR(found.st_mode):
        raise InputError(f"{path}: is a folder, not a file")
    if not stat.S_ISREG(found.st_mode):
        raise InputError(f"{path}: is not a regular file")


@contextmanager
def enter_folder(folder: Path, root: Path | None, *, create: bool = False) -> Iterator[int]:
    """Open a folder and yield its descriptor; with `create`, make it and the folders above it.

    Raises InputError if a folder between `root` and `folder` is a link. `root` itself may be reached through links.
    """
    if create and root is None:
        folder.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(root or folder, _FOLDER)
    try:
        walked = root or folder
        for part in folder.relative_to(walked).parts:
            walked /= part
            if create:
                with suppress(FileExistsError):
                    os.mkdir(part, dir_fd=descriptor)
            try:
                below = os.open(part, _FOLDER | os.O_NOFOLLOW, dir_fd=descriptor)
            except NotADirectoryError:
                if stat.S_ISLNK(os.stat(part, dir_fd=descriptor, follow_symlinks=False).st_mode):
                    raise _is_link(walked) from None
                raise InputError(f"{walked}: is not a folder") from None
            os.close(descriptor)
            descriptor = below
        yield descriptor
    finally:
        os.close(descriptor)


def _is_link(path: Path) -> InputError:
    return InputError(f"{path}: is a link, which could lead out of the registry; put a copy of its target here instead")
