"""A usual mistake is named: each is made in the reference of its operator."""

from itertools import chain

import pytest

from fib_rmsnorm.operators import find_operator
from support.mistakes import change_reference, name

NO_EPS = (" + eps", "")
SUM = "x.float() + residual.float()"
R, S, L = "RMSNorm", "RMSNorm of s = x + residual", "LayerNorm"
ADAPTIVE = "layernorm_scale_shift"
STATIC, PER_ROW = "rmsnorm_fp8", "rmsnorm_fp8_per_row"
BACKWARD, OF_NORM = "rmsnorm_backward", "scaled - normalized * (scaled * normalized).mean(dim=-1, keepdim=True)"
MEAN, VARIANCE = "x_fp32.mean(dim=-1, keepdim=True)", "centered.pow(2).mean(dim=-1, keepdim=True)"

LLAMAS, GEMMAS = "weight * (x_fp32 * rstd).to(x.dtype)", "(x_fp32 * rstd * (1.0 + weight.float())).to(x.dtype)"
ONCE = "with the weight multiplied in float32 and one rounding, as in torch"

MISTAKES = [
    ("rmsnorm_llama", NO_EPS, f"{R} without eps: use rsqrt(mean(x^2) + eps)"),
    ("rmsnorm_llama", (LLAMAS, "(x_fp32 * rstd * weight.float()).to(x.dtype)"), f"{R} {ONCE}"),
    ("rmsnorm_llama", (LLAMAS, GEMMAS), f"{R} with 1 + weight instead of weight, as in Gemma"),
    ("rmsnorm_gemma", ("(1.0 + weight.float())", "weight.float()"), f"{R} {ONCE}"),
    ("rmsnorm_gemma", ("(1.0 + weight.float())", "(1.0 + weight).float()"), f"{R} with 1 + weight rounded to float16"),
    ("rmsnorm_gemma", (GEMMAS, LLAMAS), f"{R} with x * rstd rounded to float16 before the weight, as in Hugging Face"),
    ("rmsnorm_no_weight", ("x_fp32.pow(2)", "x.pow(2).float()"), f"{R} with squares in float16"),
    ("rmsnorm_no_weight", ("(x_fp32 * torch", "(x_fp32 + 0 * torch"), f"{R} reduced to x itself"),
    ("rmsnorm_bias", NO_EPS, f"{R} without eps"),
    ("rmsnorm_bias", (" + bias.float()", ""), f"{R} without the bias"),
    ("rmsnorm_bias", ("+ bias", "- bias"), f"{R} with the bias subtracted"),
    (
        "rmsnorm_bias",
        ("x_fp32 * rstd * weight.float() + bias.float()", "(x_fp32 * rstd + bias) * weight"),
        f"{R} with the bias added before the weight",
    ),
    (
        "rmsnorm_bias",
        (" + bias.float()).to(x.dtype)", ").to(x.dtype).add(bias)"),
        f"{R} with x * rstd * weight rounded to float16 before the bias",
    ),
    ("rmsnorm_bias", ("* weight.float()", "* (1 + weight.float())"), f"{R} with 1 + weight instead of weight"),
    ("rmsnorm_relu", ("torch.relu(", "("), f"{R} without the ReLU"),
    ("rmsnorm_relu", ("x.float()", "x.float().relu()"), f"{R} with the ReLU of x, before the mean square"),
    (
        "rmsnorm_relu",
        ("torch.relu(x_fp32 * rstd * weight.float())", "(torch.relu(x_fp32 * rstd) * weight.float())"),
        f"{R} with the ReLU before the weight",
    ),
    ("rmsnorm_silu_gate", NO_EPS, f"{R} without eps"),
    ("rmsnorm_silu_gate", (" * gated", ""), f"{R} without the gate"),
    ("rmsnorm_silu_gate", ("* gated", "* gate"), f"{R} with the gate itself instead of silu(gate)"),
    ("rmsnorm_silu_gate", ("* gated", "* gate.float().sigmoid()"), f"{R} with sigmoid(gate) instead of silu(gate)"),
    (
        "rmsnorm_silu_gate",
        *(("= x.float()", "= gate.float()"), ("silu(gate.float())", "silu(x.float())")),
        f"{R} with x and gate swapped",
    ),
    (
        "rmsnorm_silu_gate",
        *(("= x.float()", "= x.float() * torch.nn.functional.silu(gate.float())"), (" * gated", "")),
        f"{R} of x * silu(gate), as in Mamba-2 without norm_before_gate",
    ),
    (
        "rmsnorm_silu_gate",
        ("x_fp32 * rstd * weight.float()", "(x_fp32 * rstd).to(x.dtype) * weight.to(x.dtype)"),
        f"{R} with x * rstd and its product with the weight rounded to float16, as in Hugging Face's Qwen3-Next",
    ),
    (STATIC, NO_EPS, f"{R} without eps"),
    (STATIC, ("/ out_scale", "* out_scale"), f"{R} multiplied by the scale instead of divided by it"),
    (STATIC, (" / out_scale", ""), f"{R} without the scale"),
    (
        STATIC,
        ("x_fp32 * rstd * weight.float()", "((x_fp32 * rstd).to(x.dtype) * weight.to(x.dtype)).float()"),
        f"{R} with x * rstd and its product with the weight rounded to float16, as in vLLM",
    ),
    (PER_ROW, (".clamp(min=1 / (448.0 * 512.0))", ""), f"out_scale: {R} with a scale that has no lower limit"),
    (PER_ROW, ("scaled.abs()", "scaled"), f"out: {R} with max(y) instead of max|y|"),
    (PER_ROW, ("fn), out_scale", "fn), 1 / out_scale"), f"out_scale: {R} with the reciprocal of the scale"),
    (PER_ROW, ("scaled.abs()", "(x_fp32 * rstd).abs()"), f"out: {R} with the largest x * rstd, before the weight"),
    ("fused_add_rmsnorm", (SUM, "x.float()"), f"out: {R} of x alone"),
    ("fused_add_rmsnorm", NO_EPS, f"out: {S} without eps"),
    ("fused_add_rmsnorm", ("total.to(res", "residual.to(res"), "new_residual: the residual that was passed"),
    (
        "fused_add_rmsnorm",
        *(
            (SUM, "(x + residual).float()"),
            ("(total * rstd * weight.float()).to(x.dtype)", "(total * rstd).half() * weight"),
        ),
        f"out: {S}, rounded to float16 with s * rstd rounded to float16 before the weight",
    ),
    (
        "fused_add_rmsnorm",
        (SUM, "(x + residual).float()"),
        f"out: {S}, rounded to float16: square and normalize the sum",
    ),
    ("fused_add_rmsnorm", ("total.pow", "x.float().pow"), "out: x + residual times the reciprocal root of x alone"),
    ("fused_add_rmsnorm", ("total.pow(2)", "total.half().pow(2).float()"), f"out: {S} with squares in float16"),
    ("fused_add_rmsnorm_fp8", NO_EPS, f"out: {S} without eps"),
    ("fused_add_rmsnorm_fp8", ("/ out_scale", "* out_scale"), f"out: {S} multiplied by the scale instead of divided"),
    ("fused_add_rmsnorm_fp8", (SUM, "x.float()"), f"out: {R} of x alone"),
    ("fused_add_rmsnorm_fp8", (SUM, "(x + residual).float()"), f"out: {S}, rounded to float16"),
    (f"fused_add_{PER_ROW}", ("scaled.abs()", "scaled"), f"out: {S} with max(y) instead of max|y|"),
    (f"fused_add_{PER_ROW}", ("dtype), out_scale", "dtype), 1 / out_scale"), f"out_scale: {S} with the reciprocal"),
    ("layernorm_bias", (f" - {MEAN}", ""), f"{L} without the mean subtracted, as RMSNorm"),
    ("layernorm_bias", ("(centered * rstd", "(x_fp32 * rstd"), f"{L} with the mean subtracted in the variance alone"),
    ("layernorm_bias", ("centered.pow", "x_fp32.pow"), f"{L} with mean(x^2) instead of the variance"),
    ("layernorm_bias", (VARIANCE, "x_fp32.var(-1, keepdim=True)"), f"{L} with the sum of squares divided by 1151"),
    (
        "layernorm_bias",
        (f"torch.rsqrt({VARIANCE} + eps)", f"1 / ({VARIANCE}.sqrt() + eps)"),
        f"{L} with eps added outside the root",
    ),
    ("layernorm_bias", NO_EPS, f"{L} without eps"),
    (
        "layernorm_bias",
        (VARIANCE, f"(centered.pow(2).sum(-1, keepdim=True) + {MEAN} ** 2 * 896) / 1152"),
        f"{L} with the padding of a block counted in the variance",
    ),
    (
        "layernorm_bias",
        ("centered * rstd * weight.float() + bias.float()", "(centered * rstd + bias) * weight"),
        f"{L} with the bias added before the weight",
    ),
    ("layernorm_bias", (" + bias.float()", ""), f"{L} without the bias"),
    ("layernorm_bias", ("* weight.float()", "* (1 + weight.float())"), f"{L} with 1 + weight instead of weight"),
    ("layernorm_bias", (MEAN, f"{MEAN}.to(x.dtype).float()"), f"{L} with the mean rounded to float16"),
    (
        "layernorm_bias",
        (MEAN, "x.mean(-1, keepdim=True).float()"),
        (VARIANCE, "((x * x).mean(-1, keepdim=True) - x.mean(-1, keepdim=True) ** 2).clamp(min=0).float()"),
        f"{L} with the variance as E[x^2] - E[x]^2 in float16",
    ),
    (
        "layernorm_bias",
        (" + bias.float()).to(x.dtype)", ").to(x.dtype) + bias"),
        f"{L} with (x - mean) * rstd * weight rounded to float16 before the bias",
    ),
    ("layernorm_no_weight", NO_EPS, f"{L} without eps"),
    (ADAPTIVE, (" - x_fp32.mean(dim=-1, keepdim=True)", ""), f"{L} without the mean subtracted, as RMSNorm"),
    (ADAPTIVE, (" + shift.float()", ""), f"{L} without the shift"),
    (ADAPTIVE, ("(1.0 + scale.float())", "scale.float()"), f"{L} with scale instead of 1 + scale"),
    (
        ADAPTIVE,
        *(("1.0 + scale.float()", "1.0 + shift.float()"), ("(scaled + shift", "(scaled + scale")),
        f"{L} with scale and shift swapped",
    ),
    (
        ADAPTIVE,
        ("centered * rstd * (1.0 + scale.float())", "((centered * rstd).to(x.dtype) * (1 + scale)).float()"),
        f"{L} with (x - mean) * rstd and 1 + scale and their product rounded to float16",
    ),
    (BACKWARD, (f"({OF_NORM})", "scaled"), "dx: dx of a constant rstd, w * rstd alone"),
    (
        BACKWARD,
        (".mean(dim=-1, keepdim=True)", ".sum(dim=-1, keepdim=True)"),
        "dx: dx with the sum of w * n instead of its mean",
    ),
    (BACKWARD, ("dy.float() * weight.float()", "dy.float()"), "dx: dx without the weight"),
    (
        BACKWARD,
        ("(scaled * normalized)", "(dy.float() * normalized)"),
        "dx: dx with dy instead of dy * weight in the mean",
    ),
    (
        BACKWARD,
        ("(scaled * norm", "(scaled * x.float() + 0 * norm"),
        "dx: dx with x instead of the normalized x in the",
    ),
    (BACKWARD, (f"({OF_NORM}) * rstd[:, None]", OF_NORM), "dx: dx without the last factor rstd"),
    ("layernorm_backward", ("(centered - ", "(scaled - "), "dx: dx without mean(w) subtracted, as RMSNorm's"),
    (f"fused_add_{BACKWARD}", (" + dnew_residual.float()", ""), "dx: dx without dnew_residual"),
    (
        f"fused_add_{BACKWARD}",
        *(
            ("scaled = dy.float()", "scaled = (dy.float() + dnew_residual.float())"),
            ("(dx + dnew_residual.float())", "dx"),
        ),
        "dx: dx with dnew_residual added to dy, before the norm's backward pass",
    ),
    (f"fused_add_{BACKWARD}", (f"({OF_NORM})", "scaled"), "dx: dx of a constant rstd, w * rstd alone"),
]


@pytest.mark.parametrize("made", MISTAKES, ids=lambda made: f"{made[0]}: {made[-1]}")
def test_a_mistake_is_named(tmp_path, made):
    operator, *changes, said = made
    hidden = 1152 if operator.startswith("layernorm") else 4096 if "rounded" in said else 512
    named = name(change_reference(operator, *chain(*changes)), find_operator(operator).define(hidden), tmp_path)
    output, _, what = said.partition(": ") if said.startswith(("out", "new_residual", "dx")) else ("", "", said)
    sentence = f"{output}: the output equals {what}" if output else f"the output equals {what}"
    assert any(each.startswith(sentence) for each in named), named


def test_the_definition_of_another_convention_is_offered_if_there_is_one(tmp_path):
    llama = find_operator("fused_add_rmsnorm_llama").define(128).reference
    (named,) = name(llama, find_operator("fused_add_rmsnorm").define(128), tmp_path)[:1]
    assert "--definition fused_add_rmsnorm_llama_d128" in named
