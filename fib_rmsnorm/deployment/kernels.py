"""Solutions built for this process: each once, at its first use, whichever thread asks first."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, partial
from threading import RLock
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

    from fib_rmsnorm.schema import Solution


@dataclass(frozen=True)
class BuiltKernel:
    """A Solution's entry point. It writes to its last arguments and checks its tensors if it is native."""

    solution: str
    entry: Callable[..., Any]
    is_native: bool


class KernelCache:
    """The kernels of this process, and the reasons why others cannot be built here."""

    def __init__(self) -> None:
        self._lock = RLock()
        self._kernels: dict[tuple[str, str], BuiltKernel | str] = {}

    def find(self, solution: str, device: torch.device) -> BuiltKernel | None:
        """The kernel of a shipped Solution, built if it is not yet; None, after one warning, if that fails."""
        key = solution, str(device)
        found = self._kernels.get(key)
        if found is None:
            with self._lock:
                found = self._kernels.get(key) or self._build(solution, device)
                self._kernels[key] = found
        return None if isinstance(found, str) else found

    def forget(self) -> None:
        """Forget all kernels, and what could not be built: the next use builds it again."""
        with self._lock:
            self._kernels.clear()

    def _build(self, name: str, device: torch.device) -> BuiltKernel | str:
        try:
            return _build(name, device)
        except Exception as error:  # whatever is wrong with a compiler or a library, torch computes the same
            reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
            warnings.warn(f"{name} cannot be built here, so another kernel or torch serves: {reason}", stacklevel=2)
            return reason


KERNELS = KernelCache()


def _build(name: str, device: torch.device) -> BuiltKernel:
    from fib_rmsnorm.building import build_entry
    from fib_rmsnorm.building.solution_cache import solution_cache
    from fib_rmsnorm.languages import LANGUAGES

    solution = shipped_solutions()[name]()
    with _unchanged_imports(), _on(device):
        entry = build_entry(solution, str(device), solution_cache(solution))
    return BuiltKernel(name, entry, is_native=LANGUAGES[solution.spec.language.value].is_compiled)


@cache
def shipped_solutions() -> dict[str, Callable[[], Solution]]:
    """What reads each Solution of the shipped registry, by name."""
    from fib_rmsnorm.registry.layout import Layout, is_source
    from fib_rmsnorm.registry.shipped import shipped_registry
    from fib_rmsnorm.registry.store import read_json
    from fib_rmsnorm.schema import Solution

    layout = Layout(shipped_registry())
    paths = (path for path in layout.solutions.rglob("*.json") if not is_source(path, layout.solutions))
    return {path.stem: partial(read_json, path, Solution, layout.root) for path in paths}


@contextmanager
def _unchanged_imports() -> Iterator[None]:
    """Leave sys.path and the writing of byte code as they are: a build for a worker changes both for good."""
    path, dont_write = list(sys.path), sys.dont_write_bytecode
    try:
        yield
    finally:
        sys.path[:], sys.dont_write_bytecode = path, dont_write


@contextmanager
def _on(device: torch.device) -> Iterator[None]:
    """Make a GPU the current one: compilers ask it for its architecture."""
    import torch

    if device.type != "cuda":
        yield
        return
    with torch.cuda.device(device):
        yield
