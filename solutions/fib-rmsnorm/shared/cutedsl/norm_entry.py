"""Entry point of the norms in CuTe DSL: chooses a launch, compiles the kernel of a form once, calls it."""

import functools

import cutlass
import torch
import tvm_ffi
from cutlass import cute

from .norm_form import NormForm
from .norm_kernel import NormKernel
from .row_launch import VECTOR_BYTES, Launch, choose_launch

DTYPES = {torch.float16: cutlass.Float16, torch.bfloat16: cutlass.BFloat16, torch.float32: cutlass.Float32}


def run_norm(
    form: NormForm,
    x: torch.Tensor,
    residual: torch.Tensor | None,
    weight: torch.Tensor | None,
    bias: torch.Tensor | None,
    eps: float,
    out: torch.Tensor,
    new_residual: torch.Tensor | None = None,
) -> None:
    """Normalize rows of x, (batch, hidden), as the form says; what it lacks is None.

    All tensors have the dtype of x, but weight and bias may be float32.
    """
    batch, hidden = x.shape
    if batch == 0:
        return
    column_dtype = x.dtype if weight is None else weight.dtype
    # What is compiled checks shapes, dtypes, devices and alignment, and finds the stream that is current.
    kernel_for(form, batch, hidden, x.dtype, column_dtype, x.device)(x, residual, weight, bias, eps, out, new_residual)


@functools.lru_cache(maxsize=1024)
def kernel_for(
    form: NormForm,
    batch: int,
    hidden: int,
    dtype: torch.dtype,
    column_dtype: torch.dtype,
    device: torch.device,
):
    if dtype not in DTYPES or hidden % 128:
        raise ValueError(f"needs float16, bfloat16 or float32 and hidden a multiple of 128, not {dtype} and {hidden}")
    if column_dtype not in (dtype, torch.float32):
        raise ValueError(f"needs weight and bias of {dtype} or float32, not {column_dtype}")
    multiprocessors = torch.cuda.get_device_properties(device).multi_processor_count
    kernel = compiled(form, hidden, dtype, column_dtype, choose_launch(batch, hidden, dtype.itemsize, multiprocessors))
    return tvm_ffi.convert(kernel)  # the function within: the object around it would take host time at each call


@functools.cache
def compiled(form: NormForm, hidden: int, dtype: torch.dtype, column_dtype: torch.dtype, launch: Launch):
    """Compile for any batch, to a function that takes torch's tensors, and None for those that the form lacks."""
    element, column_element, batch = DTYPES[dtype], DTYPES[column_dtype], cute.sym_int()

    def tensor(element, shape, order):
        return cute.runtime.make_fake_compact_tensor(element, shape, stride_order=order, assumed_align=VECTOR_BYTES)

    def rows(present):
        return tensor(element, (batch, hidden), (1, 0)) if present else None

    def columns(present):
        return tensor(column_element, (hidden,), (0,)) if present else None

    return cute.compile(
        NormKernel(form, hidden, element, column_element, launch),
        rows(True),
        rows(form.adds_residual),
        columns(form.has_weight),
        columns(form.has_bias),
        cutlass.Float32(0),
        rows(True),
        rows(form.adds_residual),
        cute.runtime.make_fake_stream(use_tvm_ffi_env_stream=True),
        options="--enable-tvm-ffi",
    )
