"""Entry point of the TileLang RMSNorm: picks the program, compiles it once, launches it."""

import ctypes
import functools
import itertools
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import tilelang
import torch
from tilelang.transform import PassConfigKey

from . import cpu, gpu

DTYPES = {torch.float16: "float16", torch.bfloat16: "bfloat16", torch.float32: "float32"}
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
MIN_ELEMENTS_PER_THREAD = 1 << 17  # with less, waking a thread costs more than it saves


def run(x: torch.Tensor, weight: torch.Tensor, eps: float, out: torch.Tensor) -> None:
    """Write x * rsqrt(mean(x^2) + eps) * weight into out, row by row."""
    batch, hidden = x.shape
    if batch == 0:
        return
    if x.is_cuda:
        if (x.data_ptr() | weight.data_ptr() | out.data_ptr()) % 16:
            raise ValueError("x, weight and out must be aligned to 16 bytes")
        _cuda_kernel(hidden, x.dtype, gpu.plan(batch, hidden, x.itemsize))(x, weight, eps, out)
    else:
        _run_on_cpu(x, weight, eps, out)


@functools.cache
def _cuda_kernel(hidden: int, dtype: torch.dtype, launch: gpu.Launch) -> Callable[..., None]:
    program = gpu.rmsnorm(hidden, _supported(hidden, dtype), launch)
    kernel = tilelang.compile(program, target="cuda", execution_backend="tvm_ffi", pass_configs=CUDA_PASSES)
    # The compiled function checks shapes, types and devices and finds the stream by
    # itself: called directly it takes 0.6 us of host time, through the adapter 6.6.
    return kernel.adapter.get_exportable_executable()["main"]


def _run_on_cpu(x: torch.Tensor, weight: torch.Tensor, eps: float, out: torch.Tensor) -> None:
    batch, hidden = x.shape
    if weight.shape != (hidden,) or out.shape != x.shape or not x.dtype == weight.dtype == out.dtype:
        raise ValueError("weight must have the columns and the dtype of x, and out its shape and dtype")
    if not (x.is_contiguous() and weight.is_contiguous() and out.is_contiguous()):
        raise ValueError("x, weight and out must be contiguous")

    kernel = _cpu_kernel(hidden, x.dtype)
    x_ptr, weight_ptr, out_ptr = x.data_ptr(), weight.data_ptr(), out.data_ptr()
    row_bytes = hidden * x.itemsize

    def run_rows(first: int, end: int) -> None:
        offset = first * row_bytes
        kernel(x_ptr + offset, weight_ptr, eps, out_ptr + offset, end - first)

    threads = max(1, min(torch.get_num_threads(), batch * hidden // MIN_ELEMENTS_PER_THREAD, batch))
    bounds = [batch * i // threads for i in range(threads + 1)]
    others = [_threads().submit(run_rows, *part) for part in itertools.pairwise(bounds[1:])]
    run_rows(bounds[0], bounds[1])
    for other in others:
        other.result()


@functools.cache
def _cpu_kernel(hidden: int, dtype: torch.dtype) -> Callable[..., int]:
    flags = C_FLAGS + VECTOR_FLAGS.get(torch.backends.cpu.get_cpu_capability(), [])
    program = cpu.rmsnorm(hidden, _supported(hidden, dtype))
    kernel = tilelang.compile(program, target="c", execution_backend="cython", compile_flags=flags)
    # The C function itself: it takes addresses, so rows are split without slicing
    # tensors, and ctypes releases the interpreter's lock while it runs.
    function = kernel.adapter.lib.call
    function.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_float, ctypes.c_void_p, ctypes.c_int32]
    return function


@functools.cache
def _threads() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(os.cpu_count(), thread_name_prefix="rmsnorm")


os.register_at_fork(after_in_child=_threads.cache_clear)  # a child inherits the pool without its threads


def _supported(hidden: int, dtype: torch.dtype) -> str:
    if dtype not in DTYPES or hidden % 128:
        raise ValueError(f"needs float16, bfloat16 or float32 and hidden a multiple of 128, not {dtype} and {hidden}")
    return DTYPES[dtype]
