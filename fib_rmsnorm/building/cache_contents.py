"""What the cache holds, and how it is cleared."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from fib_rmsnorm.errors import InputError
from fib_rmsnorm.file_trees import file_sizes, remove_tree

SOLUTIONS = "solutions"
COPY = "native"
"""Folders in the cache: of what is built for Solutions, and of the copy that `bench` compares with."""
_MOST_BYTES_AFTER_FAILURE = 1 << 30
_KEY = re.compile(r"[0-9a-f]{32}")


@dataclass(frozen=True)
class CachedBuilds:
    """A folder: one Solution's builds, or a build of the copy."""

    folder: Path
    sizes: dict[str, int]
    """Bytes by kind: `native`, `triton`, `inductor`, ..., which are the names of the folders within."""

    @property
    def key(self) -> str:
        """The digest that names the folder; a Solution's is that of its sources."""
        return self.folder.name

    @property
    def size(self) -> int:
        """Bytes in all."""
        return sum(self.sizes.values())


def solution_builds(cache: Path) -> list[CachedBuilds]:
    """What Solutions have built, the largest first."""
    found = [CachedBuilds(folder, _sizes(folder)) for folder in _named_by_key(cache / SOLUTIONS)]
    return sorted(found, key=lambda each: (-each.size, each.key))


def copy_builds(cache: Path) -> list[CachedBuilds]:
    """Builds of the copy."""
    return [CachedBuilds(folder, {COPY: _size(folder)}) for folder in _named_by_key(cache / COPY)]


def delete(cache: Path, builds: Iterable[CachedBuilds]) -> None:
    """Delete builds. Raises InputError for the first that does not lie beneath the cache or cannot be deleted.

    The cache's own folder may be named by mistake: only what its layout knows is deleted, and no link is followed.
    """
    home = cache.resolve()
    for each in builds:
        if not _KEY.fullmatch(each.key) or each.folder.parent.resolve() not in {
            home / name for name in (SOLUTIONS, COPY)
        }:
            raise InputError(f"{each.folder} does not belong to the cache {cache}")
        try:
            remove_tree(each.folder)
        except OSError as error:
            raise InputError(f"cannot delete {error.filename or each.folder}: {error.strerror or error}") from None


def drop_failed_build(folder: Path) -> None:
    """Remove a Solution's builds after one that failed or timed out, if they take more than 1 GiB.

    Below that they stay: a compiler goes on from what it had finished.
    """
    if sum(file_sizes(folder)) > _MOST_BYTES_AFTER_FAILURE:
        with suppress(OSError):  # another run may be building the same sources
            remove_tree(folder)


def _named_by_key(folder: Path) -> Iterator[Path]:
    """The folders that the cache has made in one of its own; neither it nor they may be links."""
    if folder.is_symlink() or not folder.is_dir():
        return
    for path in sorted(folder.iterdir()):
        if _KEY.fullmatch(path.name) and path.is_dir() and not path.is_symlink():
            yield path


def _sizes(folder: Path) -> dict[str, int]:
    sizes: Counter[str] = Counter()
    for path in folder.iterdir():
        sizes[path.name] += _size(path)
    return {kind: size for kind, size in sizes.most_common() if size}


def _size(path: Path) -> int:
    """The bytes of a file or of all files beneath a folder, links not followed."""
    if path.is_symlink() or not path.is_dir():
        return path.lstat().st_size
    return sum(file_sizes(path))
