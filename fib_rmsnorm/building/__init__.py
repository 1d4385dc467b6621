"""Build Solutions into callables, each by its language's builder."""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

from fib_rmsnorm.building.build_errors import BuildError, is_compile_error
from fib_rmsnorm.garbage_collection import collector_off
from fib_rmsnorm.languages import LANGUAGES

if TYPE_CHECKING:
    from fib_rmsnorm.schema import Solution

__all__ = ["BuildError", "build_entry", "is_compile_error", "load_language", "prepare_build"]


def load_language(name: str, device: str) -> None:
    """Import the module of a language, and load its compiler and driver for a GPU as its first kernel would."""
    language = LANGUAGES.get(name)
    with suppress(Exception), collector_off():  # if this fails, the Solution's own import reports it
        if language and language.module:
            importlib.import_module(language.module)
        if language and language.warm_up:
            module, _, function = language.warm_up.partition(":")
            getattr(importlib.import_module(module), function)(device)


def prepare_build(solution: Solution, cache: Path) -> Future[float]:
    """Start compilers and library imports for a Solution in a thread, without running any of its code.

    Meanwhile the caller can create a CUDA context, which takes as long. The result is the duration in seconds; it
    raises BuildError if the Solution does not compile.
    """
    pool = ThreadPoolExecutor(1)
    prepared = pool.submit(_prepare, solution, cache)
    pool.shutdown(wait=False)
    return prepared


def _prepare(solution: Solution, cache: Path) -> float:
    started = perf_counter()
    language = LANGUAGES[solution.spec.language.value]
    if language.module is not None:
        with suppress(Exception), collector_off():  # if this fails, the Solution's own import reports it
            importlib.import_module(language.module)
        if "TRITON_INTERPRET" in os.environ:
            from fib_rmsnorm.building.triton_start import prepare_interpreter

            prepare_interpreter()
    elif language.is_compiled:
        from fib_rmsnorm.building.native import build_native

        build_native(solution, cache)
    return perf_counter() - started


def build_entry(solution: Solution, device: str, cache: Path) -> Callable[..., Any]:
    """Build a Solution for `device`, or load it from `cache`, and return its entry point, by its language's builder.

    Raises BuildError with the compiler's output or the import's traceback.
    """
    module, _, builder = LANGUAGES[solution.spec.language.value].builder.partition(":")
    entry: Callable[..., Any] = getattr(importlib.import_module(module), builder)(solution, cache)
    return entry


def build_compiled(solution: Solution, cache: Path) -> Callable[..., Any]:
    """Compile C++ or CUDA, or load it from `cache`, by the Solution's binding, and return the entry point."""
    from fib_rmsnorm.building.native import build_native, load_extension, load_native
    from fib_rmsnorm.building.source_files import find_entry

    library = build_native(solution, cache)
    if solution.spec.binding == "torch":
        return find_entry(load_extension(library), solution)
    return load_native(library, solution.get_entry_symbol())
