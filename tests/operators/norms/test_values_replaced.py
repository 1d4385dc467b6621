"""Kernels that compute the formula of inputs in which they replaced something are wrong, whichever input it is."""

import pytest
import torch

from fib_rmsnorm.operators.operator import find_operator
from support import mistakes
from support.kernels import change
from support.mistakes import load


def without_nan(tensor):
    return torch.where(tensor.isnan(), torch.zeros_like(tensor), tensor)


def without_infinity(tensor):
    return torch.where(tensor.isinf(), tensor.sign() * torch.finfo(tensor.dtype).max, tensor)


def within_float16(tensor):
    return torch.where(tensor.isfinite(), tensor.clamp(-65504, 65504), tensor)


def within_1024(tensor):
    return torch.where(tensor.isfinite(), tensor.clamp(-1024, 1024), tensor)


def rstd_by_usual_eps(inputs):
    mean_square = inputs["x"].float().square().mean(-1)
    return {**inputs, "rstd": torch.rsqrt(mean_square + 1e-6)}


few_and_many = pytest.mark.parametrize("rows", [1, pytest.param(40, marks=pytest.mark.fuzz)])

REPLACED = [
    ("rmsnorm", {}, "x", without_nan),
    ("rmsnorm", {"dtype": "bf16"}, "x", within_float16),
    ("rmsnorm", {"dtype": "fp32"}, "x", within_float16),
    ("rmsnorm_bias", {}, "bias", without_nan),
    ("rmsnorm_bias", {}, "bias", without_infinity),
    ("rmsnorm_silu_gate", {}, "x", without_nan),
    ("rmsnorm_silu_gate", {}, "gate", without_nan),
    ("rmsnorm_silu_gate", {}, "gate", without_infinity),
    ("fused_add_rmsnorm", {}, "x", without_nan),
    ("fused_add_rmsnorm", {}, "residual", without_nan),
    ("fused_add_rmsnorm", {}, "residual", without_infinity),
    ("fused_add_rmsnorm", {"dtype": "bf16"}, "residual", within_float16),
    ("layernorm_bias", {}, "bias", without_nan),
    ("layernorm_bias", {}, "bias", without_infinity),
    ("layernorm", {"dtype": "bf16"}, "x", within_float16),
    ("rmsnorm_fp8", {}, "out_scale", lambda scale: min(scale, 1.0)),
    ("rmsnorm_backward", {}, "dy", without_nan),
    ("rmsnorm_backward", {}, "x", without_infinity),
    ("layernorm_backward", {}, "dy", without_nan),
    ("fused_add_rmsnorm_backward", {}, "dnew_residual", without_nan),
    ("fused_add_rmsnorm_backward", {}, "dnew_residual", within_1024),
]


def judge(operator, options, change, rows, folder, change_output=lambda output: output):
    definition = find_operator(operator).define(256, **options)
    reference = load(definition.reference)

    def run(**inputs):
        outputs = reference(**change(inputs))
        return [change_output(each) for each in ([outputs] if isinstance(outputs, torch.Tensor) else outputs)]

    return mistakes.judge(run, definition, folder, rows)


@few_and_many
@pytest.mark.parametrize(("operator", "options", "part", "replace"), REPLACED)
def test_it_is_wrong(tmp_path, operator, options, part, replace, rows):
    assert judge(operator, options, lambda inputs: {**inputs, part: replace(inputs[part])}, rows, tmp_path)


@few_and_many
def test_so_is_a_gradient_that_saturates_or_whose_rstd_is_computed_again_by_another_eps(tmp_path, rows):
    assert judge("rmsnorm_backward", {}, lambda inputs: inputs, rows, tmp_path, without_infinity)
    assert judge("rmsnorm_backward", {}, rstd_by_usual_eps, rows, tmp_path)


AMAX = "scaled.abs().amax(dim=-1)"
WRONG_SOURCES = [
    *(
        (operator, "bf16", ("mean_square + eps", "mean_square.clamp(min=eps)"), "out")
        for operator in ("rmsnorm", "fused_add_rmsnorm", "rmsnorm_silu_gate")
    ),
    *(
        (operator, "fp16", (AMAX, maximum), output)
        for operator in ("rmsnorm_fp8_per_row", "fused_add_rmsnorm_fp8_per_row")
        for maximum, output in (
            ("scaled[:, 1:].abs().amax(dim=-1)", "out_scale"),
            ("scaled[:, :-1].abs().amax(dim=-1)", "out_scale"),
            ("(scaled := scaled.nan_to_num(nan=0.0)).abs().amax(dim=-1)", "out"),
            ("(scaled := scaled.nan_to_num(nan=448.0)).abs().amax(dim=-1)", "out"),
            ("scaled.nan_to_num(nan=448.0).abs().amax(dim=-1)", "out_scale"),
            (AMAX, None),
            ("scaled.nan_to_num(nan=0.0).abs().amax(dim=-1)", None),  # a maximum may pass over a NaN
        )
    ),
]
"""An operator, the dtype of x, what is changed in its reference, and the output that is wrong then."""


@few_and_many
@pytest.mark.parametrize(("operator", "dtype", "changes", "output"), WRONG_SOURCES)
def test_so_is_a_source_with_another_limit_or_maximum(tmp_path, operator, dtype, changes, output, rows):
    definition = find_operator(operator).define(256, dtype)
    found = mistakes.judge(change(definition.reference, *changes), definition, tmp_path, rows)
    assert output in found if output else not found


def mean_square(rows):
    return rows.float().square().mean(-1, keepdim=True)


def share_of_zeros(rows):
    return (rows == 0).float().mean(-1, keepdim=True)


def size(rows):
    return rows.float().abs().mean(-1, keepdim=True)


SPECIAL = [
    *((name, lambda t: (t["weight"][:16] == 1).all()) for name in ("rmsnorm", "rmsnorm_gemma", "rmsnorm_backward")),
    ("rmsnorm", lambda t: (t["weight"] == t["weight"][-1]).sum() > 4),
    ("rmsnorm", lambda t: ((t["weight"] != 0) & (t["weight"].abs() < 2e-4)).any()),
    ("layernorm_bias", lambda t: (t["bias"] == 0).any()),
    ("layernorm_bias", lambda t: (t["bias"][:16] == 0).all()),
    ("layernorm_bias", lambda t: (t["x"] == t["x"].roll(1, 0)).all(-1, keepdim=True)),
    ("rmsnorm", lambda t: (share_of_zeros(t["x"]) > 0.001) & (share_of_zeros(t["x"]) < 0.1)),
    *((name, lambda t: (mean_square(t["x"]) - 1).abs() < 1e-3) for name in ("rmsnorm", "rmsnorm_silu_gate")),
    ("rmsnorm", lambda t: (mean_square(t["x"]) / mean_square(t["x"]).roll(1, 0) - 1).abs() < 1e-3),
    ("fused_add_rmsnorm", lambda t: ((share := size(t["residual"]) / size(t["x"])) > 0.002) & (share < 0.01)),
]
"""An operator, and the inputs or rows at which a kernel errs: of some values of the weight, or rows like another."""


@pytest.mark.parametrize(("operator", "condition"), SPECIAL)
def test_so_is_a_kernel_that_errs_only_at_special_values(tmp_path, operator, condition):
    def change(inputs):
        return {**inputs, "x": torch.where(condition(inputs), inputs["x"] * -1, inputs["x"])}

    assert judge(operator, {}, change, 40, tmp_path)


ROUNDED_ON_THE_WAY = [
    ("rmsnorm", ("(x_fp32 * rstd * weight.to(torch.float32)).to(x.dtype)", "weight * (x_fp32 * rstd).to(x.dtype)")),
    ("rmsnorm_gemma", ("1.0 + weight.to(torch.float32)", "(1.0 + weight).to(torch.float32)")),
    ("rmsnorm_silu_gate", ("* gated)", "* gated.to(x.dtype).float())")),
    ("fused_add_rmsnorm", ("(total * rstd", "(total.to(x.dtype).to(torch.float32) * rstd")),
]


@pytest.mark.parametrize("rows", [1, 32])
@pytest.mark.parametrize("dtype", ["fp16", "bf16"])
@pytest.mark.parametrize(("operator", "changes"), ROUNDED_ON_THE_WAY)
def test_so_is_a_kernel_that_rounds_on_the_way(tmp_path, operator, changes, dtype, rows):
    definition = find_operator(operator).define(4096, dtype)
    assert "out" in mistakes.judge(change(definition.reference, *changes), definition, tmp_path, rows)
