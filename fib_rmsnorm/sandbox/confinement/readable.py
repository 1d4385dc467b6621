"""Find what a confined process may read: the system's programs and libraries, this interpreter's packages, variables.

It does not include a user's files, even if the interpreter or the package lies among them.
"""

import contextlib
import importlib.machinery
import os
import site
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

_VARIABLE = "FIB_RMSNORM_READABLE"
_SYSTEM = (
    *("/usr", "/lib", "/lib32", "/lib64", "/bin", "/sbin", "/opt"),
    *("/nix/store", "/gnu/store", "/run/current-system", "/run/opengl-driver", "/run/nvidia"),
    *("/sys/devices", "/sys/bus", "/sys/class", "/sys/module", "/sys/dev", "/sys/fs/cgroup", "/sys/kernel/mm"),
)
_ETC = (
    *("ld.so.cache", "ld.so.conf", "ld.so.conf.d", "ld.so.preload", "alternatives", "nvidia", "OpenCL", "glvnd"),
    *("localtime", "timezone", "locale.alias", "nsswitch.conf", "passwd", "group"),
    *("os-release", "debian_version", "lsb-release", "redhat-release", "system-release", "python*"),
    *("ssl/openssl.cnf", "pki/tls/openssl.cnf", "crypto-policies"),
)
_PROC = (
    *("cpuinfo", "meminfo", "stat", "loadavg", "uptime", "version", "vmstat", "zoneinfo", "cmdline"),
    *("modules", "devices", "filesystems", "misc", "cgroups", "bus", "driver", "sys", "self"),
)
_FOLDERS_OF_TOOLS = ("LD_LIBRARY_PATH", "LIBRARY_PATH", "CPATH", "C_INCLUDE_PATH", "CPLUS_INCLUDE_PATH")
_HARMLESS_NAMES = frozenset(
    (
        *("HOME", "USER", "LOGNAME", "SHELL", "PATH", "LANG", "LANGUAGE", "TZ", "TERM", "TMPDIR", "XDG_CACHE_HOME"),
        *("LD_LIBRARY_PATH", "LD_PRELOAD", "LIBRARY_PATH", "COMPILER_PATH", "GCC_EXEC_PREFIX"),
        *("CPATH", "C_INCLUDE_PATH", "CPLUS_INCLUDE_PATH", "SOURCE_DATE_EPOCH", "MAX_JOBS", "GLIBC_TUNABLES"),
        *("CC", "CXX", "CPP", "LD", "AR", "AS", "NVCC", "CFLAGS", "CXXFLAGS", "CPPFLAGS", "LDFLAGS"),
        *("VIRTUAL_ENV", "CONDA_PREFIX"),
    )
)
_HARMLESS_PREFIXES = (
    *("LC_", "FIB_RMSNORM_", "PYTHON", "MALLOC_", "CCACHE_", "NINJA_"),
    *("CUDA", "CUPTI_", "CUBLAS_", "CUDNN_", "CUTE_", "CUTLASS_", "NVIDIA_", "NVCC_", "NV_", "NCCL_"),
    *("HIP_", "HSA_", "ROCR_", "ROCM_"),
    *("TORCH", "PYTORCH_", "INDUCTOR_", "ATEN_", "TRITON_", "LLVM_", "MLIR_", "TILELANG_", "TL_", "TVM_"),
    *("FLASHINFER_", "LIGER_", "QUACK_"),
    *("OMP_", "GOMP_", "KMP_", "LIBOMP_", "MKL_", "OPENBLAS_", "DNNL_", "ONEDNN_", "NUMEXPR_"),
)
_SECRET = ("KEY", "TOKEN", "SECRET", "PASSW", "CREDENTIAL", "AUTH", "COOKIE")
# With these, GNU's OpenMP binds each thread by its number, which the sandbox refuses, and ends the process.
_BINDS_THREADS = frozenset({"OMP_PROC_BIND", "OMP_PLACES", "GOMP_CPU_AFFINITY"})
_FINDER_OF_EDITABLE = "__editable__"
_NO_MODULE = "fib_rmsnorm_has_no_such_module"


@dataclass(frozen=True)
class Readable:
    """Paths, by what may be done with them and what lies beneath."""

    readable: tuple[str, ...]
    listable: tuple[str, ...]
    """Folders of installed packages whose files may be listed: an interpreter imports only files that it can list."""


def find_readable() -> Readable:
    """Find the files of this interpreter, its packages and its loaded libraries.

    `$FIB_RMSNORM_READABLE` names more, separated like those of `$PATH`.
    """
    found: list[str | Path] = [*_SYSTEM, *(f"/proc/{name}" for name in _PROC), *_loaded_files(), *_of_interpreter()]
    found += [*_paths_in(_VARIABLE), *_editable_packages()]
    found += [path for name in _ETC for path in Path("/etc").glob(name)]
    found += [path for name in _FOLDERS_OF_TOOLS for path in _paths_in(name) if not _is_too_wide(path)]
    listable = []
    for entry in map(Path, filter(None, sys.path)):
        if entry.name in ("site-packages", "dist-packages") or not os.path.isdir(entry):  # noqa: PTH112 - the other raises
            found.append(entry)
            continue
        found += _packages(entry)
        if _installed(entry) and not _is_too_wide(entry):
            listable.append(str(entry))
        else:
            # Such as a clone, which is a registry too: who may list a folder may also lock it, and nobody could record
            # a Trace there. This interpreter has listed it, and so have its forks.
            importlib.machinery.PathFinder.find_spec(_NO_MODULE, [str(entry)])
    return Readable(tuple(map(str, found)), tuple(listable))


def _paths_in(variable: str) -> Iterator[Path]:
    return map(Path, filter(None, os.environ.get(variable, "").split(os.pathsep)))


def _of_interpreter() -> Iterator[Path]:
    for prefix in {sys.prefix, sys.exec_prefix, sys.base_prefix, sys.base_exec_prefix}:
        folder = Path(prefix)
        if not _is_too_wide(folder):
            yield folder
        else:
            yield from (folder / name for name in ("bin", "lib", "lib64", "include", "pyvenv.cfg"))
    yield from (Path(sys.executable), Path(sys.executable).resolve())
    yield from map(Path, site.getsitepackages())


def _packages(entry: Path) -> Iterator[Path]:
    """The packages and modules in a folder of `sys.path` that may hold other files too, such as a registry."""
    installed = _installed(entry)
    with contextlib.suppress(OSError):  # it may be a folder of another user
        for path in sorted(entry.iterdir()):
            is_module = path.suffix in (".py", ".pyc", ".so", ".pth") or path.name in installed
            if is_module or os.path.exists(path / "__init__.py"):  # noqa: PTH110 - the other raises
                yield path


def _installed(entry: Path) -> set[str]:
    """Files that `pip install --target` has put into a folder, by its records: modules and libraries."""
    found: set[str] = set()
    for record in entry.glob("*.dist-info/RECORD"):
        with contextlib.suppress(OSError):
            found |= {line.partition("/")[0] for line in record.read_text(errors="replace").splitlines()}
    return found


def _editable_packages() -> Iterator[Path]:
    """The packages that setuptools' editable installs find outside `sys.path`."""
    for name, module in list(sys.modules.items()):
        if name.startswith(_FINDER_OF_EDITABLE):
            yield from map(Path, getattr(module, "MAPPING", {}).values())


def _loaded_files() -> list[str]:
    """The libraries that this process has loaded."""
    lines = Path("/proc/self/maps").read_text(errors="replace").splitlines()
    found = dict.fromkeys(line.split(maxsplit=5)[5] for line in lines if line.count("/"))
    return [path for path in found if path.startswith("/") and not path.startswith(("/dev/", "/memfd:"))]


def _is_too_wide(folder: Path) -> bool:
    """Whether a folder contains the user's home or all temporary files."""
    resolved = folder.resolve()
    homes = {Path(os.path.expanduser("~")), Path(tempfile.gettempdir())}  # noqa: PTH111 - may be no absolute path
    return any(home.resolve().is_relative_to(resolved) for home in homes)


def keep_harmless(environment: Mapping[str, str]) -> dict[str, str]:
    """The variables that a process which runs other people's code may know."""
    return {
        name: value
        for name, value in environment.items()
        if name in _HARMLESS_NAMES
        or (
            name.startswith(_HARMLESS_PREFIXES)
            and name not in _BINDS_THREADS
            and not any(word in name for word in _SECRET)
        )
    }
