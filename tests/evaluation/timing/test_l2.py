"""Lines that a kernel asked L2 to keep are evicted too, so that a call finds no data of earlier calls."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from statistics import median

import pytest
import torch

from fib_rmsnorm.building.cache import cache_folder
from fib_rmsnorm.building.native import build_native, load_native
from fib_rmsnorm.evaluation.timing import choose_timer
from fib_rmsnorm.schema import BuildSpec, Solution, SourceFile, SupportedLanguages

BLOCKS, THREADS, VECS = 512, 256, 2  # 4 MiB in vectors of 16 bytes
CALLS = 60
READER = r"""
#include <cuda_runtime.h>
#include <tvm/ffi/extra/cuda/base.h>
#include <tvm/ffi/function.h>

constexpr int THREADS = 256, VECS = 2;

template <bool KEEP>
__global__ void reader(const uint4* source, uint4* sink) {
  uint64_t policy;
  asm volatile("createpolicy.fractional.L2::evict_last.b64 %0, 1.0;" : "=l"(policy));
  uint4 all = {};
  for (int i = 0; i < VECS; ++i) {
    const uint4* ptr = source + (blockIdx.x * VECS + i) * THREADS + threadIdx.x;
    uint4 v;
    if constexpr (KEEP) {
      asm volatile("ld.global.L2::cache_hint.v4.u32 {%0, %1, %2, %3}, [%4], %5;"
                   : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "l"(ptr), "l"(policy));
    } else {
      asm volatile("ld.global.v4.u32 {%0, %1, %2, %3}, [%4];"
                   : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "l"(ptr));
    }
    all = {all.x ^ v.x, all.y ^ v.y, all.z ^ v.z, all.w ^ v.w};
  }
  if ((all.x & all.y & all.z & all.w) == 0xffffffffu) *sink = all;
}

void read(int64_t source, int64_t sink, int64_t blocks, int64_t keep, int64_t in_window) {
  cudaLaunchAttribute window{};
  window.id = cudaLaunchAttributeAccessPolicyWindow;
  window.val.accessPolicyWindow.base_ptr = reinterpret_cast<void*>(source);
  window.val.accessPolicyWindow.num_bytes = blocks * THREADS * VECS * sizeof(uint4);
  window.val.accessPolicyWindow.hitRatio = 1.f;
  window.val.accessPolicyWindow.hitProp = cudaAccessPropertyPersisting;
  window.val.accessPolicyWindow.missProp = cudaAccessPropertyStreaming;
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(blocks);
  config.blockDim = dim3(THREADS);
  config.attrs = &window;
  config.numAttrs = in_window ? 1 : 0;
  TVM_FFI_CHECK_CUDA_ERROR(cudaLaunchKernelEx(&config, keep ? reader<true> : reader<false>,
                                              reinterpret_cast<const uint4*>(source), reinterpret_cast<uint4*>(sink)));
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(read, read);
"""


def build_reader() -> Callable[..., None]:
    solution = Solution(
        name="reader",
        definition="read",
        author="tester",
        spec=BuildSpec(language=SupportedLanguages.CUDA, target_hardware=["cuda"], entry_point="reader.cu::read"),
        sources=[SourceFile(path="reader.cu", content=READER)],
    )
    return load_native(build_native(solution, cache_folder()), "read")


@pytest.mark.alone
@pytest.mark.gpu
def test_lines_that_a_kernel_asked_to_keep_are_evicted():
    read, timer = build_reader(), choose_timer("cuda:0")
    source = torch.zeros(BLOCKS * THREADS * VECS * 4, dtype=torch.int32, device="cuda:0")
    sink = torch.zeros(4, dtype=torch.int32, device="cuda:0")

    def time(*, keep=False, in_window=False, cold=True):
        call = partial(read, source.data_ptr(), sink.data_ptr(), BLOCKS, int(keep), int(in_window))
        call()  # the driver may wait for the device to load a kernel, which a held device never lets it do
        samples = timer.measure(lambda _: call, CALLS, cold=cold, budget_s=60)
        return median(sample.span_ms for sample in samples)

    ordinary = time()
    assert time(cold=False) < 0.9 * ordinary  # or nothing would show below
    assert time(keep=True) > 0.97 * ordinary
    assert time(in_window=True) > 0.97 * ordinary
