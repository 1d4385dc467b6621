"""Entry point of the CuTe DSL RMSNorm: chooses a launch, compiles its kernel once, calls it."""

import functools

import cutlass
import torch
import tvm_ffi
from cutlass import cute

from .choices import MULTIPROCESSORS, find_choice
from .gpu import VECTOR_BYTES, WARP, Launch, RmsNorm

DTYPES = {torch.float16: cutlass.Float16, torch.bfloat16: cutlass.BFloat16, torch.float32: cutlass.Float32}
MAX_THREADS = 512
# x and weight then take 64 of the 128 registers that 512 threads can have each.
MAX_VECTORS = 8
FULL_BLOCK = 128


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


def choose_launch(batch: int, hidden: int, itemsize: int, multiprocessors: int) -> Launch:
    """Choose the launch for a batch, as measured where this shape was tuned.

    Elsewhere: few rows leave the device empty, and the time is one row's latency: many threads, little work each.
    Many rows fill it, and the time is throughput: fewer threads per row keep reductions short and more loads in
    flight per thread. In rows per multiprocessor batches compare between devices.
    """
    vectors_per_row = hidden * itemsize // VECTOR_BYTES
    if vectors_per_row > MAX_VECTORS * MAX_THREADS:
        return Launch(MAX_THREADS, rows=1, vectors=0)
    choice = find_choice(max(1, batch * MULTIPROCESSORS // multiprocessors), hidden, itemsize)
    rows_per_sm = batch // multiprocessors
    if choice is not None:
        threads_wanted = choice["threads"]
    else:
        threads_wanted = MAX_THREADS if rows_per_sm < 8 else 128 if rows_per_sm < 64 else 256
    vectors = 1
    while vectors < MAX_VECTORS and vectors * threads_wanted < vectors_per_row:
        vectors *= 2
    threads = round_up_threads(-(-vectors_per_row // vectors))
    rows_wanted = choice["rows"] if choice is not None else (WARP if rows_per_sm < 8 else FULL_BLOCK) // threads
    return Launch(threads, min(max(rows_wanted, 1), MAX_THREADS // threads), vectors)


def round_up_threads(threads: int) -> int:
    return -(-threads // WARP) * WARP if threads > WARP else 1 << (threads - 1).bit_length()


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
