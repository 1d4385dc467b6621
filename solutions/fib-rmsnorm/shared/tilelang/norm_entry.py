"""Entry point of the norms in TileLang: picks the program of a form, compiles it once, launches it."""

import ctypes
import functools
from collections.abc import Callable

import torch

from . import norm_cpu, norm_gpu
from .compiling import compile_for_cpu, compile_for_cuda
from .norm_form import NormForm
from .row_plan import Launch, plan
from .row_threads import split_rows

DTYPES = {torch.float16: "float16", torch.bfloat16: "bfloat16", torch.float32: "float32"}


def run_norm(
    form: NormForm,
    rows: tuple[torch.Tensor, ...],
    columns: tuple[torch.Tensor, ...],
    eps: float,
    outputs: tuple[torch.Tensor, ...],
) -> None:
    """Normalize rows of x, (batch, hidden), as the form says.

    Rows are x and the residual, columns the weight and the bias, outputs out and new_residual, without those that the
    form does not name. All have the dtype of x, but the columns may be float32.
    """
    x = rows[0]
    batch, hidden = x.shape
    if batch == 0:
        return
    column_dtype = columns[0].dtype if columns else x.dtype
    if x.is_cuda:
        address = 0
        for tensor in (*rows, *columns, *outputs):
            address |= tensor.data_ptr()
        if address % 16:
            raise ValueError("all tensors must be aligned to 16 bytes")
        kernel = _cuda_kernel(form, hidden, x.dtype, column_dtype, plan(batch, hidden, x.itemsize))
        kernel(*rows, *columns, eps, *outputs)
    else:
        _check(x, (*rows, *outputs), columns)
        _run_on_cpu(form, rows, columns, eps, outputs)


@functools.cache
def _cuda_kernel(
    form: NormForm, hidden: int, dtype: torch.dtype, column_dtype: torch.dtype, launch: Launch
) -> Callable[..., None]:
    return compile_for_cuda(norm_gpu.norm(form, hidden, *_names(hidden, dtype, column_dtype), launch))


def _check(x: torch.Tensor, like_x: tuple[torch.Tensor, ...], columns: tuple[torch.Tensor, ...]) -> None:
    """Where the compiled function takes addresses."""
    if any(tensor.shape != x.shape or tensor.dtype != x.dtype for tensor in like_x):
        raise ValueError("the residual and all outputs must have the shape and the dtype of x")
    if any(tensor.shape != x.shape[1:] or tensor.dtype != columns[0].dtype for tensor in columns):
        raise ValueError("weight and bias must have the columns of x and one dtype")
    if not all(tensor.is_contiguous() for tensor in (*like_x, *columns)):
        raise ValueError("all tensors must be contiguous")


def _run_on_cpu(form, rows, columns, eps, outputs) -> None:
    x = rows[0]
    batch, hidden = x.shape
    kernel = _cpu_kernel(form, hidden, x.dtype, columns[0].dtype if columns else x.dtype)
    row_pointers = [tensor.data_ptr() for tensor in rows]
    column_pointers = [tensor.data_ptr() for tensor in columns]
    output_pointers = [tensor.data_ptr() for tensor in outputs]
    row_bytes = hidden * x.itemsize

    def run_rows(first: int, end: int) -> None:
        offset = first * row_bytes
        kernel(
            *(pointer + offset for pointer in row_pointers),
            *column_pointers,
            eps,
            *(pointer + offset for pointer in output_pointers),
            end - first,
        )

    split_rows(batch, hidden, run_rows)


@functools.cache
def _cpu_kernel(form: NormForm, hidden: int, dtype: torch.dtype, column_dtype: torch.dtype) -> Callable[..., int]:
    function = compile_for_cpu(norm_cpu.norm(form, hidden, *_names(hidden, dtype, column_dtype)))
    inputs = [ctypes.c_void_p] * (1 + form.adds_residual + form.has_weight + form.has_bias)
    outputs = [ctypes.c_void_p] * (1 + form.adds_residual)
    function.argtypes = [*inputs, ctypes.c_float, *outputs, ctypes.c_int32]
    return function


def _names(hidden: int, dtype: torch.dtype, column_dtype: torch.dtype) -> tuple[str, str]:
    if dtype not in DTYPES or hidden % 128:
        raise ValueError(f"needs float16, bfloat16 or float32 and hidden a multiple of 128, not {dtype} and {hidden}")
    if column_dtype not in (dtype, torch.float32):
        raise ValueError(f"needs weight and bias of {dtype} or float32, not {column_dtype}")
    return DTYPES[dtype], DTYPES[column_dtype]
