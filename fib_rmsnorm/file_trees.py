"""Folders that a kernel may have nested deeper than Python recurses, and than a path may name."""

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from secrets import token_hex

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def file_sizes(folder: Path) -> Iterator[int]:
    """Bytes of each file beneath a folder, links not followed.

    Left out is what is removed meanwhile, may not be read, or lies too deep for any path to name it.
    """
    folders = [str(folder)]
    while folders:
        with suppress(OSError), os.scandir(folders.pop()) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    folders.append(entry.path)
                else:
                    with suppress(OSError):
                        yield entry.stat(follow_symlinks=False).st_size


def remove_tree(folder: Path) -> None:
    """Remove a folder with all that is in it, links not followed. Raises OSError for what cannot be removed.

    Folders move up to the top before they are emptied, so that none is ever deep.
    """
    top = _open(folder)
    try:
        while names := _remove_files(top):
            for name in names:
                inner = _open(name, top)
                try:
                    for below in _remove_files(inner):
                        os.close(_open(below, inner))  # to move a folder is to write to it
                        os.rename(below, token_hex(16), src_dir_fd=inner, dst_dir_fd=top)
                finally:
                    os.close(inner)
                os.rmdir(name, dir_fd=top)
    finally:
        os.close(top)
    folder.rmdir()


def _open(name: str | Path, parent: int | None = None) -> int:
    """Open a folder that a kernel may have protected. Raises OSError if it is a link."""
    named = os.open(name, _FOLDER | os.O_PATH, dir_fd=parent)
    try:
        Path(f"/proc/self/fd/{named}").chmod(0o700)  # not by its name, which may have become a link
        return os.open(".", _FOLDER, dir_fd=named)
    finally:
        os.close(named)


def _remove_files(descriptor: int) -> list[str]:
    """Remove a folder's files, and return the names of its folders."""
    names = []
    with os.scandir(descriptor) as entries:
        for entry in list(entries):
            if entry.is_dir(follow_symlinks=False):
                names.append(entry.name)
            else:
                os.unlink(entry.name, dir_fd=descriptor)
    return names
