"""Build the C++ that calls kernels, `quick_norms.cpp`: at the first call that it can serve."""

import warnings
from functools import cache
from importlib.resources import files
from threading import Lock
from types import ModuleType

SOURCE = "quick_norms.cpp"
_HEADERS = ("known_kernels.h", "kernel_arguments.h", "known_norms.h", "norm_operators.h")
_lock = Lock()


def first_line(error: Exception) -> str:
    """The first line of an error's message, or its name."""
    return next(iter(str(error).strip().splitlines()), type(error).__name__)


def load_native_calls() -> ModuleType | str:
    """The module, compiled if it is not yet; or, after one warning, why it cannot be."""
    with _lock:
        return _try_build_native_calls()


@cache
def _try_build_native_calls() -> ModuleType | str:
    try:
        from fib_rmsnorm.building.cache import solution_cache
        from fib_rmsnorm.building.native import build_native, load_extension
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
        return load_extension(build_native(solution, solution_cache(solution)))
    except Exception as error:  # whatever is wrong with a compiler, torch computes the same
        reason = first_line(error)
        warnings.warn(f"{SOURCE} cannot be built here, so torch serves: {reason}", stacklevel=2)
        return reason
