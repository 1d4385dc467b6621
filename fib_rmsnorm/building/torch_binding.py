"""Build C++ and CUDA Solutions with the torch binding: pybind11 through torch's extension builder."""

from __future__ import annotations

import fcntl
from collections.abc import Callable
from pathlib import Path
from typing import Any

from fib_rmsnorm.building.build_errors import BuildError, lead_with_error
from fib_rmsnorm.building.compiler_flags import LINKED, compiler_flags, host_key
from fib_rmsnorm.building.seal import is_intact, seal
from fib_rmsnorm.building.source_files import content_key, find_entry, write_sources
from fib_rmsnorm.schema import Solution

_COMPILED_SUFFIXES = {".cpp", ".cc", ".cxx", ".c", ".cu"}


def build_torch_binding(solution: Solution, cache: Path) -> Callable[..., Any]:
    """Compile with torch.utils.cpp_extension, which caches, and return the entry point.

    Raises BuildError with the compiler's output, or if the module lacks the entry point.
    """
    import torch
    from torch.utils import cpp_extension

    flags = compiler_flags(solution) or []
    key = content_key(solution, torch=torch.__version__, flags=flags, host=host_key(solution))
    folder = cache / "torch" / key
    sources = folder / "sources"
    write_sources(solution, sources)
    library = folder / f"fib_torch_{key}.so"
    files = [str(path) for path in sorted(sources.rglob("*")) if path.suffix in _COMPILED_SUFFIXES]
    try:
        # With torch's own lock, a second process waits and then loads a library that may not have compiled. With
        # ours it waits for its turn to build, and gets the compiler's message.
        with (folder / ".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not is_intact(library):
                library.unlink(missing_ok=True)  # torch links again what is missing, but loads what is damaged
            module = cpp_extension.load(
                name=library.stem,
                sources=files,
                extra_cflags=flags,
                extra_ldflags=[flag for flag in flags if flag in LINKED],
                extra_include_paths=[str(sources)],
                build_directory=str(folder),
            )
            seal(library)
    except Exception as error:
        raise BuildError(lead_with_error(str(error).replace(f"{sources}/", ""))) from None
    return find_entry(module, solution)
