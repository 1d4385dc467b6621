"""The gradients of norms: right float32 kernels pass all hard rows, wrong ones fail, and their mistakes are named."""

from __future__ import annotations

import pytest
import torch

from fib_rmsnorm.evaluation.tensors.case_numbers import count_cases
from fib_rmsnorm.evaluation.tensors.inputs import DeviceWorkload, make_case
from fib_rmsnorm.operators import find_operator, list_candidates, recognise_source
from fib_rmsnorm.registry import generate_workloads
from fib_rmsnorm.schema import Definition
from support.kernels import change
from support.mistakes import judge, load, name

OPERATORS = ("rmsnorm_backward", "layernorm_backward", "fused_add_rmsnorm_backward")
DTYPES = ("float16", "bfloat16", "float32")


def define(operator, hidden, dtype="float16") -> Definition:
    return find_operator(operator).define(hidden, dtype)


def in_float32(dx, dweight, dbias=()):
    """Make a kernel of expressions of dy, x, w (the weight), s (the scaled dy), n (the normalized x), m, r and d.

    d is dnew_residual.
    """

    def kernel(dy, x, weight, rstd, mean=None, dnew_residual=None):
        out_dtype, r = x.dtype, rstd[:, None]
        m = r * 0 if mean is None else mean[:, None]
        names = {"dy": dy.float(), "x": x.float(), "w": weight.float(), "m": m, "r": r, "mean": mean_of, "torch": torch}
        names["d"] = 0 if dnew_residual is None else dnew_residual.float()
        names |= {"s": names["dy"] * names["w"], "n": (names["x"] - m) * r, "dtype": out_dtype}
        expressions = (dx, dweight) if mean is None else (dx, dweight, dbias or "dy.sum(0)")
        return tuple(eval(each, names).to(out_dtype) for each in expressions)

    return kernel


def mean_of(values):
    return values.mean(dim=-1, keepdim=True)


DX = {
    "rmsnorm_backward": "(s - n * mean(s * n)) * r",
    "layernorm_backward": "(s - mean(s) - n * mean(s * n)) * r",
    "fused_add_rmsnorm_backward": "(s - n * mean(s * n)) * r + d",
}
DWEIGHT = "(dy * n).sum(0)"
IN_TURN = "torch.cumsum(dy * n, 0)[-1]"
AUTOGRAD = {
    "rmsnorm_backward": "(s * r - n * mean(s * r * n))",
    "fused_add_rmsnorm_backward": "d + (s * r - n * mean(s * r * n))",
    "layernorm_backward": "torch.ops.aten.native_layer_norm_backward"
    "(dy, x, [x.shape[1]], m, r, w, w, [True, True, True])[0]",
}


@pytest.mark.parametrize("batch", [1, 32])
@pytest.mark.parametrize("operator", OPERATORS)
def test_the_statistics_belong_to_x_also_where_rows_recur(operator, batch):
    definition = define(operator, 128)
    recognition, (workload,) = recognise_source(definition), generate_workloads(definition, [batch])
    for number in (0, count_cases(definition, recognition, workload) - 1):
        case = make_case(DeviceWorkload(definition, workload, "cpu"), recognition, number)
        x = case.inputs["x"].double()
        mean = x.mean(-1) if "mean" in case.inputs else torch.zeros(len(x))
        rstd = ((x - mean[:, None]).square().mean(-1) + 1e-6).rsqrt().float()
        assert torch.allclose(case.inputs["rstd"], rstd, rtol=1e-6) and case.inputs["rstd"].dtype is torch.float32
        assert torch.allclose(case.inputs.get("mean", mean).float(), mean.float(), atol=1e-7)
    assert case.recurring == min(batch, len(x))


@pytest.mark.parametrize(("hidden", "batch"), [(128, 13), (1152, 26), pytest.param(16384, 13, marks=pytest.mark.fuzz)])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("operator", OPERATORS)
def test_right_float32_kernels_pass(tmp_path, operator, dtype, hidden, batch):
    definition = define(operator, hidden, dtype)
    for kernel in (
        load(definition.reference),
        in_float32(DX[operator], IN_TURN),
        in_float32(AUTOGRAD[operator], DWEIGHT, "torch.cumsum(dy, 0)[-1]"),
    ):
        assert judge(kernel, definition, tmp_path, batch) == {}


OF_NORM = DX["rmsnorm_backward"]
NAMED = {
    "rmsnorm_backward": {
        "of a constant rstd, w * rstd alone": "s * r",
        "with the sum of w * n instead of its mean": "(s - n * (s * n).sum(-1, keepdim=True)) * r",
        "without the weight": "(dy - n * mean(dy * n)) * r",
        "with dy instead of dy * weight in the mean": "(s - n * mean(dy * n)) * r",
        "with x instead of the normalized x in the mean": "(s - n * mean(s * x)) * r",
        "without the last factor rstd": "s - n * mean(s * n)",
    },
    "layernorm_backward": {"without mean(w) subtracted, as RMSNorm's": OF_NORM},
    "fused_add_rmsnorm_backward": {
        "without dnew_residual": OF_NORM,
        "with dnew_residual added to dy, before the norm's backward pass": (
            "((dy + d) * w - n * mean((dy + d) * w * n)) * r"
        ),
        "of a constant rstd, w * rstd alone": "s * r + d",
    },
}


@pytest.mark.parametrize(("operator", "mistake"), [(name, each) for name in NAMED for each in NAMED[name]])
def test_mistakes_in_dx_are_named(tmp_path, operator, mistake):
    kernel = in_float32(NAMED[operator][mistake], DWEIGHT)
    named = name(kernel, define(operator, 384), tmp_path, batch=26)
    assert any(each.startswith(f"dx: the output equals dx {mistake}: ") for each in named)


WRONG = {
    "dx": ["(s.half().float() - n.half().float() * mean(s.half().float() * n.half().float())) * r"],
    "dweight": [
        "(dy * x).sum(0)",
        "(s * n).sum(0)",
        "(dy * n).mean(0)",
        "(dy * n)[:16].sum(0)",
        "__import__('functools').reduce(lambda total, row: total + row.half(), dy * n, 0)",
    ],
    "dbias": ["s.sum(0)", "dy.mean(0)"],
}


@pytest.mark.parametrize(("output", "wrong"), [(name, each) for name in WRONG for each in WRONG[name]])
def test_a_wrong_gradient_fails_in_its_output_alone(tmp_path, output, wrong):
    right = {"dx": DX["layernorm_backward"], "dweight": DWEIGHT, "dbias": "dy.sum(0)"}
    operator = "layernorm_backward" if output == "dbias" else "rmsnorm_backward"
    kernel = in_float32(**{**right, "dx": DX[operator], output: wrong})
    assert {*judge(kernel, define(operator, 384), tmp_path, batch=26)} == {output}


@pytest.mark.parametrize("wrong", ["scaled.sum(dim=0)", "dy.to(torch.float32).mean(dim=0)"])
def test_a_wrong_gradient_of_rmsnorms_bias_fails(tmp_path, wrong):
    definition = define("rmsnorm_bias_backward", 384)
    kernel = change(definition.reference, "dbias = dy.to(torch.float32).sum(dim=0)", f"dbias = {wrong}")
    assert {*judge(kernel, definition, tmp_path, batch=26)} == {"dbias"}


def test_gradients_are_distinguished_from_x_by_their_names():
    record = define("fused_add_rmsnorm_backward", 256).model_dump()
    quack = {"x": "x", "weight": "weight", "dout": "dy", "rstd": "rstd", "dresidual_out": "dnew_residual"}
    record["inputs"] = {name: record["inputs"][part] for name, part in quack.items()}
    found = list_candidates(Definition.model_validate(record))[0][0].tensors
    assert {name: part for part, name in found.items() if name in quack} == quack
