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
from threading import Lock
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


def first_line(error: Exception) -> str:
    """What an error says first, or its name."""
    return next(iter(str(error).strip().splitlines()), type(error).__name__)


def build_kernel(solution: Solution, device: torch.device) -> BuiltKernel:
    """Build a Solution for a device, or load it from the cache. Raises an error of many kinds if it cannot be."""
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
    except Exception as error:  # whatever is wrong with a compiler, torch computes the same
        reason = first_line(error)
        warnings.warn(f"{SOURCE} cannot be built here, so torch serves: {reason}", stacklevel=2)
        return reason


def _build_native_calls() -> ModuleType:
    from tvm_ffi import libinfo

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
    includes = [Path(libinfo.find_include_path()), Path(libinfo.find_dlpack_include_path())]
    return build_module(solution, solution_cache(solution), includes, [Path(libinfo.find_libtvm_ffi())])
