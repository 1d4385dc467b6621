"""Build C++ and CUDA Solutions with the torch binding: pybind11 through torch's extension builder."""

import sysconfig
from collections.abc import Sequence
from contextlib import suppress
from importlib.machinery import ExtensionFileLoader, ModuleSpec
from importlib.util import module_from_spec
from pathlib import Path
from types import ModuleType

from fib_rmsnorm.building.build_errors import BuildError, lead_with_error
from fib_rmsnorm.building.cache import held, is_intact, plain_path, seal
from fib_rmsnorm.building.native import LINKED, compiler_flags, find_compilers, host_key
from fib_rmsnorm.building.source_files import content_key, write_sources
from fib_rmsnorm.schema import Solution

_COMPILED_SUFFIXES = {".cpp", ".cc", ".cxx", ".c", ".cu"}


def build_module(
    solution: Solution, cache: Path, include_paths: Sequence[Path] = (), libraries: Sequence[Path] = ()
) -> ModuleType:
    """Return the Python module that a Solution's sources define, linked with other libraries.

    Compiled with torch.utils.cpp_extension, or reused from `cache`. Raises BuildError with the compiler's output.
    """
    import torch

    flags = compiler_flags(solution) or []
    key = content_key(
        solution,
        torch=torch.__version__,
        python=sysconfig.get_config_var("SOABI"),
        flags=flags,
        host=host_key(solution),
        libraries=libraries,
    )
    # torch quotes what it gives the shell, but escapes only spaces for ninja.
    folder = plain_path(cache) / "torch" / key
    sources = folder / "sources"
    write_sources(solution, sources)
    library = folder / f"fib_torch_{key}.so"
    try:
        # With torch's own lock, a second process waits and then loads a library that may not have compiled. With
        # ours it waits for its turn to build, and gets the compiler's message.
        with held(folder) as is_alone:
            if is_intact(library):
                with suppress(ImportError):  # it may be of a machine whose libraries differ
                    return _load(library)
            library.unlink(missing_ok=True)  # torch links again what is missing, but loads what is damaged
            if is_alone:  # so torch's own lock was left by a killed build, and torch would wait for it endlessly
                (folder / "lock").unlink(missing_ok=True)
            module = _compile(sources, library, flags, [sources, *include_paths], libraries)
            seal(library)
            return module
    except Exception as error:
        raise BuildError(lead_with_error(str(error).replace(f"{sources}/", ""))) from None


def _compile(
    sources: Path, library: Path, flags: list[str], include_paths: Sequence[Path], libraries: Sequence[Path]
) -> ModuleType:
    from torch.utils import cpp_extension

    find_compilers()
    installed = plain_path(Path(cpp_extension._TORCH_PATH))  # torch does not quote its own path
    cpp_extension._TORCH_PATH, cpp_extension.TORCH_LIB_PATH = str(installed), str(installed / "lib")
    module: ModuleType = cpp_extension.load(
        name=library.stem,
        sources=[str(path) for path in sorted(sources.rglob("*")) if path.suffix in _COMPILED_SUFFIXES],
        extra_cflags=flags,
        extra_ldflags=[*(flag for flag in flags if flag in LINKED), *map(str, libraries)],
        extra_include_paths=list(map(str, include_paths)),
        build_directory=str(library.parent),
    )
    return module


def _load(library: Path) -> ModuleType:
    """Load a library that was built before: torch's builder takes a second to find that there is nothing to do."""
    loader = ExtensionFileLoader(library.stem, str(library))
    module = module_from_spec(ModuleSpec(library.stem, loader, origin=str(library)))
    loader.exec_module(module)
    return module
