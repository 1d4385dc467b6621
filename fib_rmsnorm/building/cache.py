"""The folder that keeps builds between runs, with a folder for each Solution.

A Solution's folder is named after its sources and is the only one that it may write to, so it can spoil no builds but
its own.
"""

import fcntl
import hashlib
import json
import os
import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from fib_rmsnorm.errors import InputError
from fib_rmsnorm.file_trees import file_sizes, remove_tree
from fib_rmsnorm.languages import KERNEL_LANGUAGES
from fib_rmsnorm.schema import Solution

_MOST_BYTES_AFTER_FAILURE = 1 << 30
_LEAST_ROOM_BYTES = 16 << 20
"""The room for what compilers leave temporarily, and a build permanently."""
_VARIABLES = {
    "XDG_CACHE_HOME": "cache",
    "CCACHE_DIR": "ccache",
    "CUDA_CACHE_PATH": "cuda",
    "FLASHINFER_WORKSPACE_BASE": "flashinfer",
    "TORCHINDUCTOR_CACHE_DIR": "inductor",
    "TORCH_EXTENSIONS_DIR": "torch_extensions",
    "TVM_FFI_CACHE_DIR": "tvm_ffi",
    **{language.cache_variable: name for name, language in KERNEL_LANGUAGES.items() if language.cache_variable},
}


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


def is_plain(path: Path) -> bool:
    """Whether a path has only characters that shells, build files and compilers take as they are."""
    return re.fullmatch(r"[\w/.,+@%=-]+", str(path)) is not None


def plain_path(folder: Path) -> Path:
    """Return a path of the folder without characters that shells or build files interpret.

    Compilers and their callers write paths into both, and most quote nothing. Where the folder's own path has such a
    character, this is a link among the user's temporary files. Raises InputError if it cannot be made.
    """
    if is_plain(folder):
        return folder
    links = Path(tempfile.gettempdir(), f"fib-rmsnorm-links-{os.getuid()}")
    link = links / hashlib.sha256(os.fsencode(folder.absolute())).hexdigest()[:32]
    try:
        links.mkdir(mode=0o700, exist_ok=True)
        if links.is_symlink() or links.stat().st_uid != os.getuid():  # others could point the links elsewhere
            raise InputError(f"{links} belongs to somebody else; name another folder in $TMPDIR")
        with suppress(FileExistsError):
            link.symlink_to(folder.absolute())
    except OSError as error:
        raise InputError(f"{link}: {error.strerror}; name a folder that you may write to in $TMPDIR") from None
    return link


def require_room() -> None:
    """Raise InputError, which says how to move it, if the disk of the cache or of temporary files is nearly full.

    A build that fails then says nothing about a kernel.
    """
    places = (("the cache", cache_folder(), "FIB_RMSNORM_CACHE"), ("temporary files", tempfile.gettempdir(), "TMPDIR"))
    for what, folder, variable in places:
        try:
            disk = os.statvfs(folder)
        except OSError:  # nothing is there yet
            continue
        fault = ""
        if disk.f_bavail * disk.f_frsize < _LEAST_ROOM_BYTES:
            fault = f"less than {_LEAST_ROOM_BYTES >> 20} MB is left on its disk"
        elif disk.f_files and not disk.f_favail:
            fault = "its disk can hold no more files"
        if fault:
            raise InputError(f"{what}, {folder}: {fault}; free some, or name another folder in ${variable}")


def content_key(solution: Solution, **context: object) -> str:
    """A hex digest of the sources and of `context`, everything else that decides the build's result."""
    identity = {"sources": {source.path: source.content for source in solution.sources}, "context": context}
    return hashlib.sha256(json.dumps(identity, sort_keys=True, default=str).encode()).hexdigest()[:32]


def solution_cache(solution: Solution, builds: Path | None = None) -> Path:
    """The Solution's folder in the cache, or in `builds`; made if it is missing.

    Solutions with equal sources share it. Raises InputError if it cannot be made.
    """
    folder = (builds or cache_folder().absolute() / "solutions") / content_key(solution)
    with making_folders():
        folder.mkdir(parents=True, exist_ok=True)
    return folder


def cache_variables(folder: Path) -> dict[str, str]:
    """The environment variables that make compilers and libraries keep their files under a folder."""
    plain = plain_path(folder)
    folders = {name: str(plain / part) for name, part in _VARIABLES.items()}
    # More than one, and torch.compile starts processes that share semaphores in /dev/shm, where others have files too.
    return {**folders, "TORCHINDUCTOR_COMPILE_THREADS": "1"}


def drop_failed_build(folder: Path) -> None:
    """Remove a Solution's builds after one that failed or timed out, if they take more than 1 GiB.

    Below that they stay: a compiler goes on from what it had finished.
    """
    if sum(file_sizes(folder)) > _MOST_BYTES_AFTER_FAILURE:
        with suppress(OSError):  # another run may be building the same sources
            remove_tree(folder)


@contextmanager
def held(folder: Path) -> Iterator[None]:
    """Wait for the lock of a folder and hold it: one process at a time works there.

    It is on the folder itself and leaves no file. On a file system without locks, this does not wait.
    """
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        with suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        with suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_UN)  # closing is not enough if a child has inherited it
        os.close(descriptor)


def seal(file: Path) -> None:
    """Write the digest of a file that has just been built beside it.

    If the build is damaged later, it is made again, and its Solution is not blamed.
    """
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
