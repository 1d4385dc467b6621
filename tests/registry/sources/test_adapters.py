"""Entry points as people have them: taken as they are, or called in the way that their author meant."""

from pathlib import Path

import pytest
import torch

from fib_rmsnorm.building import build_entry
from fib_rmsnorm.errors import InputError
from fib_rmsnorm.operators import RmsNorm
from fib_rmsnorm.registry import Registry
from fib_rmsnorm.registry.sources.draft import draft_calls, draft_solution
from fib_rmsnorm.registry.sources.kernel_file import KernelFile
from fib_rmsnorm.schema import Solution
from support.paths import REPOSITORY, write

DEFINITION = RmsNorm().define(128, "float32")
FUNCTION = """\
import torch


def norm(x, weight, eps):
    rstd = torch.rsqrt(x.float().pow(2).mean(dim=-1, keepdim=True) + eps)
    return (x.float() * rstd * weight.float()).to(x.dtype)
"""
FORWARD = """

class Norm(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight, eps):
        ctx.save_for_backward(x, weight)
        return norm(x, weight, eps)
"""
TAKEN = {
    "another function": FUNCTION + "run = norm\n",
    "compiled": FUNCTION + "run = torch.compile(norm, backend='eager')\n",
    "compiled under its own name": FUNCTION.replace("norm(", "run(") + "run = torch.compile(run, backend='eager')\n",
    "autograd function": FUNCTION + FORWARD + "\n\nrun = Norm.apply\n",
    "lambda": FUNCTION + "run = lambda x, weight, eps: norm(x, weight, eps)\n",
    "made at run time": FUNCTION + "run = dict(f=norm)['f']\n",
    "below an if": FUNCTION + "if torch.cuda.is_available():\n    run = norm\nelse:\n    run = norm\n",
    "other names": FUNCTION.replace("norm(x, weight, eps)", "run(input, w, epsilon)")
    .replace("x.", "input.")
    .replace("weight.", "w.")
    .replace("+ eps", "+ epsilon"),
}
ADAPTED = {
    "sizes": (
        FUNCTION + "\n\ndef launch(X, W, Y, M, N, eps):\n    assert (M, N) == X.shape\n    Y.copy_(norm(X, W, eps))\n",
        "launch(x, weight, out, batch, hidden, eps)",
    ),
    "reference beside a kernel": (
        FUNCTION + "\n\ndef rms_norm(x, weight, eps):\n    return _kernels[0](x, weight, eps)\n\n\n_kernels = [norm]\n",
        "rms_norm(x, weight, eps)",
    ),
}


def draft(path: Path, source: str, call: str | None = None) -> Solution:
    return draft_solution(Registry(REPOSITORY), KernelFile(file=write(path, source), call=call), DEFINITION)


def assert_right(solution: Solution, cache: Path) -> None:
    """Whether it computes the norm."""
    entry, eps = build_entry(solution, "cpu", cache), 1e-2
    x, weight = torch.randn(3, 128), torch.randn(128)
    expected = torch.nn.functional.rms_norm(x, (128,), weight, eps)
    out = torch.full_like(x, float("nan"))
    if solution.spec.destination_passing_style:
        entry(x, weight, eps, out)
    else:
        out = entry(x, weight, eps)
    torch.testing.assert_close(out, expected)


@pytest.mark.parametrize("name", TAKEN)
def test_what_is_callable_at_run_time_is_taken(name, tmp_path):
    solution = draft(tmp_path / "kernel.py", TAKEN[name])
    assert (solution.spec.destination_passing_style, solution.description) == (False, None)
    assert_right(solution, tmp_path)


@pytest.mark.parametrize("name", ADAPTED)
def test_the_call_that_is_meant_is_found(name, tmp_path):
    source, call = ADAPTED[name]
    solutions = draft_calls(Registry(REPOSITORY), KernelFile(write(tmp_path / "05-norm.py", source)), DEFINITION)
    assert call in [each.text for each in solutions]
    for found in (next(iter(solutions.values())), draft(tmp_path / "05-norm.py", source, call)):
        assert_right(found, tmp_path)


NEW = "or start from a kernel of: fib-rmsnorm new"
NAMELESS = 'M(m) { m.def("a", &a); m.def("b", &b); }\n'


@pytest.mark.parametrize(
    ("file", "source", "call", "said"),
    [
        ("kernel.py", "", None, "kernel.py: is empty"),
        ("kernel.py", "X = 1\n", None, f"no function 'run'; define run(x, weight, eps), {NEW}"),
        ("kernel.py", "def run(): pass\n", None, "run() cannot be called as run(x, weight, eps) for rmsnorm_d128_fp32"),
        ("kernel.py", "class Net:\n    def forward(self): pass\n", None, "define run(x, weight, eps), or give"),
        ("kernel.py", FUNCTION, "mine(x)", "--call 'mine(x)': kernel.py has no 'mine' (available: norm)"),
        ("kernel.py", FUNCTION, "norm(x", "--call 'norm(x': '(' was never closed"),
        ("kernel.cu", "__global__ void k(float* x) {}\n", None, "a __global__ function cannot be the entry point"),
        ("kernel.cu", "// TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);\n", None, "does not export 'run': add"),
        ("kernel.cu", NAMELESS, None, "does not export 'run'; choose one with --call: a, b"),
    ],
)
def test_what_nothing_can_call_is_reported_in_one_line(file, source, call, said, tmp_path):
    with pytest.raises(InputError) as refused:
        draft(tmp_path / file, source, call)
    assert said in str(refused.value) and not refused.value.paste


VIEWS = """\
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>

void norm(tvm::ffi::TensorView out, tvm::ffi::TensorView x, tvm::ffi::TensorView weight, double eps) {}
"""
TENSORS = """\
#include <torch/extension.h>

torch::Tensor norm(const torch::Tensor& input, double eps, torch::Tensor weight) {
  return input * (input.pow(2).mean(-1, true) + eps).rsqrt() * weight;
}
"""
POINTERS = 'extern "C" void solve(const float* input, const float* gamma, float* output, int M, int N, float eps) {}\n'
PYBIND11 = 'PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &norm, "RMSNorm"); }\n'


@pytest.mark.parametrize(
    ("names", "sizes"),
    [
        *[(names, "batch, hidden") for names in ("n, d", "N, D", "M, N", "N, M", "rows, cols", "B, H", "a, b")],
        ("num_tokens, hidden_size", "batch, hidden"),
        ("hidden_size, rows", "hidden, batch"),
    ],
)
def test_two_sizes_never_go_beyond_the_tensors(names, sizes, tmp_path):
    source = POINTERS.replace("M, int N", names.replace(" ", " int "))
    calls = draft_calls(Registry(REPOSITORY), KernelFile(write(tmp_path / "kernel.cpp", source)), DEFINITION)
    assert next(iter(calls)).text == f"solve(x, weight, out, {sizes}, eps)"
    assert all("hidden, hidden" not in call.text for call in calls)


def test_pointers_of_another_dtype_are_refused(tmp_path):
    half = RmsNorm().define(128, "float16")
    with pytest.raises(InputError, match="solve takes float\\*, so it computes in float32"):
        draft_solution(Registry(REPOSITORY), KernelFile(write(tmp_path / "kernel.cpp", POINTERS)), half)


def test_the_only_export_is_the_entry_point(tmp_path):
    in_order = TENSORS.replace("double eps, torch::Tensor weight", "torch::Tensor weight, double eps")
    solution = draft(tmp_path / "kernel.cpp", in_order + PYBIND11)
    assert (solution.spec.entry_point, solution.spec.binding.value) == ("kernel.cpp::forward", "torch")
    assert solution.spec.destination_passing_style is False


def test_an_export_in_another_order_is_called_by_one_that_is_added(tmp_path):
    solution = draft(tmp_path / "kernel.cpp", f"{VIEWS}\nTVM_FFI_DLL_EXPORT_TYPED_FUNC(run, norm);\n")
    assert (solution.spec.entry_point, solution.spec.destination_passing_style) == ("kernel.cpp::called", True)
    assert solution.description == "Called as norm(out, x, weight, eps)"
