"""The folder that keeps what a Solution's compilers made, between runs.

It is named after the Solution's sources and is the only one that they may write to, so a Solution can spoil no builds
but its own.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from fib_rmsnorm.building.cache import cache_folder, making_folders, plain_path
from fib_rmsnorm.building.source_files import content_key
from fib_rmsnorm.file_trees import file_sizes, remove_tree
from fib_rmsnorm.languages import LANGUAGES
from fib_rmsnorm.schema import Solution

_MOST_BYTES_AFTER_FAILURE = 1 << 30
_VARIABLES = {
    "XDG_CACHE_HOME": "cache",
    "CCACHE_DIR": "ccache",
    "CUDA_CACHE_PATH": "cuda",
    "CUTE_DSL_CACHE_DIR": "cutedsl",
    "FLASHINFER_WORKSPACE_BASE": "flashinfer",
    "TORCHINDUCTOR_CACHE_DIR": "inductor",
    "TORCH_EXTENSIONS_DIR": "torch_extensions",
    "TVM_FFI_CACHE_DIR": "tvm_ffi",
    **{language.cache_variable: name for name, language in LANGUAGES.items() if language.cache_variable},
}


def solution_cache(solution: Solution, builds: Path | None = None) -> Path:
    """The Solution's folder in the cache, or in `builds`; made if it is missing.

    Solutions with equal sources share it. Raises InputError if it cannot be made.
    """
    folder = (builds or _builds()) / content_key(solution)
    with making_folders():
        folder.mkdir(parents=True, exist_ok=True)
    return folder


def is_in_cache(solution: Solution) -> bool:
    """Whether the Solution has a folder in the cache, as it has once it was built."""
    return (_builds() / content_key(solution)).exists()


def _builds() -> Path:
    return cache_folder().absolute() / "solutions"


def drop_failed_build(folder: Path) -> None:
    """Remove a Solution's builds after one that failed or timed out, if they take more than 1 GiB.

    Below that they stay: a compiler goes on from what it had finished.
    """
    if sum(file_sizes(folder)) > _MOST_BYTES_AFTER_FAILURE:
        with suppress(OSError):  # another run may be building the same sources
            remove_tree(folder)


def cache_variables(folder: Path) -> dict[str, str]:
    """The environment variables by which compilers and libraries keep their files beneath a folder."""
    plain = plain_path(folder)
    folders = {name: str(plain / part) for name, part in _VARIABLES.items()}
    # More than one, and torch.compile starts processes that share semaphores in /dev/shm, where others have files too.
    return {**folders, "TORCHINDUCTOR_COMPILE_THREADS": "1"}
