"""Add + RMSNorm: its conventions, hard rows and mistakes, and the kernels that `new` writes."""

from __future__ import annotations

import pytest
import torch

from fib_rmsnorm.operators import find_operator, list_candidates, recognise_source
from fib_rmsnorm.registry import generate_workloads
from support.mistakes import name_in_process
from support.norms import UPSTREAM_FUSED_ADD, define_sum_norm

NAMES = ("fused_add_rmsnorm", "fused_add_rmsnorm_rounded", "fused_add_rmsnorm_llama", "fused_add_rmsnorm_gemma")
DTYPES = ("float16", "bfloat16", "float32")

RIGHT = """\
import torch

def run(x, residual, weight, eps):
    s = x.float() + residual.float()
    rstd = torch.rsqrt(s.pow(2).mean(-1, keepdim=True) + eps)
    return (s * rstd * weight.float()).to(x.dtype), s.to(x.dtype)
"""
SUM = "x.float() + residual.float()"
ROUNDED = "(x + residual).float()"
LLAMA = RIGHT.replace(SUM, ROUNDED).replace(
    "(s * rstd * weight.float()).to(x.dtype)", "(s * rstd).to(x.dtype) * weight"
)
OUT = "out: the output equals "
OF_SUM = f"{OUT}RMSNorm of s = x + residual"

MISTAKEN = {
    "x alone": (
        RIGHT.replace("rstd =", "x2 = x.float()\n    rstd =").replace("s.pow", "x2.pow").replace("(s *", "(x2 *"),
        f"{OUT}RMSNorm of x alone",
    ),
    "no eps": (RIGHT.replace(" + eps", ""), f"{OF_SUM} without eps"),
    "two outputs": (
        RIGHT.replace(" + eps", "").replace("s.to", "residual.to"),
        f"{OF_SUM} without eps|new_residual: the output equals the residual that was passed",
    ),
    "Llama": (LLAMA, f"{OF_SUM}, rounded to float16 with s * rstd rounded to float16 before the weight"),
    "rounded": (RIGHT.replace(SUM, ROUNDED), f"{OF_SUM}, rounded to float16: square and normalize the sum in float32"),
    "squares of x": (
        RIGHT.replace("s.pow", "x.float().pow"),
        f"{OUT}x + residual times the reciprocal root of x alone",
    ),
    "half squares": (RIGHT.replace("s.pow(2)", "s.half().pow(2).float()"), f"{OF_SUM} with squares in float16"),
}
QUICK = ("two outputs", "Llama")


def load(source):
    namespace = {}
    exec(source, namespace)
    return namespace["run"]


def workload_of(definition, batch):
    (workload,) = generate_workloads(definition, [batch])
    return workload


@pytest.mark.parametrize(
    "mistake", [name if name in QUICK else pytest.param(name, marks=pytest.mark.process) for name in MISTAKEN]
)
def test_a_mistake_is_named_for_each_output(tmp_path, mistake):
    source, said = MISTAKEN[mistake]
    definition = find_operator("fused_add_rmsnorm").define(256)
    named = name_in_process(load(source), definition, workload_of(definition, 8), tmp_path).splitlines()
    assert len(named) == len(said.split("|"))
    assert all(line.startswith(each) for line, each in zip(named, said.split("|"), strict=True))


def test_the_definition_of_another_convention_is_offered_if_there_is_one(tmp_path):
    definition = find_operator("fused_add_rmsnorm").define(128)
    assert "--definition fused_add_rmsnorm_llama_d128" in name_in_process(
        load(LLAMA), definition, workload_of(definition, 8), tmp_path
    )


@pytest.mark.parametrize("dtype", DTYPES)
def test_the_hard_rows_cancel_and_overflow(dtype):
    operator = find_operator("fused_add_rmsnorm")
    definition = operator.define(128, dtype)
    dtype = getattr(torch, dtype)
    x, residual = torch.randn(2, 11, 128).to(dtype)
    inputs = {"x": x, "residual": residual, "weight": torch.ones(128, dtype=dtype), "eps": 1e-6}
    recognition = recognise_source(definition)
    case = recognition.make_hard_case(inputs, 0, "seed")
    out, total = (each.values for each in recognition.compute_exact(case.inputs))
    kinds = {kind.partition(" (")[0]: row for row, kind in enumerate(case.row_kinds)}
    assert not total[kinds["residual = -x"]].any() and not out[kinds["residual = -x"]].any()
    near = kinds["residual near -x"]
    assert total[near].any() and (total[near].abs() <= 0.1 * case.inputs["x"][near].abs()).all()
    huge = kinds["one sum of 80000"]
    assert total[huge].isinf().any() == (dtype is torch.float16) and out[huge].isfinite().all()


def test_what_a_residual_is_called_decides_only_between_tensors_of_one_shape():
    own = define_sum_norm("any", RIGHT, ("res", "hidden", "scale"), ("res_out", "y"), eps="e")
    found = list_candidates(own)
    tensors = [each[0].tensors for each in found if each[0].operator == "fused_add_rmsnorm"]
    assert tensors == [
        {"x": "hidden", "residual": "res", "weight": "scale", "eps": "e", "out": "y", "new_residual": "res_out"},
        {"x": "hidden", "residual": "res", "weight": "scale", "eps": "e", "out": "res_out", "new_residual": "y"},
    ]


def test_flashinfer_bench_has_one_output_and_its_eps_in_the_source():
    definition = define_sum_norm("fused_add_rmsnorm_h128", UPSTREAM_FUSED_ADD, dtype="bfloat16")
    first = next(each for each in list_candidates(definition) if each[0].operator == "fused_add_rmsnorm")
    assert first[0].tensors == {"x": "hidden_states", "residual": "residual", "weight": "weight", "out": "output"}
    assert {1e-6, 1e-5} <= {each.constants["eps"] for each in first}


@pytest.mark.parametrize(
    ("language", "file"), [("python", "kernel.py"), ("cpp", "kernel.cpp"), ("triton", "kernel.py")]
)
@pytest.mark.compile
def test_new_writes_a_right_kernel(fib, registry, tmp_path, language, file):
    name = "fused_add_rmsnorm_d384_bf16"
    where = ("--definition", name, "--root", registry.root)
    assert fib("define", "fused_add_rmsnorm", "--hidden", "384", "--dtype", "bf16", "--root", registry.root).code == 0
    written = fib("new", language, tmp_path / file, *where)
    assert written.code == 0 and "a right kernel in" in written.out
    tried = fib("try", tmp_path / file, *where, "--check", "--device", "cpu", "--batch-sizes", "3")
    assert tried.code == 0 and "PASSED" in tried.out, tried.out
