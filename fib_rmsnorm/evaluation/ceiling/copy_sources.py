"""Build a copy from the sources in this folder."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

from fib_rmsnorm.building.native import build_and_load, build_native
from fib_rmsnorm.schema import BuildSpec, Solution, SourceFile, SupportedLanguages

TRITON_COPY = ("triton_copy.py",)
_LANGUAGES = {
    ".cpp": SupportedLanguages.CPP,
    ".cu": SupportedLanguages.CUDA,
    ".py": SupportedLanguages.TRITON,
}


def copy_solution(paths: Sequence[str]) -> Solution:
    """A copy as a Solution, so that it is built like any kernel. The kernel's source comes first."""
    file = paths[0]
    language = _LANGUAGES[Path(file).suffix]
    return Solution(
        name=f"ceiling_{file.replace('.', '_')}",
        definition="copy",
        author="fib-rmsnorm",
        spec=BuildSpec(
            language=language,
            target_hardware=["cpu" if language is SupportedLanguages.CPP else "cuda"],
            entry_point=f"{file}::copy",
        ),
        sources=[
            SourceFile(path=path, content=files(__package__).joinpath(path).read_text(encoding="utf-8"))
            for path in paths
        ],
    )


def load_copy(paths: Sequence[str], cache: Path) -> Callable[[str], Callable[..., Any]]:
    """Build a copy and return a function that finds the copy's functions by name. Raises BuildError."""
    solution = copy_solution(paths)
    build_native(solution, cache)
    return lambda symbol: build_and_load(solution, cache, symbol)
