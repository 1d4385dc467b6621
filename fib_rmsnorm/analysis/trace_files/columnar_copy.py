"""The columns of a large file of Traces, kept in the user's cache and brought up to date when the file has changed.

A copy is a folder of two files: `rows-<digest>.parquet` with a row a Trace, and `copy.json`, which names it and tells
what it was made from. Both are replaced whole. A copy that is missing, torn, of another version of the decoder or of
another file is made anew, as far as the file's digests do not vouch for it.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from functools import cache
from hashlib import sha256
from itertools import takewhile
from pathlib import Path
from typing import BinaryIO, NamedTuple

import msgspec

from fib_rmsnorm.analysis import decoding, trace_record
from fib_rmsnorm.analysis.trace_files import chunks as chunks_module
from fib_rmsnorm.analysis.trace_files.chunk_workers import read_chunks
from fib_rmsnorm.analysis.trace_files.chunks import CHUNK_BYTES, Chunk, cut, digest_of, read_extent
from fib_rmsnorm.analysis.trace_files.parquet_rows import RowsError, write_rows
from fib_rmsnorm.building.cache import cache_folder
from fib_rmsnorm.building.cache_contents import COLUMNS
from fib_rmsnorm.errors import InputError
from fib_rmsnorm.registry.files.regular_files import open_regular, read_bytes

_SETTLED_NS = 2_000_000_000
"""A file that changed shortly before it was read may have changed again in the same tick of its file system's clock."""
_ABANDONED_S = 86_400
_MOST_MANIFEST = 1 << 28


class _Identity(msgspec.Struct, frozen=True):
    """What of a file changes with its content; nobody but the system sets the time of its last change, `ctime_ns`."""

    device: int
    inode: int
    size: int
    mtime_ns: int
    ctime_ns: int

    @staticmethod
    def of(descriptor: int) -> _Identity:
        found = os.fstat(descriptor)
        return _Identity(found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)


class _Manifest(msgspec.Struct, frozen=True):
    """`copy.json`."""

    decoder: str
    """The digest of the sources that read the file."""
    identity: _Identity
    checked_ns: int
    """When the identity was taken."""
    chunks: list[Chunk]
    rows: str
    """The digest of the rows' file."""

    @property
    def is_settled(self) -> bool:
        return self.identity.ctime_ns + _SETTLED_NS < self.checked_ns


class ColumnarCopy:
    """An up-to-date copy: the rows, open for reading, and the chunks that they are of."""

    def __init__(self, rows: BinaryIO, chunks: Sequence[Chunk], folder: Path | None) -> None:
        self.rows = rows
        self.chunks = chunks
        self._folder = folder

    def discard(self) -> None:
        """Have it made anew the next time."""
        if self._folder is not None:
            with suppress(OSError):
                (self._folder / "copy.json").unlink(missing_ok=True)


def open_copy(file: BinaryIO, path: Path) -> ColumnarCopy | None:
    """The copy of a file of lines that is open for reading, made or brought up to date if need be.

    None if none can be made: for a line too long for a record, or without a folder to write to.
    """
    descriptor, now_ns = file.fileno(), time.time_ns()
    identity = _Identity.of(descriptor)
    folder = cache_folder().absolute() / COLUMNS / sha256(os.fsencode(path.resolve())).hexdigest()[:32]
    with ExitStack() as stack:
        known = _read_known(folder)
        if known:
            stack.callback(known.rows.close)
            if known.manifest.identity == identity and known.manifest.is_settled:
                stack.pop_all()
                return ColumnarCopy(known.rows, known.manifest.chunks, folder)
        kept = _find_unchanged(descriptor, known.manifest.chunks, identity.size) if known else []
        extents = cut(descriptor, kept[-1].extent.end if kept else 0, identity.size)
        if extents and kept and kept[-1].extent.end - kept[-1].extent.start < CHUNK_BYTES:
            last = kept.pop()  # or a file to which lines are added one by one would have as many chunks
            extents = cut(descriptor, last.extent.start, identity.size)
        if extents is None or not (extents or kept):
            return None
        try:
            with _workplace(folder) as workplace:
                chunks, files = read_chunks(descriptor, len(kept), extents, workplace)
                target = workplace / "rows.parquet"
                write_rows(target, (known.rows, len(kept)) if known and kept else None, files)
                rows = target.open("rb")
                stack.callback(rows.close)
                manifest = _Manifest(_decoder(), identity, now_ns, [*kept, *chunks], _digest(rows))
                with suppress(OSError):
                    _save(manifest, target, folder)
        except (OSError, RowsError):
            return None
        stack.pop_all()
        if known:
            known.rows.close()
        return ColumnarCopy(rows, manifest.chunks, folder)


@cache
def _decoder() -> str:
    """The digest of the sources that read a file: another version of them may read it otherwise."""
    sources = (decoding, trace_record, chunks_module)
    return sha256(b"".join(Path(str(each.__file__)).read_bytes() for each in sources)).hexdigest()


class _Known(NamedTuple):
    manifest: _Manifest
    rows: BinaryIO


def _read_known(folder: Path) -> _Known | None:
    """What is kept, if it is whole and of this decoder."""
    with suppress(OSError, InputError, msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        data = read_bytes(folder / "copy.json", folder, _MOST_MANIFEST)
        manifest = msgspec.json.decode(data, type=_Manifest)
        if manifest.decoder == _decoder():
            rows = open_regular(_rows_path(folder, manifest.rows), folder)
            if _digest(rows) == manifest.rows:
                return _Known(manifest, rows)
            rows.close()
    return None


def _rows_path(folder: Path, digest: str) -> Path:
    return folder / f"rows-{digest}.parquet"


def _digest(file: BinaryIO) -> str:
    """SHA-256 of a whole file."""
    found = sha256()
    while data := os.pread(file.fileno(), 1 << 20, file.seek(0, os.SEEK_CUR)):
        found.update(data)
        file.seek(len(data), os.SEEK_CUR)
    return found.hexdigest()


def _find_unchanged(descriptor: int, chunks: Sequence[Chunk], size: int) -> list[Chunk]:
    """The first chunks, up to one whose bytes are no longer in the file. Digests are computed on all cores."""

    def is_there(chunk: Chunk) -> bool:
        data = read_extent(descriptor, chunk.extent) if chunk.extent.end <= size else b""
        return digest_of(data) == chunk.digest

    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as threads:
        return [
            chunk
            for chunk, _ in takewhile(lambda each: each[1], zip(chunks, threads.map(is_there, chunks), strict=True))
        ]


@contextmanager
def _workplace(folder: Path) -> Iterator[Path]:
    """A folder to write to: on the same file system as the copy, or anywhere if the cache cannot be written."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        made = tempfile.mkdtemp(prefix="new-", dir=folder)
    except OSError:
        made = tempfile.mkdtemp(prefix="fib-rmsnorm-")
    try:
        yield Path(made)
    finally:
        shutil.rmtree(made, ignore_errors=True)


def _save(manifest: _Manifest, rows: Path, folder: Path) -> None:
    """Keep a copy, one process at a time, so that none deletes another's. What cannot be kept serves once."""
    if rows.parent.parent != folder:
        return
    (folder.parent / ".gitignore").write_text("*\n")  # the cache may lie in a repository
    new = rows.with_name("copy.json")
    new.write_bytes(msgspec.json.encode(manifest))
    lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        rows.replace(_rows_path(folder, manifest.rows))
        new.replace(folder / "copy.json")
        _clear(folder, manifest)
    finally:
        os.close(lock)


def _clear(folder: Path, manifest: _Manifest) -> None:
    """Delete the rows of earlier copies, which readers have open, and what killed processes have left."""
    for path in folder.glob("rows-*.parquet"):
        if path != _rows_path(folder, manifest.rows):
            path.unlink(missing_ok=True)
    for path in folder.glob("new-*"):
        with suppress(OSError):
            if time.time() - path.stat().st_mtime > _ABANDONED_S:
                shutil.rmtree(path, ignore_errors=True)
