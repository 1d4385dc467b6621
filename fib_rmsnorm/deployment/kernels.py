"""What serves in this process: Solutions, each built once for a device at its first use, and the C++ that calls them.

That is `quick_norms.cpp`, compiled at the first call that it can serve.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from threading import Lock, RLock
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

    from fib_rmsnorm.schema import Solution

SOURCE = "quick_norms.cpp"
_HEADERS = ("known_kernels.h", "kernel_arguments.h", "known_norms.h", "norm_operators.h")
_native_lock = Lock()


@dataclass(frozen=True)
class BuiltKernel:
    """A Solution's entry point, which writes to its last arguments."""

    solution: str
    entry: Callable[..., Any]
    language: str
    is_native: bool
    """Whether it is C++ or CUDA, checks its tensors and launches on the device of x, whichever is current."""


class KernelCache:
    """The kernels of this process, and the reasons why others cannot be built here."""

    def __init__(self) -> None:
        self._lock = RLock()
        self._found: dict[tuple[str, str], BuiltKernel | str] = {}
        self._told: set[str] = set()

    def build(self, solution: Solution, device: torch.device) -> BuiltKernel | str:
        """The kernel of a Solution, built if it is not yet; or why it cannot be. A reason is told in one warning."""
        key = solution.name, str(device)
        found = self._found.get(key)
        if found is None:
            with self._lock:
                found = self._found.get(key) or _try_build(solution, device)
                self._found[key] = found
                if isinstance(found, str):
                    self._tell(solution, found)
        return found

    def forget(self) -> None:
        """Forget all kernels, and what could not be built: the next use builds it again."""
        with self._lock:
            self._found.clear()
            self._told.clear()

    def _tell(self, solution: Solution, reason: str) -> None:
        if reason not in self._told:
            self._told.add(reason)
            warnings.warn(
                f"{solution.name} cannot be built here, so another kernel or torch serves: {reason}", stacklevel=3
            )


def _try_build(solution: Solution, device: torch.device) -> BuiltKernel | str:
    try:
        return _build(solution, device)
    except Exception as error:  # whatever is wrong with a compiler or a library, torch computes the same
        return next(iter(str(error).strip().splitlines()), type(error).__name__)


def _build(solution: Solution, device: torch.device) -> BuiltKernel:
    from fib_rmsnorm.building import build_entry
    from fib_rmsnorm.building.cache import solution_cache
    from fib_rmsnorm.errors import EnvironmentMissingError
    from fib_rmsnorm.languages import LANGUAGES
    from fib_rmsnorm.machine.capabilities import missing_dependency

    if missing := missing_dependency(solution):
        raise EnvironmentMissingError(missing)
    with _unchanged_imports(), on_device(device):
        entry = build_entry(solution, str(device), solution_cache(solution))
    language = solution.spec.language.value
    return BuiltKernel(solution.name, entry, language, LANGUAGES[language].is_compiled)


@contextmanager
def _unchanged_imports() -> Iterator[None]:
    """Leave sys.path and the writing of byte code as they are: a build for a worker changes both for good."""
    path, dont_write = list(sys.path), sys.dont_write_bytecode
    try:
        yield
    finally:
        sys.path[:], sys.dont_write_bytecode = path, dont_write


@contextmanager
def on_device(device: torch.device) -> Iterator[None]:
    """Make a GPU the current one: compilers ask it for its architecture, and Python launches on it."""
    import torch

    if device.type != "cuda":
        yield
        return
    with torch.cuda.device(device):
        yield


def load_native_calls() -> ModuleType | str:
    """The module, compiled if it is not yet; or, after one warning, why it cannot be."""
    with _native_lock:
        return _try_build_native_calls()


@cache
def _try_build_native_calls() -> ModuleType | str:
    try:
        return _build_native_calls()
    except Exception as error:  # whatever is wrong with a compiler, Python calls kernels too
        reason = next(iter(str(error).strip().splitlines()), type(error).__name__)
        warnings.warn(f"{SOURCE} cannot be built here, so calls of norms take longer: {reason}", stacklevel=2)
        return reason


def _build_native_calls() -> ModuleType:
    import tvm_ffi.libinfo

    from fib_rmsnorm.building.cache import solution_cache
    from fib_rmsnorm.building.torch_binding import build_module
    from fib_rmsnorm.schema import BuildSpec, Solution, SourceFile, SupportedBindings, SupportedLanguages

    # As a Solution, so that it is built, and kept, like a kernel.
    solution = Solution(
        name="quick_norms",
        definition="quick_norms",
        author="fib-rmsnorm",
        spec=BuildSpec(
            language=SupportedLanguages.CPP,
            target_hardware=["cpu"],
            entry_point=f"{SOURCE}::run",
            binding=SupportedBindings.TORCH,
            flags=["-O1"],  # -O2 takes 4 s more to compile, and no less to run
        ),
        sources=[
            SourceFile(path=path, content=files(__package__).joinpath(path).read_text(encoding="utf-8"))
            for path in (SOURCE, *_HEADERS)
        ],
    )
    tvm_ffi_files = tvm_ffi.libinfo
    include_paths = [Path(tvm_ffi_files.find_include_path()), Path(tvm_ffi_files.find_dlpack_include_path())]
    libraries = [Path(tvm_ffi_files.find_libtvm_ffi())]
    return build_module(solution, solution_cache(solution), include_paths, libraries)
