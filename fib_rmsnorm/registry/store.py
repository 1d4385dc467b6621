"""Crash-safe files: atomic replacement, and appends that are durable on return.

Of a registry, a file is read and written only as `regular_files` allows, and written under the registry's lock: where a
function takes a `root`, it is that of the registry; without one, the user has named the file.
"""

import fcntl
import json
import os
import secrets
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from fib_rmsnorm.errors import InputError
from fib_rmsnorm.registry.files.locking import locked
from fib_rmsnorm.registry.files.regular_files import (
    MOST_RECORD,
    NotARecordError,
    check_regular,
    enter_folder,
    open_in,
    open_regular,
    read_records,
    read_text,
)
from fib_rmsnorm.registry.layout import follow_links

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

Model = TypeVar("Model", bound=BaseModel)


def write_atomic(path: Path, text: str, root: Path | None = None) -> None:
    """Replace `path` with `text`: at any moment, even after a crash, the file is completely old or completely new.

    Links to a file that the user named are followed: their target is replaced. Raises InputError if `path` cannot be
    written, or is not a regular file.
    """
    _replace(path, root, lambda file: file.write(text.encode()))


def copy_file(source: Path, path: Path, root: Path) -> None:
    """Replace `path` in a registry with a copy of `source`, as `write_atomic` does."""
    with open_regular(source) as data:
        _replace(path, root, lambda file: shutil.copyfileobj(data, file, 1 << 20))


def _replace(path: Path, root: Path | None, fill: Callable[[BinaryIO], object]) -> None:
    with _writing(path, root) as (target, folder):
        with suppress(FileNotFoundError):
            check_regular(target, os.stat(target.name, dir_fd=folder, follow_symlinks=False))
        # The lock leaves one writer in a registry, so a file that a killed one left is this one's name, and is reused.
        temporary = target.with_name(f".{target.name}.new" if root else f".{target.name}.{secrets.token_hex(4)}")
        descriptor = open_in(folder, temporary, os.O_WRONLY | os.O_CREAT | (os.O_TRUNC if root else os.O_EXCL))
        try:
            with os.fdopen(descriptor, "wb") as file:
                check_regular(temporary, os.fstat(descriptor))
                fill(file)
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary.name, target.name, src_dir_fd=folder, dst_dir_fd=folder)
        except BaseException:
            with suppress(FileNotFoundError):
                os.unlink(temporary.name, dir_fd=folder)
            raise


def require_writable(path: Path) -> None:
    """Raise InputError if a file could not be written, before hours of work whose results it shall hold."""
    place = next(each for each in (path, *path.parents) if each.exists())
    if not os.access(place, os.W_OK):
        raise InputError(f"cannot write {path}: {place} is read-only; copy the registry to where you may write")


@contextmanager
def _writing(path: Path, root: Path | None) -> Iterator[tuple[Path, int]]:
    """Yield the path of a file to write, links followed, and its open folder."""
    if root is None:
        path = follow_links(path)
    try:
        with locked(writing=[root] if root else []), enter_folder(path.parent, root, create=True) as folder:
            yield path, folder
            os.fsync(folder)  # or a power failure could lose a new name even though the file's data is safe
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror or error}") from None


def append_lines(path: Path, lines: Iterable[str], root: Path | None = None) -> None:
    """Append to a JSONL file; the lines are on disk on return. Processes write one at a time.

    If a killed writer left an unfinished last line, it is repaired first: a complete record gets its newline, a torn
    record is removed. Raises InputError if the lines cannot be written, none of which is kept then, or if `path` is not
    a regular file.
    """
    data = "".join(f"{line}\n" for line in lines).encode()
    with _writing(path, root) as (target, folder):
        descriptor = open_in(folder, target, os.O_RDWR | os.O_APPEND | os.O_CREAT)
        try:
            check_regular(target, os.fstat(descriptor))
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            _append(descriptor, data)
        finally:
            os.close(descriptor)


def _append(descriptor: int, data: bytes) -> None:
    if _mend_last_line(descriptor):
        data = b"\n" + data
    size = os.fstat(descriptor).st_size
    try:
        left = memoryview(data)
        while left:
            left = left[os.write(descriptor, left) :]
        os.fsync(descriptor)
    except OSError:
        os.ftruncate(descriptor, size)
        raise


def _mend_last_line(descriptor: int) -> bool:
    """Remove a torn last line; return whether a complete last line lacks its newline."""
    size = os.fstat(descriptor).st_size
    if size == 0 or os.pread(descriptor, 1, size - 1) == b"\n":
        return False
    last = os.pread(descriptor, MOST_RECORD + 1, max(0, size - MOST_RECORD - 1)).rsplit(b"\n", 1)[-1]
    if len(last) > MOST_RECORD:
        raise InputError("its last line is too large to be a record; remove the line")
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


def read_json(path: Path, model: type[Model], root: Path | None = None) -> Model:
    """Read one record. Raises NotARecordError that names the file and the first fault."""
    try:
        return model.model_validate_json(read_text(path, root))
    except ValidationError as error:
        raise NotARecordError(f"{path}: {describe(error)}") from None


def read_jsonl(
    path: Path, model: type[Model], root: Path | None = None, faults: list[str] | None = None
) -> list[Model]:
    """Read a file with one record per line, or an array; skip a torn last line, which a killed writer leaves.

    `faults` gets a line for each other record, which names the file, the line and the first fault. Without it, raises
    NotARecordError for the first.
    """
    found = []
    for number, record in read_records(path, root):
        line = bytes(record)
        try:
            found.append(model.model_validate_json(line))
        except ValidationError as error:
            if line.endswith(b"\n") or is_json(line):
                fault = f"{path}:{number}: {describe(error)}"
                if faults is None:
                    raise NotARecordError(fault) from None
                faults.append(fault)
    return found


def read_toml(path: Path) -> dict[str, Any]:
    """Read a TOML file. Raises InputError if it is not TOML or a link, and as `read_text` does."""
    text = read_text(path, path.parent)
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # of integers with thousands of digits, it is not TOML's own
        raise InputError(f"{path}: {error}") from None


def describe(error: ValidationError) -> str:
    """Describe the first fault of a validation in one line: of a union, one of the form that the `type` means."""
    faults = error.errors(include_url=False)
    others = [each["loc"][:-1] for each in faults if each["type"] == "literal_error"]
    meant = (each for each in faults if not any(each["loc"][: len(form)] == form for form in others))
    first = next(meant, faults[0])
    where = ".".join(str(part) for part in first["loc"])
    if _is_of_sol_execbench(first):
        return f"{where}: SOL-ExecBench's format, which is not read here"
    message = " ".join(str(first["msg"]).split()).removeprefix("Value error, ")
    return f"{where}: {message}" if where else message


def _is_of_sol_execbench(fault: ErrorDetails) -> bool:
    """Whether a fault of a record is how SOL-ExecBench's differ: languages of its own, and Workloads alone in lines."""
    given, field = fault["input"], fault["loc"][-1:]
    if field == ("language",):
        return given == "cuda_cpp" or (isinstance(given, dict) and "languages" in given)
    return field == ("definition",) and isinstance(given, dict) and given.keys() >= {"uuid", "axes", "inputs"}
