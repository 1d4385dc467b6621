"""Solutions -> callables: one module for each way of building."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fib_rmsnorm.evaluation.building.errors import BuildError, is_compile_error

if TYPE_CHECKING:  # the schema imports torch, which one process that imports this package must not have
    from fib_rmsnorm.schema import Solution

__all__ = ["BuildError", "build_entry", "is_compile_error"]


def build_entry(solution: Solution, device: str, cache: Path) -> Callable[..., Any]:
    """Build a Solution for `device` (or load it from `cache`) and return its entry point.

    Raises BuildError with the compiler's output, or what importing it raised.
    """
    from fib_rmsnorm.schema import SupportedBindings, SupportedLanguages

    if solution.spec.language not in (SupportedLanguages.CPP, SupportedLanguages.CUDA):
        from fib_rmsnorm.evaluation.building.python_source import load_python

        return load_python(solution, cache)
    if solution.spec.binding is SupportedBindings.TORCH:
        from fib_rmsnorm.evaluation.building.torch_binding import build_torch_binding

        return build_torch_binding(solution, cache)
    from fib_rmsnorm.evaluation.building.native import build_native, load_native

    return load_native(build_native(solution, cache).library, solution.get_entry_symbol())
