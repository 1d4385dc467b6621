"""Build C++ and CUDA Solutions as libraries, and load them by their binding: tvm-ffi, or pybind11 with torch."""

import hashlib
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Callable, Iterator
from functools import cache as memoize
from importlib.machinery import ExtensionFileLoader, ModuleSpec
from importlib.util import module_from_spec
from pathlib import Path
from types import ModuleType
from typing import Any

from fib_rmsnorm.building.build_errors import BuildError, lead_with_error
from fib_rmsnorm.building.cache import content_key, held, is_intact, is_plain, plain_path, seal
from fib_rmsnorm.building.source_files import write_sources
from fib_rmsnorm.languages import LANGUAGES
from fib_rmsnorm.schema import Solution

_DEFAULT_FLAGS = ("-O3", "-march=native")
"""The flags of a Solution that names none."""
_LINKED = {"-fopenmp", "-pthread"}
"""Flags that add a library, so the linker needs them too."""
_CPP_SUFFIXES = {".cpp", ".cc", ".cxx", ".c"}
_OTHER_PROGRAMS = ("gcc", "g++", "clang", "clang++", "ld", "as", "ccache", "nvcc")
_LIBRARY = "solution.so"
# An undefined symbol fails the load; otherwise it would end the process at the first call.
_LINKER_FLAGS = ["-Wl,-z,now"]
_TORCH_LIBRARIES = ("c10", "torch_cpu", "torch", "torch_python", "c10_cuda", "torch_cuda")


def compiler_flags(solution: Solution) -> list[str] | None:
    """The flags with which a Solution is built; None for a language other than C++."""
    if not LANGUAGES[solution.spec.language.value].runs_on_host:
        return None
    return solution.spec.flags or list(_DEFAULT_FLAGS)


@memoize
def _processor() -> str:
    text = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    # The first processor's model and instruction sets, as x86 and Arm name them.
    lines = re.findall(r"^(?:model name|flags|CPU implementer|CPU part|Features)\s*:.*$", text, re.MULTILINE)
    return hashlib.sha256("\n".join(dict.fromkeys(lines)).encode()).hexdigest()[:16]


def build_native(solution: Solution, cache: Path, arch: str | None = None) -> Path:
    """Compile with tvm-ffi, or reuse an equal build in `cache` that is as it was built, and return the library.

    `arch` is a GPU architecture such as `9.0`; None means the one of the current GPU. The cache's key covers
    everything that decides the result: sources, flags, architecture, compilers and tvm-ffi. Raises BuildError with
    the compiler's output.
    """
    from importlib.metadata import version

    is_cuda = any(source.path.endswith(".cu") for source in solution.sources)
    compilers = [os.environ.get("CXX", "c++")]
    if is_cuda:
        compilers.append(str(home / "bin" / "nvcc") if (home := find_cuda_home()) else "nvcc")
    device: list[str] = []
    if is_cuda and arch is not None:  # to be read, with PTX and the lines of the source
        number = arch.replace(".", "")
        device = ["-lineinfo", f"-gencode=arch=compute_{number},code=compute_{number}"]
    elif is_cuda:
        import torch

        arch = "{}.{}".format(*torch.cuda.get_device_capability())
    compiler = compiler_flags(solution) or []
    flags = {
        "extra_cflags": compiler,
        "extra_cuda_cflags": device,
        "extra_ldflags": [*_LINKER_FLAGS, *(each for each in compiler if each in _LINKED)],
    }
    key = content_key(
        solution,
        arch=arch,
        flags=flags,
        # Machines may share a cache, and a build for another processor could end in SIGILL.
        host=_processor() if any(flag.endswith("=native") for flag in compiler) else "",
        compilers=[_compiler_version(each) for each in compilers],
        tvm_ffi=version("apache-tvm-ffi"),
        torch=[version("torch"), sysconfig.get_config_var("SOABI")] if solution.spec.binding == "torch" else None,
    )
    folder = cache / "native" / key
    if not is_intact(folder / _LIBRARY):
        folder.parent.mkdir(parents=True, exist_ok=True)
        with held(folder.parent):  # the ranks of a model need the same kernel at once, and one compiles it
            if not is_intact(folder / _LIBRARY):
                _compile(solution, folder, arch, flags)
    return folder / _LIBRARY


def _module_name(folder: Path) -> str:
    """The name of the Python module that torch's binding makes of a build: no two in a process may be equal."""
    return f"fib_torch_{folder.name}"


def _add_torch(flags: dict[str, list[str]], module: str) -> dict[str, list[str]]:
    """Flags by which sources define a module, and find the headers and libraries of torch, wherever it lies."""
    import torch
    from torch.utils import cpp_extension

    headers = [*cpp_extension.include_paths("cpu"), sysconfig.get_path("include")]
    if home := find_cuda_home():
        headers.append(str(home / "include"))
    host = ["-std=c++20", f"-DTORCH_EXTENSION_NAME={module}", *(f"-I{plain_path(Path(each))}" for each in headers)]
    folder = plain_path(Path(torch.__file__).parent) / "lib"
    libraries = [folder / f"lib{name}.so" for name in _TORCH_LIBRARIES]
    added = {
        "extra_cflags": host,
        "extra_cuda_cflags": [*host, *cpp_extension.COMMON_NVCC_FLAGS],
        "extra_ldflags": [str(each) for each in libraries if each.exists()],  # torch for the CPU lacks those of CUDA
    }
    return {name: [*those, *added[name]] for name, those in flags.items()}


def _compile(solution: Solution, folder: Path, arch: str | None, flags: dict[str, list[str]]) -> None:
    """Build in a temporary folder and move it into place, so that no other process sees half a build."""
    if solution.spec.binding == "torch":
        flags = _add_torch(flags, _module_name(folder))
    # nvcc expands quotes and dollars of paths, whoever has escaped them, and tvm-ffi resolves links.
    beside = folder.parent if is_plain(folder) else None
    with tempfile.TemporaryDirectory(dir=beside, prefix=f".{folder.name}.") as staging:
        build = Path(staging, "build")
        _run_compiler(solution, build, arch, flags)
        seal(build / _LIBRARY)
        shutil.rmtree(folder, ignore_errors=True)  # a damaged build
        shutil.move(build, folder)


def _run_compiler(solution: Solution, build: Path, arch: str | None, flags: dict[str, list[str]]) -> None:
    import tvm_ffi.cpp

    if arch:
        os.environ["TVM_FFI_CUDA_ARCH_LIST"] = arch
    if cuda_home := find_cuda_home():
        os.environ["CUDA_HOME"] = str(cuda_home)
    # In an environment that was not activated, ninja lies beside the interpreter and not on PATH.
    os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])
    sources = build / "sources"
    write_sources(solution, sources)
    # Escaped for ninja's build file: tvm-ffi escapes only the colon.
    files = {
        str(path).replace("$", "$$").replace(" ", "$ "): path.suffix
        for path in sorted(sources.rglob("*"))
        if path.is_file()
    }
    try:
        tvm_ffi.cpp.build(
            name=Path(_LIBRARY).stem,
            cpp_files=[path for path, suffix in files.items() if suffix in _CPP_SUFFIXES],
            cuda_files=[path for path, suffix in files.items() if suffix == ".cu"],
            extra_include_paths=[str(sources)],
            build_directory=str(build),
            **flags,
        )
    except Exception as error:
        raise BuildError(lead_with_error(_tidy(str(error).replace(f"{sources}/", "")))) from None


def _tidy(text: str) -> str:
    """Remove the build tool's own lines and keep the compiler's messages."""
    noise = re.compile(r"^(\[\d+/\d+\] |FAILED: |ninja |stdout:|stderr:|\S*(c\+\+|g\+\+|clang\+\+|nvcc) .* -c )")
    return "\n".join(line for line in text.splitlines() if not noise.match(line)).strip()


def load_extension(library: Path) -> ModuleType:
    """Load a built library as the Python module that it defines by torch's binding. Raises BuildError if it does not.

    The libraries that it is linked with are those of the modules that are imported here.
    """
    import torch  # noqa: F401
    import tvm_ffi  # noqa: F401

    loader = ExtensionFileLoader(_module_name(library.parent), str(library))
    try:
        module = module_from_spec(ModuleSpec(loader.name, loader, origin=str(library)))
        loader.exec_module(module)
    except Exception as error:
        raise BuildError(f"the built library does not load: {error}") from None
    return module


def load_native(library: Path, symbol: str) -> Callable[..., Any]:
    """Load a built library and return its entry point. Raises BuildError if the library does not export it."""
    import tvm_ffi

    try:
        entry: Callable[..., Any] = getattr(tvm_ffi.load_module(str(library)), symbol)
    except AttributeError:
        raise BuildError(
            f"the library does not export {symbol!r}: add TVM_FFI_DLL_EXPORT_TYPED_FUNC({symbol}, ...)"
        ) from None
    except Exception as error:
        raise BuildError(f"the built library does not load: {error}") from None
    return entry


def find_cuda_home() -> Path | None:
    """The folder of the CUDA toolkit, links resolved: an nvcc wrapper elsewhere on PATH would mislead the linker."""
    named = os.environ.get("CUDA_HOME") or os.environ.get("CUDA_PATH")
    candidates = [Path(named)] if named else []
    candidates += [Path("/usr/local/cuda")]
    if nvcc := shutil.which("nvcc"):
        candidates.append(Path(nvcc).resolve().parent.parent)
    return next((home.resolve() for home in candidates if (home / "bin" / "nvcc").exists()), None)


def find_cuda_tool(name: str, *others: Path) -> Path | None:
    """A program of the CUDA toolkit: on PATH, in the toolkit, or else at one of other places."""
    on_path, home = shutil.which(name), find_cuda_home()
    candidates = [Path(on_path) if on_path else None, home / "bin" / name if home else None, *others]
    return next((path for path in candidates if path and path.exists()), None)


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
def toolchain_paths() -> tuple[Path, ...]:
    """The folders that a process which builds Solutions reads: the CUDA toolkit's, and those of each tool.

    It is the program alone where that is among the user's files.
    """
    programs = (find_cc(), find_cxx(), find_ninja(), *map(shutil.which, _OTHER_PROGRAMS))
    found = [path for program in programs if program for path in _files_of(Path(program))]
    return tuple(dict.fromkeys([*filter(None, [find_cuda_home()]), *found]))


def _files_of(program: Path) -> Iterator[Path]:
    """A program, the one that it links to, and the folder that holds its `bin` and `lib`."""
    home, real = Path.home().resolve(), program.resolve()
    folder = real.parent.parent
    yield program
    yield real
    if real.parent.name == "bin" and not home.is_relative_to(folder) and folder != home / ".local":
        yield folder


@memoize
def _compiler_version(compiler: str) -> str:
    try:
        return subprocess.run([compiler, "--version"], capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        raise BuildError(f"no working compiler {compiler!r}; run: fib-rmsnorm env") from None
