"""Compiles TileLang's programs to functions that take little of the host's time."""

from collections.abc import Callable

import tilelang
import torch
from tilelang.transform import PassConfigKey

# None of these changes the value of a result; they allow selections to be vectorised.
# Instruction sets are named rather than `native`: TileLang keeps binaries on disk under
# a key that holds the flags but not the machine.
C_FLAGS = ["-O3", "-fno-strict-aliasing", "-fno-trapping-math", "-fno-math-errno"]
VECTOR_FLAGS = {
    "AVX2": ["-mavx2", "-mfma"],
    "AVX512": ["-mavx2", "-mfma", "-mavx512f", "-mavx512bw", "-mavx512dq", "-mavx512vl"],
}
# The weight is to be requested together with x. To save registers, nvcc moves plain loads of it behind the arrival
# of x: one trip to memory after the other. These passes make loads volatile assembly, which stays in front.
CUDA_PASSES = {
    PassConfigKey.TL_ENABLE_LOWER_LDGSTG: True,
    PassConfigKey.TL_ENABLE_LOWER_LDGSTG_PREDICATED: True,
}


def compile_for_cuda(program) -> Callable[..., None]:
    kernel = tilelang.compile(program, target="cuda", execution_backend="tvm_ffi", pass_configs=CUDA_PASSES)
    # The compiled function checks shapes, types and devices and finds the stream by
    # itself: called directly it takes 0.6 us of host time, through the adapter 6.6.
    return kernel.adapter.get_exportable_executable()["main"]


def compile_for_cpu(program) -> Callable[..., int]:
    """The C function itself: it takes addresses, so rows are split without slicing tensors, and ctypes releases the
    interpreter's lock while it runs."""
    flags = C_FLAGS + VECTOR_FLAGS.get(torch.backends.cpu.get_cpu_capability(), [])
    kernel = tilelang.compile(program, target="c", execution_backend="cython", compile_flags=flags)
    return kernel.adapter.lib.call
