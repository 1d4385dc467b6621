"""A verdict names the usual mistakes, and names none where there is another."""

from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from fib_rmsnorm.evaluation.judging.expected_outputs import ExpectedOutput, ExpectedOutputs
from fib_rmsnorm.evaluation.judging.mistake_finding import explain_outputs
from fib_rmsnorm.evaluation.judging.output_comparison import OutputPair, compare
from fib_rmsnorm.operators import ExactOutput, Mistake, Recognition, RmsNorm
from support.kernels import change
from support.mistakes import assert_named, load
from support.mistakes import name as find_names

# Kernels with a usual mistake each, a change of the reference as old and new text, and what verdicts call it:
# `{hidden}` and `{dtype}` depend on the Definition.
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

DTYPES = ("float16", "bfloat16", "float32")
NAMED = [
    *((name, 256, "float16", 16) for name in MISTAKEN),
    # Over 4096 columns, a GPU's threads add to another rstd than any order that the mistakes emulate.
    ("squares_added_by_threads", 4096, "float16", 16),
    *(
        pytest.param(name, 256, "float16", batch, marks=pytest.mark.fuzz)
        for name in sorted(set(MISTAKEN) - {"first_row_for_all", "all_rows_together"})
        for batch in (1, 2)
    ),
    *(pytest.param(name, 256, dtype, 16, marks=pytest.mark.fuzz) for dtype in DTYPES[1:] for name in OF_ANY_DTYPE),
]


@pytest.mark.parametrize(("name", "hidden", "dtype", "batch"), NAMED)
def test_is_named(tmp_path, name, hidden, dtype, batch):
    definition, (run, mistake) = RmsNorm().define(hidden, dtype), MISTAKEN[name]
    assert_named("\n".join(find_names(run, definition, tmp_path, batch)), mistake, definition)


def compute_exact(x, weight, eps):
    return RmsNorm().compute_exact({"x": x, "weight": weight, "eps": eps}, {"out": x.dtype})["out"].values


@pytest.mark.parametrize("dtype", DTYPES)
def test_nothing_is_named_where_the_weight_is_an_earlier_one(tmp_path, dtype):
    """As kernels do that convert the weight at their first call."""
    kept = []

    def run(x, weight, eps):
        kept.append(weight.clone())
        return compute_exact(x, kept[0], eps)

    definition = RmsNorm().define(256, dtype)
    assert find_names(run, definition, tmp_path) == []


OUTPUTS_WRONG_OTHERWISE = {
    "NaN": lambda out: out * float("nan"),
    "zeros": lambda out: out * 0,
    "noise": lambda out: out * (1 + 0.01 * torch.randn(out.shape)),
    "scaled rows": lambda out: out * (1 + 0.1 * torch.rand(out.shape[0], 1)),
    "a constant factor": lambda out: out * 1.05,
    "reversed columns": lambda out: out.flip(1),
    "reversed rows": lambda out: out.flip(0),
    "sign": lambda out: -out,
    "rows left out": lambda out: out * (torch.arange(out.shape[0]) % 2).unsqueeze(1),
    "one element": lambda out: out + torch.nn.functional.one_hot(torch.tensor(77), out.shape[1]),
    "a bias": lambda out: out + 0.01,
}


@pytest.mark.parametrize("dtype", ["float16", pytest.param("float32", marks=pytest.mark.fuzz)])
@pytest.mark.parametrize("change", OUTPUTS_WRONG_OTHERWISE)
def test_nothing_is_named_where_outputs_are_wrong_otherwise(tmp_path, change, dtype):
    torch.manual_seed(0)

    def run(x, weight, eps):
        out = compute_exact(x, weight, eps)
        return OUTPUTS_WRONG_OTHERWISE[change](out).to(out.dtype)

    definition = RmsNorm().define(256, dtype)
    assert find_names(run, definition, tmp_path) == []


@pytest.mark.parametrize("squares", [torch.float16, torch.float32], ids=["mistaken", "right"])
def test_a_case_that_the_correct_answer_explains_too_settles_nothing(squares, tmp_path):
    """Adding squares in float16 in a GPU's order, which nobody predicts, changed rstd of usual rows by as little."""

    def run(x, weight, eps):
        total = x.to(squares).square()
        while total.shape[1] > 1:
            total = total[:, 0::2] + total[:, 1::2]
        return (x.float() * torch.rsqrt(total.float() / x.shape[1] + eps) * 1.0005 * weight.float()).to(x.dtype)

    definition = RmsNorm().define(256, "float16")
    named = "\n".join(find_names(run, definition, tmp_path))
    assert not named if squares is torch.float32 else "with mean(x^2) in float16: " in named


def test_an_output_without_rows_is_a_table_of_one(monkeypatch):
    """Of the right values 0, 1, 2, ... a wrong output has all twice."""
    right = torch.arange(128.0)

    def mistakes(output, inputs, rows, columns):
        assert output == "y" and inputs == {"a": right}
        for name, factor in (("thrice", 3), ("twice", 2)):
            yield Mistake(name, 1, partial(torch.mul, right.reshape(1, -1)[rows][:, columns], factor))

    monkeypatch.setattr("fib_rmsnorm.operators.recognition.find_operator", lambda _: SimpleNamespace(mistakes=mistakes))
    recognition = Recognition({"a": "x", "y": "out"}, {"rows": "rows"}, "any", {"out": "float32"}, {}, is_own=True)
    definition = SimpleNamespace(outputs={"out": SimpleNamespace(shape=["hidden"])})
    request: Any = SimpleNamespace(recognition=recognition, definition=definition, suspects=None, strided={})
    case: Any = SimpleNamespace(inputs={"x": right})
    expected = ExpectedOutputs(case, {"out": ExpectedOutput(ExactOutput(right))})
    found = explain_outputs(request, expected, {"out": right * 2}, {"out": compare(OutputPair(right * 2, right))})
    assert [mistake.sentence for mistake in found["out"]] == ["twice"]
