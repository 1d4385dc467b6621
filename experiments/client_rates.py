"""How many verdicts a second clients get who each wait for theirs, and what many kernels leave behind.

python experiments/client_rates.py triton|cuda|mixed [--clients 8] [--seconds 40] [--kernels 1000]

Needs a CUDA device, and a registry whose main Definition is `rmsnorm_d4096`. Of the mixed kernels some are wrong,
crash, or do not build, and one of 50 is timed.
"""

from __future__ import annotations

import argparse
import os
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import count

import psutil

from fib_rmsnorm import Registry, Service
from fib_rmsnorm.registry.sources.kernel_file import text_as_file

TRITON = """\
import triton
import triton.language as tl

@triton.jit
def norm_row(x_ptr, weight_ptr, out_ptr, eps, hidden, BLOCK: tl.constexpr):
    cols, row = tl.arange(0, BLOCK), tl.program_id(0).to(tl.int64)
    mask = cols < hidden
    x = tl.load(x_ptr + row * hidden + cols, mask=mask, other=0.0).to(tl.float32)
    weight = tl.load(weight_ptr + cols, mask=mask, other=0.0).to(tl.float32)
    rstd = tl.rsqrt(tl.sum(x * x, axis=0) / hidden + eps) * ({number} / {number}.0)
    tl.store(out_ptr + row * hidden + cols, (x * rstd * weight).to(out_ptr.dtype.element_ty), mask=mask)

def run(x, weight, eps, out):
    hidden = x.shape[1]
    norm_row[(x.shape[0],)](x, weight, out, eps, hidden, BLOCK=triton.next_power_of_2(hidden), num_warps=8)
"""
CUDA = """\
#include <cuda_fp16.h>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/extra/c_env_api.h>
#include <tvm/ffi/function.h>

__global__ void norm(const __half* x, const __half* weight, float eps, __half* out, int hidden) {
  __shared__ float sums[32];
  long start = blockIdx.x * (long)hidden;
  float sum = 0;
  for (int col = threadIdx.x; col < hidden; col += blockDim.x) sum += powf(__half2float(x[start + col]), 2);
  for (int lanes = 16; lanes; lanes /= 2) sum += __shfl_xor_sync(~0u, sum, lanes);
  if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32] = sum;
  __syncthreads();
  sum = 0;
  for (int warp = 0; warp < blockDim.x / 32; ++warp) sum += sums[warp];
  float rstd = rsqrtf(sum / hidden + eps);
  for (int col = threadIdx.x; col < hidden; col += blockDim.x)
    out[start + col] = __float2half(__half2float(x[start + col]) * rstd * __half2float(weight[col]));
}

void run(tvm::ffi::TensorView x, tvm::ffi::TensorView weight, double eps, tvm::ffi::TensorView out) {
  auto stream = static_cast<cudaStream_t>(TVMFFIEnvGetStream(kDLCUDA, x.device().device_id));
  norm<<<x.size(0), 256, 0, stream>>>((const __half*)x.data_ptr(), (const __half*)weight.data_ptr(), eps,
                                      (__half*)out.data_ptr(), x.size(1));
}
TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);  // {number}
"""
PYTHON = """\
import torch

def run(x, weight, eps):
    {first}
    x_fp32 = x.float()
    rstd = torch.rsqrt(x_fp32.pow(2).mean(-1, keepdim=True) + eps)
    return (x_fp32 * rstd * weight.float()).to(x.dtype)  # {number}
"""
MIXED = [
    ("triton", TRITON, "PASSED"),
    ("triton", TRITON.replace(" + eps)", ")"), "INCORRECT_NUMERICAL"),
    ("triton", TRITON.replace("x_ptr + row", "x_ptr + (1 << 40) + row"), "RUNTIME_ERROR"),
    ("python", PYTHON.replace("{first}", "pass"), "PASSED"),
    ("python", PYTHON.replace("{first}", "raise ValueError"), "RUNTIME_ERROR"),
    ("python", PYTHON.replace("{first}", "__import__('ctypes').string_at(0)"), "RUNTIME_ERROR"),
    ("python", PYTHON.replace("{first}", "__import__('os')._exit(0)"), "RUNTIME_ERROR"),
    ("python", "def run(x, weight, eps:  # {number}\n", "COMPILE_ERROR"),
]
KERNELS = {"triton": MIXED[:1], "cuda": [("cuda", CUDA, "PASSED")], "mixed": MIXED}


def run_client(service: Service, kinds: list[tuple[str, str, str]], numbers: range, end: float, client: int) -> Counter:
    """Send kernels one after the other until the time is over; count their statuses, and those that are wrong."""
    found: Counter[str] = Counter()
    for number in numbers:
        if time.monotonic() > end:
            break
        language, source, status = kinds[number % len(kinds)]
        timed = len(kinds) > 1 and number % 50 == 0
        with text_as_file(source.replace("{number}", str(number)), language) as file:
            version = service.submit(f"{client}", file, timed=timed, batch_sizes=(1, 512)).wait()
        found[version.status] += 1
        found["not as expected"] += version.status != status
    return found


def count_left() -> dict[str, int]:
    """The processes, threads and open files of this program."""
    processes = len(psutil.Process().children(recursive=True))
    return {"processes": processes, "threads": threading.active_count(), "files": len(os.listdir("/proc/self/fd"))}  # noqa: PTH208


def main() -> None:
    """Warm up with three kernels of each client, and count the verdicts on the others."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kind", choices=KERNELS)
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=40)
    parser.add_argument("--kernels", type=int, default=100_000)
    options = parser.parse_args()
    first = 3 * options.clients
    with (
        Service(Registry.find(), device="cuda:0") as service,
        ThreadPoolExecutor(options.clients) as pool,
    ):
        for start, stop in (1, first), (first, first + options.kernels):
            begun = time.monotonic()
            each = [range(start + client, stop, options.clients) for client in range(options.clients)]
            work = partial(run_client, service, KERNELS[options.kind])
            found = sum(pool.map(work, each, [begun + options.seconds] * options.clients, count()), Counter())
            seconds, verdicts = time.monotonic() - begun, found.total() - found["not as expected"]
            print(
                f"{verdicts} verdicts in {seconds:.1f} s, {verdicts / seconds:.2f} a second; {dict(found)}", flush=True
            )
            print(count_left(), flush=True)


if __name__ == "__main__":
    main()
