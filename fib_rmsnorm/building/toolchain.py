"""The files of the compilers, which a process that builds Solutions reads."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from fib_rmsnorm.building.native import find_cc, find_cuda_home, find_cxx, find_ninja

_OTHER_PROGRAMS = ("gcc", "g++", "clang", "clang++", "ld", "as", "ccache", "nvcc")


@cache
def toolchain_paths() -> tuple[Path, ...]:
    """The CUDA toolkit's folder, and each tool's: where it is installed, or the program alone if that is the home."""
    programs = (find_cc(), find_cxx(), find_ninja(), *map(shutil.which, _OTHER_PROGRAMS))
    found = [path for program in programs if program for path in _of_program(Path(program))]
    return tuple(dict.fromkeys([*filter(None, [find_cuda_home()]), *found]))


def _of_program(program: Path) -> Iterator[Path]:
    """A program, the one that it links to, and the folder that holds its `bin` and `lib`."""
    yield program
    real = program.resolve()
    yield real
    folder = real.parent.parent
    if real.parent.name == "bin" and not _holds_users_files(folder):
        yield folder


def _holds_users_files(folder: Path) -> bool:
    home = Path.home().resolve()
    return home.is_relative_to(folder) or folder == home / ".local"
