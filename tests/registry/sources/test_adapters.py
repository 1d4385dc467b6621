"""Entry points as people have them: taken as they are, or answered with lines that work once they are added."""

from __future__ import annotations

import json
import sys
from importlib import util
from pathlib import Path

import pytest
import torch

from fib_rmsnorm.building import build_entry
from fib_rmsnorm.errors import InputError
from fib_rmsnorm.operators import RmsNorm
from fib_rmsnorm.registry import Registry
from fib_rmsnorm.registry.sources.draft import draft_solution
from fib_rmsnorm.schema import Solution
from support.paths import REPOSITORY

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
    "two parameters": (
        FUNCTION.replace("norm", "_norm")
        + "\n\ndef forward(hidden_states, weight):\n    return _norm(hidden_states, weight, 1e-2)\n",
        "def run(x, weight, eps):\n    return forward(x, weight)",
        "; eps is not passed, because forward takes none:",
    ),
    "output first": (
        FUNCTION + "\n\ndef run(out, x, weight, eps):\n    out.copy_(norm(x, weight, eps))\n",
        "_run = run\n\n\ndef run(x, weight, eps, out):\n    _run(out, x, weight, eps)",
        "run(out, x, weight, eps) cannot be called as run(x, weight, eps, out)",
    ),
    "inputs in another order": (
        FUNCTION + "\n\ndef run(weight, hidden_states, eps=0.0):\n    return norm(hidden_states, weight, eps)\n",
        "_run = run\n\n\ndef run(x, weight, eps):\n    return _run(weight, x, eps)",
        "",
    ),
    "by keyword": (
        FUNCTION + "\n\ndef run(x, weight, *, eps):\n    return norm(x, weight, eps)\n",
        "_run = run\n\n\ndef run(x, weight, eps):\n    return _run(x, weight, eps=eps)",
        "",
    ),
}


def draft(path: Path, source: str) -> Solution:
    path.write_text(source)
    return draft_solution(Registry(REPOSITORY), path, DEFINITION)


def call(entry, is_destination: bool, eps: float = 1e-2):
    """The output and the right one."""
    x, weight = torch.randn(3, 128), torch.randn(128)
    expected = torch.nn.functional.rms_norm(x, (128,), weight, eps)
    out = torch.full_like(x, float("nan"))
    return (entry(x, weight, eps, out), out)[1] if is_destination else entry(x, weight, eps), expected


def assert_right_in_python(path: Path, solution: Solution) -> None:
    spec = util.spec_from_file_location("adapted", path)
    module = util.module_from_spec(spec)
    spec.loader.exec_module(module)
    torch.testing.assert_close(*call(module.run, solution.spec.destination_passing_style))


@pytest.mark.parametrize("name", TAKEN)
def test_what_is_callable_at_run_time_is_taken(name, tmp_path):
    solution = draft(tmp_path / "kernel.py", TAKEN[name])
    assert solution.spec.destination_passing_style is False
    assert_right_in_python(tmp_path / "kernel.py", solution)


@pytest.mark.parametrize("name", ADAPTED)
def test_the_lines_to_add_work(name, tmp_path):
    source, paste, said = ADAPTED[name]
    with pytest.raises(InputError) as refused:
        draft(tmp_path / "kernel.py", source)
    assert refused.value.paste == paste and said in str(refused.value)
    solution = draft(tmp_path / "adapted.py", f"{source}\n\n{refused.value.paste}\n")
    assert_right_in_python(tmp_path / "adapted.py", solution)


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("def mine(x, weight, eps): pass\n", "no function 'run' (available: mine); choose one with --entry mine"),
        (
            "X = 1\n",
            "no function 'run'; define run(x, weight, eps), or start from a kernel of: fib-rmsnorm new triton FILE",
        ),
        ("def run(x): pass\n", "run takes 1 parameters (x); rmsnorm_d128_fp32 needs 3 (x, weight, eps) and a returned"),
        ("class Net:\n    def forward(self, x): pass\n", "no function 'run'; define run(x, weight, eps)"),
    ],
)
def test_what_nothing_can_adapt_is_reported_in_one_line(source, said, tmp_path):
    with pytest.raises(InputError) as refused:
        draft(tmp_path / "kernel.py", source)
    assert said in str(refused.value) and not refused.value.paste


def test_the_command_line_prints_what_to_add(fib, tmp_path):
    source, paste, _ = ADAPTED["two parameters"]
    (tmp_path / "kernel.py").write_text(source)
    outcome = fib("try", tmp_path / "kernel.py", "--root", REPOSITORY)
    assert (outcome.code, outcome.out) == (1, "")
    assert outcome.err.count("fib-rmsnorm: ") == 1 and outcome.err.endswith(f":\n\n{paste}\n\n")
    as_json = fib("try", tmp_path / "kernel.py", "--root", REPOSITORY, "--json")
    assert (as_json.code, json.loads(as_json.out)["hint"]) == (1, paste.strip())


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
PYBIND11 = 'PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &norm, "RMSNorm"); }\n'


def adapt(tmp_path: Path, source: str) -> Solution:
    """The Solution of the source with the lines that its refusal says to add."""
    with pytest.raises(InputError) as refused:
        draft(tmp_path / "kernel.cpp", source)
    return draft(tmp_path / "adapted.cpp", f"{source}\n{refused.value.paste}\n")


def assert_right_in_cpp(solution: Solution, cache: Path) -> None:
    entry = build_entry(solution, "cpu", cache)
    torch.testing.assert_close(*call(entry, solution.spec.destination_passing_style))


@pytest.mark.compile
def test_a_function_of_torchs_tensors_is_bound_in_order(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:/usr/bin:/bin")  # where ninja is
    assert_right_in_cpp(adapt(tmp_path, TENSORS), tmp_path / "cache")


def test_the_only_export_is_the_entry_point(tmp_path):
    in_order = TENSORS.replace("double eps, torch::Tensor weight", "torch::Tensor weight, double eps")
    solution = draft(tmp_path / "kernel.cpp", in_order + PYBIND11)
    assert (solution.spec.entry_point, solution.spec.binding.value) == ("kernel.cpp::forward", "torch")
    assert solution.spec.destination_passing_style is False


def test_an_export_in_another_order_is_answered_with_its_replacement(tmp_path):
    with pytest.raises(InputError, match="put these lines in place of its export") as refused:
        draft(tmp_path / "kernel.cpp", f"{VIEWS}\nTVM_FFI_DLL_EXPORT_TYPED_FUNC(run, norm);\n")
    solution = draft(tmp_path / "kernel.cpp", f"{VIEWS}\n{refused.value.paste}\n")
    assert (solution.spec.entry_point, solution.spec.destination_passing_style) == ("kernel.cpp::run", True)


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("__global__ void k(const float* x, float* y) {}\n", "a __global__ function cannot be the entry point"),
        ("void f(const float* x, const float* w, float* y, int rows) {}\n", "does not export 'run': add"),
        ("// TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);\n", "does not export 'run': add"),
        ('M(m) { m.def("a", &a); m.def("b", &b); }\n', "does not export 'run'; choose one with --entry: a, b"),
    ],
)
def test_what_cannot_be_exported_is_reported_in_one_line(source, said, tmp_path):
    with pytest.raises(InputError) as refused:
        draft(tmp_path / "kernel.cu", source)
    assert said in str(refused.value) and not refused.value.paste


def test_a_value_writes_its_output_if_the_style_says_so(tmp_path):
    (tmp_path / "kernel.py").write_text("from elsewhere import rmsnorm as run\n")
    styles = [
        draft_solution(Registry(REPOSITORY), tmp_path / "kernel.py", DEFINITION, style=style) for style in (None, True)
    ]
    assert [solution.spec.destination_passing_style for solution in styles] == [False, True]
