"""Write a Solution's sources to a folder named after their content, and load Python from there."""

import importlib
import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

from fib_rmsnorm.building.build_errors import BuildError, describe_exception
from fib_rmsnorm.building.cache import content_key
from fib_rmsnorm.garbage_collection import collector_off
from fib_rmsnorm.schema import Solution


def write_sources(solution: Solution, folder: Path) -> None:
    """Write the sources to `folder` unless it holds exactly them; atomic, even if two processes do it at once.

    Any other content is replaced: another Solution, which runs as the same user, may have put it there.
    Raises BuildError for sources that no folder can hold, such as `k.py` beside `k.py/more.py`.
    """
    if _holds(folder, solution):
        return
    folder.parent.mkdir(parents=True, exist_ok=True)
    staging = Path(tempfile.mkdtemp(dir=folder.parent, prefix=f".{folder.name}."))
    try:
        written = staging / "sources"
        for source in solution.sources:  # the schema refuses names that lead outside
            path = written / source.path
            try:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(source.content, encoding="utf-8")
            except (OSError, ValueError) as error:  # ValueError: a name with a null character
                why = getattr(error, "strerror", None) or error
                raise BuildError(f"cannot write the source {source.path!r}: {why}") from None
        if folder.exists():
            folder.rename(staging / "replaced")
        written.rename(folder)
    except OSError:
        if not _holds(folder, solution):
            raise
    finally:
        shutil.rmtree(staging, ignore_errors=True)


def find_entry(module: ModuleType, solution: Solution) -> Callable[..., Any]:
    """Return the entry point from the built module. Raises BuildError if it is not a function."""
    symbol = solution.get_entry_symbol()
    entry: Callable[..., Any] | None = getattr(module, symbol, None)
    if not callable(entry):
        raise BuildError(f"{solution.get_entry_path()} defines no function {symbol!r}")
    return entry


def load_python(solution: Solution, cache: Path) -> Callable[..., Any]:
    """Import the entry file and return the entry point.

    The sources form a package, so `from .other import f` works, as with upstream's builder; their folder is also on
    the path, so `import other` works too. Raises BuildError with the traceback if the import fails.
    """
    package = f"fib_solution_{content_key(solution)}"
    folder = cache / "sources" / package
    sys.dont_write_bytecode = True  # the folder must hold nothing but the sources
    write_sources(solution, folder)
    sys.path[:0] = [str(folder), str(folder.parent)]
    importlib.invalidate_caches()
    entry_path = solution.get_entry_path()
    if entry_path.suffix != ".py":
        raise BuildError(
            f"{entry_path}: the entry file of a {solution.spec.language.value} Solution must be a .py file"
        )
    module_name = ".".join([package, *entry_path.with_suffix("").parts])
    try:
        with collector_off():  # it may import the largest libraries
            module = importlib.import_module(module_name)
    except BaseException as error:  # a module may raise SystemExit too
        raise BuildError(describe_exception(error)) from None
    return find_entry(module, solution)


def _holds(folder: Path, solution: Solution) -> bool:
    """Whether the folder holds the sources and nothing else, such as stale byte code."""
    sources = {folder / source.path: source.content for source in solution.sources}
    found = {path for path in folder.rglob("*") if not path.is_dir()}
    return found == sources.keys() and all(path.read_bytes() == text.encode() for path, text in sources.items())
