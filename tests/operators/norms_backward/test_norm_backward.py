"""The gradients of norms: right float32 kernels pass all hard rows, and wrong ones fail in the output that is wrong."""

import re

import pytest
import torch

from fib_rmsnorm.evaluation.tensors.case_numbers import count_cases
from fib_rmsnorm.evaluation.tensors.inputs import DeviceWorkload, make_case
from fib_rmsnorm.operators import find_operator, list_candidates, recognise_source
from fib_rmsnorm.registry import generate_workloads
from fib_rmsnorm.schema import Definition
from support.mistakes import change_reference, judge

OPERATORS = ("rmsnorm_backward", "layernorm_backward", "fused_add_rmsnorm_backward")
DTYPES = ("float16", "bfloat16", "float32")
DWEIGHT, DBIAS = "(dy.float() * normalized).sum(dim=0)", "dy.float().sum(dim=0)"


@pytest.mark.parametrize("batch", [1, 32])
@pytest.mark.parametrize("operator", OPERATORS)
def test_the_statistics_belong_to_x_also_where_rows_recur(operator, batch):
    definition = find_operator(operator).define(128)
    recognition, (workload,) = recognise_source(definition), generate_workloads(definition, [batch])
    for number in (0, count_cases(definition, recognition, workload) - 1):
        case = make_case(DeviceWorkload(definition, workload, "cpu"), recognition, number)
        x = case.inputs["x"].double()
        mean = x.mean(-1) if "mean" in case.inputs else torch.zeros(len(x))
        rstd = ((x - mean[:, None]).square().mean(-1) + 1e-6).rsqrt().float()
        assert torch.allclose(case.inputs["rstd"], rstd, rtol=1e-6) and case.inputs["rstd"].dtype is torch.float32
        assert torch.allclose(case.inputs.get("mean", mean).float(), mean.float(), atol=1e-7)
    assert case.recurring == min(batch, len(x))


OF_RMSNORM = "(scaled - normalized * (scaled * normalized).mean(dim=-1, keepdim=True)) * rstd[:, None]"
OF_LAYERNORM = OF_RMSNORM.replace("(scaled - ", "(centered - ")
AS_AUTOGRAD = "scaled * rstd[:, None] - normalized * (scaled * rstd[:, None] * normalized).mean(dim=-1, keepdim=True)"
AS_TORCH = (
    "torch.ops.aten.native_layer_norm_backward(dy.float(), x.float(), [x.shape[1]], mean[:, None], rstd[:, None],"
    " weight.float(), weight.float(), [True, True, True])[0]"
)
DX = {
    "rmsnorm_backward": (OF_RMSNORM, AS_AUTOGRAD),
    "layernorm_backward": (OF_LAYERNORM, AS_TORCH),
    "fused_add_rmsnorm_backward": (OF_RMSNORM, AS_AUTOGRAD),
}
IN_TURN = {DWEIGHT: "torch.cumsum(dy.float() * normalized, 0)[-1]", DBIAS: "torch.cumsum(dy.float(), 0)[-1]"}


@pytest.mark.parametrize(("hidden", "batch"), [(128, 13), (1152, 26), pytest.param(16384, 13, marks=pytest.mark.fuzz)])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("operator", OPERATORS)
def test_right_float32_kernels_pass(tmp_path, operator, dtype, hidden, batch):
    definition = find_operator(operator).define(hidden, dtype)
    sums = [DWEIGHT, DBIAS] if "dbias" in definition.outputs else [DWEIGHT]
    in_turn = [text for each in sums for text in (each, IN_TURN[each])]
    for kernel in (definition.reference, *(change_reference(operator, *each) for each in (in_turn, DX[operator]))):
        assert judge(kernel, definition, tmp_path, batch) == {}


TERMS, NARROW = "(dy.float() * normalized)", "lambda total, row: total + row.half()"
WRONG = {
    ("rmsnorm_backward", "dx", OF_RMSNORM): [re.sub("scaled|normalized", r"\g<0>.half().float()", OF_RMSNORM)],
    ("rmsnorm_backward", "dweight", DWEIGHT): [
        "(dy.float() * x.float()).sum(dim=0)",
        "(scaled * normalized).sum(dim=0)",
        f"{TERMS}.mean(dim=0)",
        f"{TERMS}[:16].sum(dim=0)",
        f"__import__('functools').reduce({NARROW}, {TERMS}, 0)",
    ],
    **{
        (operator, "dbias", DBIAS): ["scaled.sum(dim=0)", "dy.float().mean(dim=0)"]
        for operator in ("layernorm_backward", "rmsnorm_bias_backward")
    },
}


@pytest.mark.parametrize(("made", "wrong"), [(made, wrong) for made in WRONG for wrong in WRONG[made]])
def test_a_wrong_gradient_fails_in_its_output_alone(tmp_path, made, wrong):
    operator, output, right = made
    kernel = change_reference(operator, f"{output} = {right}", f"{output} = {wrong}")
    assert {*judge(kernel, find_operator(operator).define(384), tmp_path, batch=26)} == {output}


def test_gradients_are_distinguished_from_x_by_their_names():
    record = find_operator("fused_add_rmsnorm_backward").define(256).model_dump()
    quack = {"x": "x", "weight": "weight", "dout": "dy", "rstd": "rstd", "dresidual_out": "dnew_residual"}
    record["inputs"] = {name: record["inputs"][part] for name, part in quack.items()}
    found = list_candidates(Definition.model_validate(record))[0][0].tensors
    assert {name: part for part, name in found.items() if name in quack} == quack
