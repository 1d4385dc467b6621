"""The environment variables that processes get: those which compilers, GPUs and libraries read, and no secrets."""

from __future__ import annotations

from collections.abc import Mapping

_NAMES = frozenset(
    (
        *("HOME", "USER", "LOGNAME", "SHELL", "PATH", "LANG", "LANGUAGE", "TZ", "TERM", "TMPDIR", "XDG_CACHE_HOME"),
        *("LD_LIBRARY_PATH", "LD_PRELOAD", "LIBRARY_PATH", "COMPILER_PATH", "GCC_EXEC_PREFIX"),
        *("CPATH", "C_INCLUDE_PATH", "CPLUS_INCLUDE_PATH", "SOURCE_DATE_EPOCH", "MAX_JOBS", "GLIBC_TUNABLES"),
        *("CC", "CXX", "CPP", "LD", "AR", "AS", "NVCC", "CFLAGS", "CXXFLAGS", "CPPFLAGS", "LDFLAGS"),
        *("VIRTUAL_ENV", "CONDA_PREFIX"),
    )
)
_PREFIXES = (
    *("LC_", "FIB_RMSNORM_", "PYTHON", "MALLOC_", "CCACHE_", "NINJA_"),
    *("CUDA", "CUPTI_", "CUBLAS_", "CUDNN_", "CUTE_", "CUTLASS_", "NVIDIA_", "NVCC_", "NV_", "NCCL_"),
    *("TORCH", "PYTORCH_", "INDUCTOR_", "ATEN_", "TRITON_", "LLVM_", "MLIR_", "TILELANG_", "TL_", "TVM_"),
    *("FLASHINFER_", "LIGER_", "QUACK_"),
    *("OMP_", "GOMP_", "KMP_", "LIBOMP_", "MKL_", "OPENBLAS_", "DNNL_", "ONEDNN_", "NUMEXPR_"),
)
_SECRET = ("KEY", "TOKEN", "SECRET", "PASSW", "CREDENTIAL", "AUTH", "COOKIE")
# With these, GNU's OpenMP binds each thread by its number, which the sandbox refuses, and ends the process.
_BINDS_THREADS = frozenset({"OMP_PROC_BIND", "OMP_PLACES", "GOMP_CPU_AFFINITY"})


def keep_harmless(environment: Mapping[str, str]) -> dict[str, str]:
    """The variables that a process which runs other people's code may know."""
    return {
        name: value
        for name, value in environment.items()
        if name in _NAMES
        or (name.startswith(_PREFIXES) and name not in _BINDS_THREADS and not any(word in name for word in _SECRET))
    }
