"""What host code asks the runtime before it launches is answered as the named GPU would."""

from __future__ import annotations

import textwrap

import pytest

from fib_rmsnorm.building.native import find_cuda_home
from fib_rmsnorm.inspection.compile_process import compile_solution
from fib_rmsnorm.inspection.facts import Compile
from fib_rmsnorm.inspection.fake_cuda import call_with_fake_cuda
from fib_rmsnorm.operators import RmsNorm
from fib_rmsnorm.registry import generate_workloads
from fib_rmsnorm.schema import BuildSpec, Solution, SourceFile, SupportedLanguages
from support.command_line import run_python

SOURCE = """\
#include <cuda.h>
#include <cuda_runtime.h>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/error.h>
#include <tvm/ffi/extra/c_env_api.h>
#include <tvm/ffi/extra/cuda/base.h>
#include <tvm/ffi/function.h>

__global__ void persistent(int rows) {
  extern __shared__ float buffer[];
  buffer[threadIdx.x] = rows;
}
__global__ void plain(int rows) {}

void run(tvm::ffi::TensorView x, tvm::ffi::TensorView weight, double eps, tvm::ffi::TensorView out) {
  const int rows = static_cast<int>(x.size(0));
  cudaDeviceProp properties;
  TVM_FFI_CHECK_CUDA_ERROR(cudaGetDeviceProperties(&properties, 0));
  int capability = 0, blocks = 0, most = 0;
  TVM_FFI_CHECK_CUDA_ERROR(cudaDeviceGetAttribute(&capability, cudaDevAttrComputeCapabilityMajor, 0));
  TVM_FFI_CHECK_CUDA_ERROR(cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin, 0));
  if (capability != properties.major || most != static_cast<int>(properties.sharedMemPerBlockOptin))
    TVM_FFI_THROW(RuntimeError) << "the runtime contradicts itself";
  const size_t shared = 64 << 10;
  TVM_FFI_CHECK_CUDA_ERROR(
      cudaFuncSetAttribute(persistent, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(shared)));
  TVM_FFI_CHECK_CUDA_ERROR(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, persistent, 256, shared));

  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(blocks * properties.multiProcessorCount);
  config.blockDim = dim3(32, 8);
  config.dynamicSmemBytes = shared;
  config.stream = static_cast<cudaStream_t>(TVMFFIEnvGetStream(x.device().device_type, x.device().device_id));
  cudaLaunchAttribute attribute;
  attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attribute.val.programmaticStreamSerializationAllowed = 1;
  config.attrs = &attribute;
  config.numAttrs = 1;
  TVM_FFI_CHECK_CUDA_ERROR(cudaLaunchKernelEx(&config, persistent, rows));
  plain<<<rows, 128, 0, config.stream>>>(rows);
  TVM_FFI_CHECK_CUDA_ERROR(cudaGetLastError());

  void* entry_point = nullptr;
  cudaDriverEntryPointQueryResult found;
  TVM_FFI_CHECK_CUDA_ERROR(
      cudaGetDriverEntryPointByVersion("cuLaunchKernel", &entry_point, 12000, cudaEnableDefault, &found));
  const auto launch = reinterpret_cast<decltype(&cuLaunchKernel)>(entry_point);
  cudaKernel_t kernel;
  TVM_FFI_CHECK_CUDA_ERROR(cudaGetKernel(&kernel, reinterpret_cast<const void*>(plain)));
  int given = rows;
  void* arguments[] = {&given};
  if (launch(reinterpret_cast<CUfunction>(kernel), rows, 2, 1, 64, 1, 1, 16, config.stream, arguments, nullptr))
    TVM_FFI_THROW(RuntimeError) << "the driver does not launch";
  cudaFunction_t function;
  TVM_FFI_CHECK_CUDA_ERROR(cudaGetFuncBySymbol(&function, reinterpret_cast<const void*>(plain)));
  if (launch(function, rows, 3, 1, 32, 1, 1, 0, config.stream, arguments, nullptr))
    TVM_FFI_THROW(RuntimeError) << "the driver does not launch a function";
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
"""


@pytest.mark.parametrize(
    ("arch", "blocks"), [pytest.param("sm_80", 2 * 108, marks=pytest.mark.compile), ("sm_90", 3 * 132)]
)
@pytest.mark.skipif(find_cuda_home() is None, reason="needs nvcc")
@pytest.mark.compile
def test_launches_that_follow_the_device(arch, blocks, tmp_path):
    """64 KiB of shared memory fit twice on an A100's multiprocessor and three times on an H100's."""
    definition = RmsNorm().define(128)
    solution = Solution(
        name="persistent",
        definition=definition.name,
        author="tester",
        spec=BuildSpec(
            language=SupportedLanguages.CUDA, target_hardware=["cuda"], entry_point="kernel.cu::run",
            destination_passing_style=True,
        ),
        sources=[SourceFile(path="kernel.cu", content=SOURCE)],
    )  # fmt: skip
    workloads = generate_workloads(definition, [8, 300])
    compiled = compile_solution(
        Compile(definition=definition, solution=solution, workloads=workloads, arch=arch, cache=tmp_path)
    )
    assert compiled.notes == ()
    names = [kernel.kernel for kernel in compiled.kernels]
    told = [
        [(names[one.kernel_number], one.grid, one.block, one.dynamic_shared_bytes) for one in each]
        for each in compiled.launches
    ]
    assert told == [
        [
            ("persistent", (blocks, 1, 1), (32, 8, 1), 64 << 10),
            ("plain", (rows, 1, 1), (128, 1, 1), 0),
            ("plain", (rows, 2, 1), (64, 1, 1), 16),  # by the driver, a kernel
            ("plain", (rows, 3, 1), (32, 1, 1), 0),  # and a function
        ]
        for rows in (8, 300)
    ]


ENTRIES = {
    "triton": """
        import triton, triton.language as tl

        @triton.jit
        def double(x_ptr, out_ptr, cols: tl.constexpr):
            at = tl.program_id(0) * cols + tl.arange(0, cols)
            tl.store(out_ptr + at, 2 * tl.load(x_ptr + at))

        def entry(x, out):
            assert x.is_cuda and torch.cuda.get_device_capability(x.device) == (8, 0)
            with torch.cuda.device_of(x):
                double[(x.shape[0],)](x, out, x.shape[1])
    """,
    "tilelang": """
        import tilelang, tilelang.language as T

        @tilelang.jit(out_idx=[-1])
        def double(cols):
            batch = T.dynamic("batch")

            @T.prim_func
            def main(x: T.Tensor((batch, cols), "float16"), out: T.Tensor((batch, cols), "float16")):
                with T.Kernel(batch, threads=128) as row:
                    for c in T.Parallel(cols):
                        out[row, c] = x[row, c] + x[row, c]

            return main

        def entry(x, out):
            assert x.is_cuda
            result = double(x.shape[1])(x)
            assert result.shape == x.shape and result.is_cuda
    """,
}
SESSIONS = {"triton": "TritonSession", "tilelang": "TileLangSession"}
CHECK = """
x = torch.empty(4, 1024, dtype=torch.float16)
session = Session("sm_80")
[launch] = session.call(entry, (x, x))
assert (launch.kernel_number, launch.grid, launch.block) == (0, (4, 1, 1), (128, 1, 1)), launch
[again] = session.call(entry, (torch.empty(6, 1024, dtype=torch.float16),) * 2)
assert (again.kernel_number, again.grid) == (0, (6, 1, 1)), again
[kernel] = session.kernels
assert kernel.arch == "sm_80" and kernel.code, kernel
assert not torch.cuda.is_initialized()
print(kernel.kernel, kernel.registers, kernel.spill_bytes, kernel.shared_bytes)
"""


@pytest.mark.compile
@pytest.mark.parametrize("language", ENTRIES)
def test_kernels_are_compiled_from_the_entry_point(language: str, tmp_path) -> None:
    pytest.importorskip(language)
    if language == "tilelang" and find_cuda_home() is None:
        pytest.skip("no nvcc")
    module = f"fib_rmsnorm.inspection.{language}_aot"
    header = f"import torch\nfrom {module} import {SESSIONS[language]} as Session\n"
    script = tmp_path / "script.py"  # a file: both languages read the source of their kernels
    script.write_text(header + textwrap.dedent(ENTRIES[language]) + CHECK)
    assert run_python(script).splitlines()[-1].startswith(("double", "main"))  # TileLang logs to stdout


def test_nothing_of_the_pretence_remains() -> None:
    import torch

    before = torch.cuda.is_available()
    seen = []
    call_with_fake_cuda(lambda x: seen.append((x.device.type, torch.cuda.is_available())), [torch.empty(2)], "sm_90")
    assert seen == [("cuda", True)]
    assert torch.cuda.is_available() is before
