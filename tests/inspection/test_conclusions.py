"""What `explain` concludes from compiled code, of kernels with known faults and of kernels without them."""

from __future__ import annotations

import platform
import shutil
import subprocess

import pytest

from fib_rmsnorm.building.native import find_cuda_home
from fib_rmsnorm.inspection.conclusions import conclude
from fib_rmsnorm.inspection.facts import ExplainedLaunch, Explanation, Kernel, Traffic, Work
from fib_rmsnorm.inspection.host_conclusions import conclude_functions
from fib_rmsnorm.inspection.machine_code.disassembly import find_cuobjdump, read_kernels
from fib_rmsnorm.inspection.machine_code.host_code import read_functions
from fib_rmsnorm.machine.gpu_models import find_architecture
from fib_rmsnorm.machine.occupancy import occupancy

KERNELS = """\
#include <cuda_fp16.h>
extern "C" __global__ void naive(const __half* x, const __half* weight, __half* out, int cols) {
  __shared__ float part[256];
  const __half* row = x + size_t(blockIdx.x) * cols;
  float sum = 0;
  #pragma unroll 1
  for (int col = threadIdx.x; col < cols; col += blockDim.x) sum += __half2float(row[col]) * __half2float(row[col]);
  part[threadIdx.x] = sum;
  __syncthreads();
  #pragma unroll 1
  for (int step = 128; step > 0; step /= 2) {
    if (threadIdx.x < step) part[threadIdx.x] += part[threadIdx.x + step];
    __syncthreads();
  }
  const float rms = sqrtf(part[0] / cols + 1e-6);
  #pragma unroll 1
  for (int col = threadIdx.x; col < cols; col += blockDim.x)
    out[size_t(blockIdx.x) * cols + col] = __float2half(__half2float(row[col]) / rms * __half2float(weight[col]));
}
extern "C" __global__ void wide(const uint4* x, uint4* out) {
  const uint4 first = x[threadIdx.x], second = x[threadIdx.x + 256];
  out[threadIdx.x] = make_uint4(first.x ^ second.x, first.y, first.z, second.w);
}
"""


def explanation_of(kernels, launches=(), functions=(), work=()) -> Explanation:
    return Explanation(
        solution="mine", definition="rmsnorm_d4096", language="cuda", arch="sm_90", chip="H200", multiprocessors=132,
        kernels=kernels, launches=launches, functions=functions, work=work, conclusions=(), notes=(),
    )  # fmt: skip


def findings_of(explanation: Explanation) -> list[str]:
    return [each.finding for each in conclude(explanation, frozenset())]


def make_kernel(code=None, *, registers=32, spill_bytes=0, shared_bytes=0) -> Kernel:
    return Kernel(
        kernel="rows", arch="sm_90", registers=registers, spill_bytes=spill_bytes, shared_bytes=shared_bytes, code=code
    )


@pytest.fixture(scope="module")
def codes(tmp_path_factory):
    home = find_cuda_home()
    if home is None or find_cuobjdump() is None:
        pytest.skip("needs nvcc and cuobjdump")
    folder = tmp_path_factory.mktemp("conclusions")
    (folder / "k.cu").write_text(KERNELS)
    command = [home / "bin" / "nvcc", "-arch=sm_90", "-cubin", "k.cu", "-o", "k.cubin"]
    subprocess.run(command, cwd=folder, check=True, capture_output=True)
    return {kernel.kernel: kernel.code for kernel in read_kernels(folder / "k.cubin", "sm_90")}


def test_what_slows_a_naive_kernel_is_told_with_its_number(codes):
    found = "\n".join(findings_of(explanation_of([make_kernel(codes["naive"])])))
    assert "2-byte loads and stores: 8 times the requests of 16-byte ones" in found
    assert "2 loops with 2 to 4 bytes of loads per thread and pass" in found
    assert "1 IEEE division in a loop" in found
    assert "double-precision instruction" in found
    assert "a loop with a barrier" in found


def test_nothing_is_said_of_a_kernel_without_these_faults(codes):
    assert findings_of(explanation_of([make_kernel(codes["wide"])])) == []


def make_launch(kernel, *, blocks, threads=256, batch=4096, load_sectors=512.0) -> ExplainedLaunch:
    fits = occupancy(find_architecture("sm_90"), threads, kernel.registers, kernel.shared_bytes)
    traffic = Traffic(
        load_requests_per_row=32,
        load_sectors_per_row=load_sectors,
        store_requests_per_row=16,
        store_sectors_per_row=256,
    )
    return ExplainedLaunch(
        kernel_number=0, grid=(blocks, 1, 1), block=(threads, 1, 1), axes={"batch": batch}, kernel="rows",
        occupancy=fits, waves=blocks / (fits.blocks * 132) if fits.blocks else None, traffic=traffic,
    )  # fmt: skip


WORK = Work(
    axes={"batch": 4096}, flops=1, bytes_moved=1, flops_per_byte=1.0, least_sectors_per_row=512,
    input_sectors_per_row=512,
)  # fmt: skip


@pytest.mark.parametrize(
    ("resources", "launch", "said"),
    [
        ({"spill_bytes": 48}, {"blocks": 13200}, "48 bytes of local memory per thread"),
        ({"registers": 168}, {"blocks": 13200}, "occupancy 12%: 168"),
        ({"shared_bytes": 100_000}, {"blocks": 13200}, "100000 bytes of shared memory per block"),
        ({"registers": 128}, {"blocks": 13200, "threads": 1024}, "no block fits on a multiprocessor"),
        ({}, {"blocks": 8, "batch": 8}, "at batch=8, blocks on only 8 of 132 multiprocessors"),
        ({}, {"blocks": 1100}, "1.04 waves at batch=4096: the last one fills 4% of the device"),
        ({}, {"blocks": 13200, "load_sectors": 768.0}, "768 sectors are loaded for each row, 1.5 times those"),
        ({}, {"blocks": 1056}, None),
        ({"registers": 64}, {"blocks": 13200}, None),
    ],
)  # fmt: skip
def test_what_follows_from_resources_and_launches(resources, launch, said):
    kernel = make_kernel(**resources)
    found = findings_of(explanation_of([kernel], [make_launch(kernel, **launch)], work=[WORK]))
    if said is None:
        assert found == []
    else:
        assert len(found) == 1
        assert all(word in found[0] for word in said.split(": ")), found


@pytest.mark.parametrize("launch", [{"blocks": 8}, {"blocks": 1100}, {"blocks": 13200, "load_sectors": 768.0}])
def test_advice_fits_operators_without_rows_too(launch):
    kernel = make_kernel()
    explanation = explanation_of([kernel], [make_launch(kernel, **launch)], work=[WORK])
    (conclusion,) = conclude(explanation, frozenset())
    assert "row" not in conclusion.advice


HOST = """\
#include <cmath>
#include <cstdint>
void halves(const _Float16* x, float scale, _Float16* out, int64_t cols) {
  for (int64_t col = 0; col < cols; ++col) out[col] = static_cast<_Float16>(static_cast<float>(x[col]) / scale);
}
float sum(const float* __restrict x, int64_t cols) {
  float total = 0;
  for (int64_t col = 0; col < cols; ++col) total += x[col] * x[col];
  return total;
}
float sum_in_any_order(const float* __restrict x, int64_t cols) {
  float total = 0;
#pragma omp simd reduction(+ : total)
  for (int64_t col = 0; col < cols; ++col) total += x[col] * x[col];
  return total;
}
void scale(const float* __restrict x, float rstd, float* __restrict out, int64_t cols) {
  for (int64_t col = 0; col < cols; ++col) out[col] = x[col] * rstd;
}
void shift(const float* __restrict x, float rstd, float bias, float* __restrict out, int64_t cols) {
  for (int64_t col = 0; col < cols; ++col) out[col] = x[col] * rstd + bias;
}
void roots(const float* means, float eps, float* out, int64_t rows) {
  for (int64_t row = 0; row < rows; ++row) out[row] = std::tanh(means[row] + eps);
}
"""


VERSIONS = """\
#include <cmath>
#include <cstdint>
#define VERSION(name)                                                                     \\
  namespace name {                                                                        \\
  template <class Number> struct Kind {};                                                 \\
  template <class A, class B> __attribute__((noinline)) double last(A a, B b) {           \\
    return a > 1 ? a * b + 0.5 : std::sqrt(a);                                            \\
  }                                                                                       \\
  template <class Kind, class Number> __attribute__((noinline))                           \\
  double rows(const Number* x, const Number* y, int64_t cols) {                           \\
    double total = 0;                                                                     \\
    for (int64_t col = 0; col < cols; ++col) total += last<Number, double>(x[col], y[col]); \\
    return total;                                                                         \\
  }                                                                                       \\
  template double rows<Kind<float>, float>(const float*, const float*, int64_t);          \\
  }
VERSION(avx2)
VERSION(portable)
"""


# Rows of three types in one function: g++ puts `call sqrtf`, for negative numbers, between or behind their loops.
ROWS = """\
#include <cmath>
#include <cstdint>
#include <stdexcept>
template <class Number> void rows(const Number* x, float eps, Number* out, int64_t rows, int64_t cols) {
  for (int64_t row = 0; row < rows; ++row) {
    double total = 0;
    for (int64_t col = 0; col < cols; ++col) total += double(x[row * cols + col]) * x[row * cols + col];
    const float rstd = 1 / std::sqrt(static_cast<float>(total / cols) + eps);
    for (int64_t col = 0; col < cols; ++col) out[row * cols + col] = x[row * cols + col] * rstd;
  }
}
void run(const void* x, int kind, float eps, void* out, int64_t count, int64_t cols) {
  if (kind == 0) return rows(static_cast<const float*>(x), eps, static_cast<float*>(out), count, cols);
  if (kind == 1) return rows(static_cast<const int*>(x), eps, static_cast<int*>(out), count, cols);
  if (kind == 2) return rows(static_cast<const int16_t*>(x), eps, static_cast<int16_t*>(out), count, cols);
  throw std::runtime_error("kind");
}
"""


@pytest.fixture(scope="module")
def build(tmp_path_factory):
    if platform.machine() != "x86_64" or not shutil.which("g++") or not shutil.which("objdump"):
        pytest.skip("needs an x86 machine with g++ and objdump")
    folder = tmp_path_factory.mktemp("host")

    def run(*flags: str, source: str = HOST) -> dict[str, str]:
        """What is said of each function, built with these flags for a processor with AVX2."""
        (folder / "h.cpp").write_text(source)
        command = ["g++", *flags, "-shared", "-fPIC", "h.cpp", "-o", "h.so"]
        built = subprocess.run(command, cwd=folder, check=False, capture_output=True, text=True)
        if "_Float16" in built.stderr:
            pytest.skip("needs a g++ that knows _Float16")
        assert built.returncode == 0, built.stderr
        functions = read_functions(folder / "h.so")
        said = dict.fromkeys((function.name for function in functions), "")
        for each in conclude_functions(functions, frozenset({"avx2", "fma"})):
            said[each.about.partition(" and ")[0]] += f"{each.finding}; {each.advice}\n"
        return said

    return run


def test_loops_without_vectors_and_their_calls(build):
    said = build("-O2", "-fno-tree-vectorize")
    assert "1 of 1 loops computes one number at a time (no vector instructions)" in said["halves"]
    assert "its loops call __extendhfsf2, __truncsfhf2 for each number; convert 8 halves at once" in said["halves"]
    assert "1 instruction to divide or take roots in its loops" in said["halves"]


def test_vectors_that_are_narrower_than_the_processors(build):
    said = build("-O3", "-msse2")
    assert "16-byte vectors (SSE2) where this processor has 32-byte ones (AVX2)" in said["scale"]
    assert "a loop computes mostly one number at a time: 4 scalar operations for 1 vector operation" in said["sum"]


def test_what_a_loop_calls_and_what_it_does_not_fuse(build):
    said = build("-O3", "-mavx2")
    assert "its loops call tanhf at each pass; inline it, or move it out of the loop" in said["roots"]
    assert "1 multiplication and 1 addition apart in a loop, where this processor has fused ones" in said["shift"]


@pytest.mark.parametrize("flags", [("-O2", "-fno-tree-vectorize"), ("-O3", "-mavx2", "-mfma")])
def test_what_rows_and_rare_cases_call_or_divide_is_not_of_the_inner_loops(build, flags):
    said = build(*flags, source=ROWS)["run"]
    assert "no vector instructions" in said
    assert "its loops call" not in said and "to divide or take roots" not in said


def test_a_sum_is_in_any_order_by_the_flags_that_the_advice_names(build):
    said = build("-O3", "-mavx2", "-mfma")["sum"]  # told of both sums at once
    assert "a loop computes mostly one number at a time" in said and "flags must add -fopenmp-simd" in said
    tuned = build("-O3", "-mavx2", "-mfma", "-fopenmp-simd", "-mtune=znver3")["sum_in_any_order"]
    assert "apart in a loop" in tuned and "-mtune=generic" in tuned
    assert build("-O3", "-mavx2", "-mfma", "-fopenmp-simd", "-mtune=generic")["sum_in_any_order"] == ""


def test_only_of_the_version_for_this_processor_which_is_called_by_its_name(build):
    said = build("-O3", "-mavx2", source=VERSIONS)
    assert "its loops call avx2::last at each pass" in said["avx2::rows<avx2::Kind<float>, float>"]
    assert said["portable::rows<portable::Kind<float>, float>"] == ""


def test_nothing_is_said_of_a_loop_with_wide_vectors(build):
    assert build("-O3", "-mavx2", "-mfma", "-ffast-math")["scale"] == ""
