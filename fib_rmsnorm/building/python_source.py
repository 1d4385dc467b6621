"""Load Solutions whose entry point is Python: plain, or in a language that a Python module compiles."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from fib_rmsnorm.building.build_errors import BuildError, describe_exception
from fib_rmsnorm.building.source_files import content_key, find_entry, write_sources
from fib_rmsnorm.garbage_collection import collector_off
from fib_rmsnorm.schema import Solution


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
