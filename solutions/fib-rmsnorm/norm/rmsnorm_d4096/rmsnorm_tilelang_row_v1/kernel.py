"""Entry point of the TileLang RMSNorm: picks the program, compiles it once, launches it."""

import ctypes
import functools
from collections.abc import Callable

import torch

from . import cpu, gpu
from .compiling import compile_for_cpu, compile_for_cuda
from .row_plan import Launch, plan
from .row_threads import split_rows

DTYPES = {torch.float16: "float16", torch.bfloat16: "bfloat16", torch.float32: "float32"}


def run(x: torch.Tensor, weight: torch.Tensor, eps: float, out: torch.Tensor) -> None:
    """Write x * rsqrt(mean(x^2) + eps) * weight into out, row by row."""
    batch, hidden = x.shape
    if batch == 0:
        return
    if x.is_cuda:
        if (x.data_ptr() | weight.data_ptr() | out.data_ptr()) % 16:
            raise ValueError("x, weight and out must be aligned to 16 bytes")
        _cuda_kernel(hidden, x.dtype, plan(batch, hidden, x.itemsize))(x, weight, eps, out)
    else:
        _run_on_cpu(x, weight, eps, out)


@functools.cache
def _cuda_kernel(hidden: int, dtype: torch.dtype, launch: Launch) -> Callable[..., None]:
    program = gpu.rmsnorm(hidden, _supported(hidden, dtype), launch)
    return compile_for_cuda(program)


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

    split_rows(batch, hidden, run_rows)


@functools.cache
def _cpu_kernel(hidden: int, dtype: torch.dtype) -> Callable[..., int]:
    program = cpu.rmsnorm(hidden, _supported(hidden, dtype))
    function = compile_for_cpu(program)
    function.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_float, ctypes.c_void_p, ctypes.c_int32]
    return function


def _supported(hidden: int, dtype: torch.dtype) -> str:
    if dtype not in DTYPES or hidden % 128:
        raise ValueError(f"needs float16, bfloat16 or float32 and hidden a multiple of 128, not {dtype} and {hidden}")
    return DTYPES[dtype]
