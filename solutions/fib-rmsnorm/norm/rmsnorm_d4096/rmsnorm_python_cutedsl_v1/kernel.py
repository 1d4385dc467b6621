"""Entry point of the CuTe DSL RMSNorm: chooses a launch, compiles its kernel once, calls it."""

import functools

import cutlass
import torch
import tvm_ffi
from cutlass import cute

from .gpu import RmsNorm
from .row_launch import VECTOR_BYTES, Launch, choose_launch

DTYPES = {torch.float16: cutlass.Float16, torch.bfloat16: cutlass.BFloat16, torch.float32: cutlass.Float32}


def run(x: torch.Tensor, weight: torch.Tensor, eps: float, out: torch.Tensor) -> None:
    """Write x * rsqrt(mean(x^2) + eps) * weight into out, row by row."""
    batch, hidden = x.shape
    if batch == 0:
        return
    # What is compiled checks shapes, dtypes, devices and alignment, and finds the stream that is current.
    kernel_for(batch, hidden, x.dtype, x.device)(x, weight, eps, out)


@functools.lru_cache(maxsize=1024)
def kernel_for(batch: int, hidden: int, dtype: torch.dtype, device: torch.device):
    if dtype not in DTYPES or hidden % 128:
        raise ValueError(f"needs float16, bfloat16 or float32 and hidden a multiple of 128, not {dtype} and {hidden}")
    multiprocessors = torch.cuda.get_device_properties(device).multi_processor_count
    kernel = compiled(hidden, dtype, choose_launch(batch, hidden, dtype.itemsize, multiprocessors))
    return tvm_ffi.convert(kernel)  # the function within: the object around it would take host time at each call


@functools.cache
def compiled(hidden: int, dtype: torch.dtype, launch: Launch):
    """Compile for any batch, to a function that takes torch's tensors."""
    element, batch = DTYPES[dtype], cute.sym_int()

    def tensor(shape, order):
        return cute.runtime.make_fake_compact_tensor(element, shape, stride_order=order, assumed_align=VECTOR_BYTES)

    return cute.compile(
        RmsNorm(hidden, element, launch),
        tensor((batch, hidden), (1, 0)),
        tensor((hidden,), (0,)),
        cutlass.Float32(0),
        tensor((batch, hidden), (1, 0)),
        cute.runtime.make_fake_stream(use_tvm_ffi_env_stream=True),
        options="--enable-tvm-ffi",
    )
