"""Build C++ and CUDA Solutions with the tvm-ffi binding."""

from __future__ import annotations

import logging
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache as memoize
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any

from fib_rmsnorm.building.build_errors import BuildError, lead_with_error
from fib_rmsnorm.building.cache import is_plain
from fib_rmsnorm.building.compiler_flags import LINKED, compiler_flags, host_key
from fib_rmsnorm.building.folder_lock import held
from fib_rmsnorm.building.seal import break_seal, has_loaded, is_intact, note_load, seal
from fib_rmsnorm.building.source_files import content_key, write_sources
from fib_rmsnorm.languages import LANGUAGES

if TYPE_CHECKING:
    from fib_rmsnorm.schema import Solution

_CPP_SUFFIXES = {".cpp", ".cc", ".cxx", ".c"}
_FOLDER = "native"
_LIBRARY = "solution.so"
_LOG = "compiler.log"
_CUDA_FLAGS = ["-Xptxas", "-v"]
# An undefined symbol fails the load; otherwise it would end the process at the first call.
_LINKER_FLAGS = ["-Wl,-z,now"]


@dataclass(frozen=True)
class NativeBuild:
    """A shared library and the compiler's output."""

    binary: Path
    log: str


def build_native(solution: Solution, cache: Path, arch: str | None = None) -> NativeBuild:
    """Compile with tvm-ffi, or reuse an equal build in `cache` that is as it was built.

    `arch` is a GPU architecture such as `9.0`; None means the one of the current GPU. The cache's key covers
    everything that decides the result: sources, flags, architecture, compilers and tvm-ffi. Raises BuildError with
    the compiler's output.
    """
    from importlib.metadata import version

    is_cuda = any(source.path.endswith(".cu") for source in solution.sources)
    arch = arch or (_current_arch() if is_cuda else None)
    flags = _all_flags(solution)
    key = content_key(
        solution,
        arch=arch,
        flags=flags,
        host=host_key(solution),
        compilers=[_compiler_version(c) for c in (("c++",) + (("nvcc",) if is_cuda else ()))],
        tvm_ffi=version("apache-tvm-ffi"),
    )
    folder = cache / _FOLDER / key
    if not is_intact(folder / _LIBRARY):
        folder.parent.mkdir(parents=True, exist_ok=True)
        with held(folder.parent):  # the ranks of a model need the same kernel at once, and one compiles it
            if not is_intact(folder / _LIBRARY):
                _compile(solution, folder, arch, flags)
    return NativeBuild(folder / _LIBRARY, (folder / _LOG).read_text(encoding="utf-8"))


def is_native_unbuilt(solution: Solution, cache: Path) -> bool:
    """Whether `build_native` would compile a Solution for the CPU: it has built nothing in its `cache`."""
    from fib_rmsnorm.schema import SupportedBindings

    is_native = LANGUAGES[solution.spec.language.value].runs_on_host
    return is_native and solution.spec.binding is not SupportedBindings.TORCH and not (cache / _FOLDER).exists()


def _all_flags(solution: Solution) -> dict[str, list[str]]:
    compiler = compiler_flags(solution) or []
    linker = [flag for flag in compiler if flag in LINKED]
    return {
        "extra_cflags": compiler,
        "extra_cuda_cflags": _CUDA_FLAGS,
        "extra_ldflags": [*_LINKER_FLAGS, *linker],
    }


def _compile(solution: Solution, folder: Path, arch: str | None, flags: dict[str, list[str]]) -> None:
    """Build in a temporary folder and move it into place, so that no other process sees half a build."""
    staging = Path(tempfile.mkdtemp(dir=folder.parent, prefix=f".{folder.name}."))
    try:
        with _compilable(staging) as build:
            sources = build / "sources"
            write_sources(solution, sources)
            log = _run_compiler(sources, build, arch, flags)
        (staging / _LOG).write_text(log, encoding="utf-8")
        seal(staging / _LIBRARY)
        _put_in_place(staging, folder)
    finally:
        shutil.rmtree(staging, ignore_errors=True)


@contextmanager
def _compilable(folder: Path) -> Iterator[Path]:
    """A folder to compile in, whose files are in `folder` in the end.

    nvcc expands quotes and dollars of paths itself, whoever has escaped them, and tvm-ffi resolves links.
    """
    if is_plain(folder):
        yield folder
        return
    with tempfile.TemporaryDirectory() as elsewhere:
        yield Path(elsewhere)
        shutil.copytree(elsewhere, folder, dirs_exist_ok=True)


def _put_in_place(staging: Path, folder: Path) -> None:
    """Rename a build. Another process may have been faster, or a damaged build may be in the way."""
    with suppress(OSError):
        staging.rename(folder)
        return
    if is_intact(folder / _LIBRARY):
        return
    damaged = staging.with_name(f"{staging.name}.damaged")
    with suppress(OSError):
        folder.rename(damaged)
    shutil.rmtree(damaged, ignore_errors=True)
    try:
        staging.rename(folder)
    except OSError:
        if not is_intact(folder / _LIBRARY):
            raise


def _run_compiler(sources: Path, build: Path, arch: str | None, flags: dict[str, list[str]]) -> str:
    import tvm_ffi.cpp

    find_compilers(arch)
    # Not as extra_include_paths, which tvm-ffi neither quotes nor escapes.
    include = for_ninja_command(f"-I{sources}")
    added = {name: [*flags[name], include] for name in ("extra_cflags", "extra_cuda_cflags")}
    files = [path for path in sorted(sources.rglob("*")) if path.is_file()]
    output = _CompilerOutput()
    try:
        with output:
            library = tvm_ffi.cpp.build(
                name="solution",
                cpp_files=[_for_ninja(path) for path in files if path.suffix in _CPP_SUFFIXES],
                cuda_files=[_for_ninja(path) for path in files if path.suffix == ".cu"],
                build_directory=str(build),
                **flags | added,
            )
    except Exception as error:
        raise BuildError(lead_with_error(_tidy(str(error).replace(f"{sources}/", "")))) from None
    if Path(library).name != _LIBRARY:
        Path(library).rename(build / _LIBRARY)
    return _tidy("\n".join(output.lines))


def _for_ninja(path: Path) -> str:
    """Escape a path for ninja's build file: tvm-ffi escapes only the colon."""
    return str(path).replace("$", "$$").replace(" ", "$ ")


def for_ninja_command(word: str) -> str:
    """One word of a command in ninja's build file, which ninja expands and a shell then splits."""
    return quote(word).replace("$", "$$")


def find_compilers(arch: str | None = None) -> None:
    """Have builders find the compilers, by environment variables, and compile for an architecture."""
    if arch:
        os.environ["TVM_FFI_CUDA_ARCH_LIST"] = arch
    if cuda_home := find_cuda_home():
        os.environ["CUDA_HOME"] = str(cuda_home)
    # In an environment that was not activated, ninja lies beside the interpreter and not on PATH.
    os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])


class _CompilerOutput(logging.Handler):
    """Collects the compiler's output that tvm-ffi logs while entered."""

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self.lines: list[str] = []
        self._logger = logging.getLogger("tvm_ffi")

    def emit(self, record: logging.LogRecord) -> None:
        self.lines += record.getMessage().splitlines()

    def __enter__(self) -> _CompilerOutput:
        os.environ["TVM_FFI_CPP_EXTENSION_LOG_BUILD"] = "1"
        self._logger.addHandler(self)
        self._logger.setLevel(logging.INFO)
        self._logger.propagate = False
        return self

    def __exit__(self, *_: object) -> None:
        self._logger.removeHandler(self)


def _tidy(text: str) -> str:
    """Remove the build tool's own lines and keep the compiler's messages."""
    noise = re.compile(r"^(\[\d+/\d+\] |FAILED: |ninja |stdout:|stderr:|\S*(c\+\+|g\+\+|clang\+\+|nvcc) .* -c )")
    return "\n".join(line for line in text.splitlines() if not noise.match(line)).strip()


class _LoadError(BuildError):
    """A built library does not load, such as for an undefined symbol."""


def build_and_load(solution: Solution, cache: Path, symbol: str) -> Callable[..., Any]:
    """Build as `build_native` does, and load. What has loaded before and does not now is built again, once.

    It may be of a machine whose libraries differ. One that has never loaded is the Solution's fault.
    """
    library = build_native(solution, cache).binary
    try:
        return load_native(library, symbol)
    except _LoadError:
        if not has_loaded(library):
            raise
    break_seal(library)
    return load_native(build_native(solution, cache).binary, symbol)


def load_native(library: Path, symbol: str) -> Callable[..., Any]:
    """Load a built library and return its entry point. Raises BuildError if the library does not export it."""
    import tvm_ffi

    try:
        module = tvm_ffi.load_module(str(library))
    except Exception as error:
        raise _LoadError(f"the built library does not load: {error}") from None
    note_load(library)
    try:
        entry: Callable[..., Any] = getattr(module, symbol)
    except AttributeError:
        raise BuildError(
            f"the library does not export {symbol!r}: add TVM_FFI_DLL_EXPORT_TYPED_FUNC({symbol}, ...)"
        ) from None
    return entry


def find_cuda_home() -> Path | None:
    """The folder of the CUDA toolkit, links resolved: an nvcc wrapper elsewhere on PATH would mislead the linker."""
    named = os.environ.get("CUDA_HOME") or os.environ.get("CUDA_PATH")
    candidates = [Path(named)] if named else []
    candidates += [Path("/usr/local/cuda")]
    if nvcc := shutil.which("nvcc"):
        candidates.append(Path(nvcc).resolve().parent.parent)
    return next((home.resolve() for home in candidates if (home / "bin" / "nvcc").exists()), None)


def find_cxx() -> str | None:
    """The C++ compiler that tvm-ffi uses: $CXX, else `c++`; None if it is missing."""
    return shutil.which(os.environ.get("CXX", "c++"))


def find_cc() -> str | None:
    """The C compiler that Triton uses: $CC, else clang or gcc; None if it is missing."""
    named = os.environ.get("CC")
    return shutil.which(named) if named else shutil.which("clang") or shutil.which("gcc")


def find_ninja() -> str | None:
    """Ninja, on PATH or beside the interpreter of an environment that was not activated."""
    return shutil.which("ninja") or shutil.which("ninja", path=Path(sys.executable).parent)


@memoize
def _compiler_version(compiler: str) -> str:
    if compiler == "nvcc":
        home = find_cuda_home()
        compiler = str(home / "bin" / "nvcc") if home else compiler
    else:
        compiler = os.environ.get("CXX", compiler)
    try:
        return subprocess.run([compiler, "--version"], capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        raise BuildError(f"no working compiler {compiler!r}; run: fib-rmsnorm env") from None


def _current_arch() -> str:
    import torch

    major, minor = torch.cuda.get_device_capability()
    return f"{major}.{minor}"
