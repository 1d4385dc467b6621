"""A verdict names the usual mistakes, and names none where there is another."""

from __future__ import annotations

import math
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from fib_rmsnorm.evaluation.judging.expected_outputs import ExpectedOutput, ExpectedOutputs
from fib_rmsnorm.evaluation.judging.mistake_finding import explain_outputs
from fib_rmsnorm.evaluation.judging.output_comparison import OutputPair, compare
from fib_rmsnorm.operators import ExactOutput, Mistake, Recognition, RmsNorm
from support.mistaken_kernels import MISTAKEN, OF_ANY_DTYPE
from support.mistakes import assert_named
from support.mistakes import name as find_names

DTYPES = ("float16", "bfloat16", "float32")
TOO_SMALL = {"bfloat16": {"divisor_less_one"}, "float32": set()}
"""Mistakes that are not wrong on inputs of other dtypes."""


NAMED = [
    *((name, 256, "float16", 16) for name in MISTAKEN),
    # Over 4096 columns, a GPU's threads add to another rstd than any order that the mistakes emulate.
    ("squares_added_by_threads", 4096, "float16", 16),
    *(
        pytest.param(name, 256, "float16", batch, marks=pytest.mark.fuzz)
        for name in sorted(set(MISTAKEN) - {"first_row_for_all", "all_rows_together"})
        for batch in (1, 2)
    ),
    *(
        pytest.param(name, 256, dtype, 16, marks=pytest.mark.fuzz)
        for dtype, too_small in TOO_SMALL.items()
        for name in OF_ANY_DTYPE
        if name not in too_small
    ),
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


SHAPES = {"[rows, hidden]": (6, 128), "[rows]": (6,), "[hidden]": (128,), "[rows, heads, dim]": (6, 4, 32)}


@pytest.mark.parametrize("shape", SHAPES)
def test_outputs_of_other_shapes_are_tables_of_rows(monkeypatch, shape):
    """Of the right values 0, 1, 2, ... a wrong output has all twice."""
    size, axes = SHAPES[shape], shape.strip("[]").split(", ")
    right = torch.arange(math.prod(size), dtype=torch.float32).reshape(size)
    actual = right * 2

    def mistakes(output, inputs, rows, columns):
        assert output == "y" and inputs == {"a": right}
        table = right.reshape(6, -1) if axes[0] == "rows" else right.reshape(1, -1)
        for name, factor in (("thrice", 3), ("twice", 2)):
            yield Mistake(name, 1, partial(torch.mul, table[rows][:, columns], factor))

    operator = SimpleNamespace(mistakes=mistakes)
    monkeypatch.setattr("fib_rmsnorm.operators.recognition.find_operator", lambda _: operator)
    tensors, rows = {"a": "x", "y": "out"}, {"rows": "rows"}
    recognition = Recognition(tensors, rows, "any", {"out": "float32"}, {}, is_own=True)
    outputs = {"out": SimpleNamespace(shape=axes)}
    definition = SimpleNamespace(outputs=outputs)
    request: Any = SimpleNamespace(recognition=recognition, definition=definition, suspects=None, strided=[])
    case: Any = SimpleNamespace(inputs={"x": right})
    expected = ExpectedOutputs(case, {"out": ExpectedOutput(ExactOutput(right))})
    found = explain_outputs(request, expected, {"out": actual}, {"out": compare(OutputPair(actual, right))})
    assert [mistake.sentence for mistake in found["out"]] == ["twice"]
