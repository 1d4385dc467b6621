"""Create a registry whole or not at all, such as one from the registry that ships with this package."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from secrets import token_hex

from fib_rmsnorm.errors import InputError
from fib_rmsnorm.registry.layout import FOLDERS, follow_links, is_registry, registry_folder_of
from fib_rmsnorm.registry.selection import find_main_definition, write_main_definition

_LEFT_OUT = shutil.ignore_patterns("__pycache__", "*.pyc", ".*")


def shipped_registry() -> Path:
    """The registry in the installed package; in a checkout, the repository around the package.

    Raises InputError if neither exists.
    """
    package = Path(__file__).resolve().parent.parent
    for root in (package / "_shipped", package.parent):
        if is_registry(root):
            return root
    raise InputError(f"{package} contains no registry; run: pip install --force-reinstall fib-rmsnorm")


def make_registry(target: Path) -> None:
    """Create a registry without Traces in `target`, an empty or new folder: all of it or nothing.

    Raises InputError if `target` is in use or cannot be written.
    """
    source = shipped_registry()
    with staged_registry(target) as staging:
        for folder in ("workloads", "solutions", "definitions"):
            shutil.copytree(source / folder, staging / folder, False, _LEFT_OUT, copy_new, dirs_exist_ok=True)
        if main := find_main_definition(source):
            write_main_definition(staging, main)


@contextmanager
def staged_registry(target: Path) -> Iterator[Path]:
    """Yield a temporary folder to fill; on a normal exit, what it holds is moved to `target`.

    `target` is an empty or new folder. Raises InputError if it is in use or cannot be written.
    """
    target = target.absolute()
    if records := registry_folder_of(follow_links(target)):
        raise InputError(f"{target}: {records} holds a registry's own records; choose a folder outside it")
    try:
        is_new = not target.exists()
        if not is_new and (not target.is_dir() or any(target.iterdir())):
            raise InputError(f"{target} exists and is not an empty folder")
        # Inside an existing target: its parent may be another file system, or not writable.
        staging = (target.parent if is_new else target) / f".{target.name}.{token_hex(4)}"
        try:
            for folder in FOLDERS:
                (staging / folder).mkdir(parents=True)
            yield staging
            # definitions/ makes a folder a registry, so it is moved into place last.
            moved = sorted(staging.iterdir(), key=lambda each: (each.name == "definitions", each.name))
            for path in [staging] if is_new else moved:
                path.rename(target if is_new else target / path.name)
        finally:
            shutil.rmtree(staging, ignore_errors=True)
    except OSError as error:
        raise InputError(f"cannot create {target}: {error.strerror or error}") from None


def copy_new(source: str | Path, target: str | Path) -> None:
    """Copy a file to where none is. Raises InputError that names it.

    To `shutil.copytree`, that is the end: of an OSError it would collect one for each file that does not fit.
    """
    try:
        shutil.copyfile(source, target)
    except OSError as error:
        raise InputError(f"cannot write {target}: {error.strerror or error}") from None
