"""Build a copy from the sources beside this module."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

from fib_rmsnorm.building.native import build_native, load_native
from fib_rmsnorm.schema import BuildSpec, Solution, SourceFile, SupportedLanguages


def copy_solution(paths: Sequence[str]) -> Solution:
    """A copy's sources, the kernel's first, as a Solution, so that it is built as any kernel is."""
    file = paths[0]
    is_cuda = file.endswith(".cu")
    return Solution(
        name=f"ceiling_{file.replace('.', '_')}",
        definition="copy",
        author="fib-rmsnorm",
        spec=BuildSpec(
            language=SupportedLanguages.CUDA if is_cuda else SupportedLanguages.CPP,
            target_hardware=["cuda" if is_cuda else "cpu"],
            entry_point=f"{file}::copy",
        ),
        sources=[
            SourceFile(path=path, content=files(__package__).joinpath(path).read_text(encoding="utf-8"))
            for path in paths
        ],
    )


def load_copy(paths: Sequence[str], cache: Path) -> Callable[[str], Callable[..., Any]]:
    """Build a copy from its sources and return what finds its functions by name. Raises BuildError."""
    library = build_native(copy_solution(paths), cache).binary
    return lambda symbol: load_native(library, symbol)
