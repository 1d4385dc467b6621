"""Add + RMSNorm in float8: right kernels pass all hard rows, mistakes are named, and `new` writes right kernels."""

from __future__ import annotations

import pytest

from fib_rmsnorm.operators import define_by_name, find_operator, list_candidates, recognise_source
from fib_rmsnorm.registry import generate_workloads
from fib_rmsnorm.schema import Definition
from support.mistakes import judge_in_process, name_in_process
from support.starting_kernels import find_wrong

OPERATORS = ("fused_add_rmsnorm_fp8", "fused_add_rmsnorm_fp8_per_row")
DTYPES = ("float16", "bfloat16", "float32")

STATIC = """\
import torch

def run(x, residual, weight, out_scale, eps):
    s = x.float() + residual.float()
    rstd = torch.rsqrt(s.pow(2).mean(-1, keepdim=True) + eps)
    y = s * rstd * weight.float()
    return (y * (1 / out_scale)).clamp(-448, 448).to(torch.float8_e4m3fn), s.to(x.dtype)
"""
PER_ROW = """\
import torch

def run(x, residual, weight, eps):
    s = x.float() + residual.float()
    rstd = torch.rsqrt(s.pow(2).mean(-1, keepdim=True) + eps)
    y = s * rstd * weight.float()
    scale = (y.abs().amax(-1, keepdim=True) / 448).clamp(min=1 / (448 * 512))
    return (y / scale).clamp(-448, 448).to(torch.float8_e4m3fn), s.to(x.dtype), scale[:, 0]
"""
OF_SUM = "the output equals RMSNorm of s = x + residual"


def load(source):
    namespace = {}
    exec(source, namespace)
    return namespace["run"]


def workload_of(definition, batch=8):
    (workload,) = generate_workloads(definition, [batch])
    return workload


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("operator", "source"), [(OPERATORS[0], STATIC), (OPERATORS[1], PER_ROW)])
def test_right_kernels_pass_all_hard_rows(tmp_path, operator, source, dtype):
    definition = find_operator(operator).define(1152, dtype)
    assert recognise_source(definition).operator == operator
    assert define_by_name(definition.name) == definition
    for run in (load(definition.reference), load(source)):
        assert judge_in_process(run, definition, workload_of(definition), tmp_path) == {}


MISTAKEN = [
    (STATIC, " + eps", "", f"out: {OF_SUM} without eps"),
    (STATIC, "* (1 / out_scale)", "* out_scale", f"out: {OF_SUM} multiplied by the scale instead of divided by it"),
    (STATIC, "residual.float()", "0", "out: the output equals RMSNorm of x alone"),
    (STATIC, "s.to(x.dtype)", "residual", "new_residual: the output equals the residual that was passed"),
    (STATIC, "x.float() + residual.float()", "(x + residual).float()", f"out: {OF_SUM}, rounded to float16"),
    (PER_ROW, "y.abs()", "y", f"out: {OF_SUM} with max(y) instead of max|y|"),
    (PER_ROW, ".clamp(min=1 / (448 * 512))", "", f"out_scale: {OF_SUM} with a scale that has no lower limit"),
    (PER_ROW, "scale[:, 0]", "1 / scale[:, 0]", f"out_scale: {OF_SUM} with the reciprocal of the scale"),
]


@pytest.mark.parametrize(("source", "old", "new", "said"), MISTAKEN, ids=[each[3] for each in MISTAKEN])
def test_a_mistake_is_named(tmp_path, source, old, new, said):
    assert source.count(old) == 1
    definition = find_operator(OPERATORS[source is PER_ROW]).define(512)
    named = name_in_process(load(source.replace(old, new)), definition, workload_of(definition), tmp_path)
    assert any(line.startswith(said) for line in (named or "").splitlines()), named


def test_the_scale_may_come_after_eps():
    """Both are scalars: both ways to take them are tried."""
    record = find_operator("fused_add_rmsnorm_fp8").define(256).model_dump()
    inputs = record["inputs"]
    record["inputs"] = {name: inputs[name] for name in ("x", "residual", "weight", "eps", "out_scale")}
    matches = [each[0].tensors for each in list_candidates(Definition.model_validate(record)) if each]
    assert {each["out_scale"] for each in matches} == {"eps", "out_scale"}


@pytest.mark.compile
@pytest.mark.parametrize("operator", OPERATORS)
def test_its_cpp_kernel_is_right(tmp_path, operator):
    definitions = [find_operator(operator).define(384, dtype) for dtype in DTYPES]
    assert find_wrong("cpp", definitions, tmp_path) == []
