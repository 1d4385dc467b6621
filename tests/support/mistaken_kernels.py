"""Kernels with a usual mistake each, and what verdicts call it: `{hidden}` and `{dtype}` depend on the Definition.

A mistake is a change of the reference, as old and new text.
"""

from __future__ import annotations

import torch

from fib_rmsnorm.operators import RmsNorm
from support.kernels import change
from support.mistakes import load

SQUARES, MEAN = "x_fp32.pow(2)", "x_fp32.pow(2).mean(dim=-1, keepdim=True)"
ROOT = "torch.rsqrt(mean_square + eps)"
WEIGHT, OUT = "weight.to(torch.float32)", "(x_fp32 * rstd * weight.to(torch.float32)).to(x.dtype)"
TORCHS = "torch.nn.functional.rms_norm(x_fp32, x.shape[-1:], weight.float()).to(x.dtype)"
OF_WEIGHTED = "with x * rstd rounded to {dtype} before the weight, as in Hugging Face's LlamaRMSNorm"

OF_ANY_DTYPE = {
    "eps_as_a_limit": ("with eps as a lower limit of mean(x^2)", "mean_square + eps", "mean_square.clamp(min=eps)"),
    "eps_twice": ("with eps added twice", SQUARES, f"({SQUARES} + eps)"),
    "eps_of_torch": ("with eps=1.19e-07 although another is right", OUT, TORCHS),
    "last_columns_zero": (
        "with zeros after the first {but_64} of {hidden} columns",
        OUT,
        f"torch.cat([{OUT}[:, :-64], torch.zeros_like(x[:, -64:])], dim=1)",
    ),
    "divisor_less_one": (
        "with the sum of squares divided by {hidden_less_one}",
        MEAN,
        f"{SQUARES}.sum(dim=-1, keepdim=True) / (x.shape[-1] - 1)",
    ),
    "sum_not_mean": ("with the sum of squares instead of their mean", ".mean(", ".sum("),
    "no_root": ("without the root", ROOT, "1 / (mean_square + eps)"),
    "multiplied_by_the_root": ("multiplied by the root instead of divided by it", "rsqrt", "sqrt"),
    "half_the_columns": (
        "with the squares of only the first {half} of {hidden} columns",
        SQUARES,
        "x_fp32[:, : x.shape[-1] // 2].pow(2)",
    ),
    "variance": ("with the unbiased variance instead of the mean square", f"{SQUARES}.mean", "x_fp32.var"),
    "first_row_for_all": ("with the first row's mean square for all rows", MEAN, f"{MEAN}[0]"),
    "all_rows_together": ("with one mean square of all rows", MEAN, f"{SQUARES}.mean()"),
    "one_plus_weight": ("with 1 + weight instead of weight, as in Gemma", WEIGHT, f"(1 + {WEIGHT})"),
    "no_weight": ("without the weight", f" * {WEIGHT}", ""),
    "weight_added": ("with the weight added instead of multiplied", f"rstd * {WEIGHT}", f"rstd + {WEIGHT}"),
    "weight_of_the_next_column": ("with the weight of the next column", WEIGHT, f"{WEIGHT}.roll(-1)"),
    "weight_before_the_statistic": (
        "RMSNorm of x * weight",
        *("x_fp32 = x.to(torch.float32)", f"x_fp32 = x.to(torch.float32) * {WEIGHT}"),
        *(f"rstd * {WEIGHT})", "rstd)"),
    ),
}
"""By name: the mistake, and what is changed."""

OF_16_BITS = {
    "hugging_face_llama": (OF_WEIGHTED.removeprefix("with x * rstd "), OUT, "weight * (x_fp32 * rstd).to(x.dtype)"),
    "everything_narrow": (
        "with every step in {dtype}",
        *("x_fp32 = x.to(torch.float32)", "x_fp32 = x"),
        *(WEIGHT, "weight"),
    ),
    "sum_in_turn": (
        "with mean(x^2) in {dtype}",
        MEAN,
        "sum((x * x).split(1, dim=1), torch.zeros_like(x[:, :1])).float() / x.shape[-1]",
    ),
    "squares_added_by_threads": ("with mean(x^2) in {dtype}", MEAN, "mean_of_threads(x)"),
    "root_rounded": ("with the reciprocal root rounded to bfloat16", ROOT, f"{ROOT}.bfloat16().float()"),
    "through_another_dtype": (
        "with the output rounded to {other_dtype} on its way",
        ").to(x.dtype)",
        ").to(torch.float16 if x.dtype is torch.bfloat16 else torch.bfloat16).to(x.dtype)",
    ),
    "llama_without_eps": (
        f"without eps and {OF_WEIGHTED}",
        *(" + eps", ""),
        *(OUT, "weight * (x_fp32 * rstd).to(x.dtype)"),
    ),
}
"""Those whose mistake is another on inputs of other dtypes."""


def mean_of_threads(x):
    """The mean square of a GPU: each thread adds vectors of 8, whose first square is fused with the next."""
    batch, hidden = x.shape
    squares = (x * x).view(batch, -1, min(hidden // 8, 128), 4, 2)
    wide = x.float().view(squares.shape)[..., 0].square() + squares[..., 1].float()
    parts = wide.to(x.dtype).sum(-1, dtype=torch.float32).to(x.dtype)
    total = parts[:, 0]
    for part in parts.unbind(1)[1:]:
        total = total + part
    while total.shape[1] > 1:
        total = total[:, : total.shape[1] // 2] + total[:, total.shape[1] // 2 :]
    return total.float() / hidden


MISTAKEN = {
    name: (load(change(RmsNorm.reference, *changes), mean_of_threads=mean_of_threads), mistake)
    for name, (mistake, *changes) in {**OF_ANY_DTYPE, **OF_16_BITS}.items()
}
"""By name: the kernel and its mistake."""
