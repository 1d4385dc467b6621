"""RMSNorm in float8, with a scale that is given or one for each row: right kernels pass, and wrong ones are named."""

from __future__ import annotations

import pytest
import torch

from fib_rmsnorm.evaluation.judging.judge_client import name_mistakes
from fib_rmsnorm.operators import define_by_name, find_operator, list_derived, recognise_source
from fib_rmsnorm.operators.norms.float64_rows import round_once
from fib_rmsnorm.registry import generate_workloads
from fib_rmsnorm.registry.sources.starting_kernel import make_starting_kernel
from fib_rmsnorm.schema import Definition
from support.mistakes import judge_in_process
from support.starting_kernels import find_wrong

FORMS = {"": torch.float8_e4m3fn, "_e5m2": torch.float8_e5m2}
LARGEST = {"": 448.0, "_e5m2": 57344.0}
OPERATORS = [f"{name}{form}" for name in ("rmsnorm_fp8", "rmsnorm_fp8_per_row") for form in FORMS]


def load(source):
    namespace = {}
    exec(source, namespace)
    return namespace["run"]


def judge(run, definition, folder, batch=14):
    (workload,) = generate_workloads(definition, [batch])
    return judge_in_process(run, definition, workload, folder)


@pytest.mark.parametrize("form", FORMS)
def test_float64_is_rounded_to_the_nearest_number_of_a_format(form):
    numbers = torch.arange(256, dtype=torch.uint8).view(FORMS[form]).float()
    numbers = numbers[numbers.isfinite()].unique().double()
    middles = (numbers[1:] + numbers[:-1]) / 2
    values = torch.cat([numbers, middles, middles * (1 + 2**-40), middles * (1 - 2**-40)])
    distances = (values[:, None] - numbers).abs()
    even = numbers.to(FORMS[form]).view(torch.uint8) % 2 == 0
    expected = torch.where(even, distances, distances * (1 + 2**-50)).argmin(dim=1)
    assert torch.equal(round_once(values, FORMS[form]).double(), numbers[expected])


@pytest.mark.parametrize("operator", OPERATORS)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_its_own_reference_is_right(tmp_path, operator, dtype):
    definition = find_operator(operator).define(1152, dtype)
    assert recognise_source(definition).operator == operator
    assert define_by_name(definition.name) == definition
    assert judge(load(definition.reference), definition, tmp_path) == {}


@pytest.mark.parametrize("hidden", [128, 16384])
@pytest.mark.parametrize("operator", ["rmsnorm_fp8", "rmsnorm_fp8_per_row"])
def test_it_is_right_in_short_and_long_rows(tmp_path, operator, hidden):
    definition = find_operator(operator).define(hidden, "bfloat16", "float32")
    assert judge(load(definition.reference), definition, tmp_path, batch=7) == {}


def test_a_scale_may_be_a_tensor_of_one_element(tmp_path):
    record = find_operator("rmsnorm_fp8").define(256).model_dump()
    record["axes"]["one"] = {"type": "const", "value": 1}
    record["inputs"]["out_scale"]["shape"] = ["one"]
    definition = Definition.model_validate(record)
    assert list_derived(definition) == ["out_scale"]
    assert recognise_source(definition).operator == "rmsnorm_fp8"
    assert judge(load(definition.reference), definition, tmp_path) == {}
    assert make_starting_kernel(definition, "cpp").kind == "skeleton"  # our kernels take a number


@pytest.mark.compile
def test_its_cpp_kernel_is_right(tmp_path):
    both = [find_operator(f"rmsnorm_fp8_per_row{form}") for form in FORMS]
    definitions = [each.define(384, dtype) for each in both for dtype in ("float16", "bfloat16", "float32")]
    assert find_wrong("cpp", definitions, tmp_path) == []


STATIC = """\
import torch


def run(x, weight, out_scale, eps):
    wide, weight = x.float(), weight.float()
    rstd = torch.rsqrt(wide.square().mean(dim=-1, keepdim=True) + eps)
    return (wide * rstd * weight * (1 / out_scale)).clamp(-LARGEST, LARGEST).to(FORM)
"""
PER_ROW = """\
import torch


def run(x, weight, eps):
    wide, weight = x.float(), weight.float()
    n = wide * torch.rsqrt(wide.square().mean(dim=-1, keepdim=True) + eps)
    y = n * weight
    scale = (y.abs().amax(dim=-1, keepdim=True) / LARGEST).clamp(min=1 / (LARGEST * 512))
    return (y / scale).clamp(-LARGEST, LARGEST).to(FORM), scale[:, 0]
"""
WRONG = [
    (STATIC, "* (1 / out_scale)", "* out_scale", {"out": "multiplied by the scale instead of divided by it"}),
    (STATIC, "* (1 / out_scale)", "", {"out": "without the scale"}),
    (STATIC, "clamp(-LARGEST, LARGEST)", "clamp(-240, 240)", {"out": "limited to 240"}),
    (STATIC, " + eps", "", {"out": "without eps"}),
    (
        STATIC,
        "wide * rstd * weight",
        "((wide * rstd).to(x.dtype) * weight.to(x.dtype)).float()",
        {"out": "with x * rstd and its product with the weight rounded to bfloat16, as in vLLM"},
    ),
    (PER_ROW, ".clamp(min=1 / (LARGEST * 512))", "", {"out_scale": "with a scale that has no lower limit"}),
    (PER_ROW, "y.abs()", "y", {"out": "with max(y) instead of max|y|"}),
    (PER_ROW, "scale[:, 0]", "1 / scale[:, 0]", {"out_scale": "with the reciprocal of the scale"}),
    (
        PER_ROW,
        "y.abs()",
        "n.abs()",
        {"out": "with the largest x * rstd, before the weight"},
    ),
]


def fill(source, form):
    return source.replace("LARGEST", str(LARGEST[form])).replace("FORM", str(FORMS[form]))


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("source", [STATIC, PER_ROW], ids=["static", "per row"])
def test_a_right_kernel_that_divides_otherwise_passes(tmp_path, source, form):
    operator = ("rmsnorm_fp8" if source is STATIC else "rmsnorm_fp8_per_row") + form
    assert judge(load(fill(source, form)), find_operator(operator).define(4096), tmp_path) == {}


@pytest.mark.parametrize(("source", "old", "new", "named"), WRONG, ids=[next(iter(each[3].values())) for each in WRONG])
def test_a_mistake_is_named(tmp_path, source, old, new, named):
    assert source.count(old) == 1
    operator = find_operator("rmsnorm_fp8" if source is STATIC else "rmsnorm_fp8_per_row")
    dtype = "bfloat16" if "vLLM" in str(named) else "float16"
    suspects = judge(load(fill(source.replace(old, new), "")), operator.define(512, dtype), tmp_path)
    sentences = name_mistakes(suspects, list(operator.outputs))
    for output, what in named.items():
        prefix = f"{output}: " if len(operator.outputs) > 1 else ""
        assert any(each.startswith(f"{prefix}the output equals RMSNorm {what}: ") for each in sentences), suspects


def test_what_is_off_by_a_few_percent_is_wrong(tmp_path):
    """By the tolerance of float8, a whole step, it would be right."""
    off = STATIC.replace("* (1 / out_scale)", "* (0.97 / out_scale)")
    assert judge(load(fill(off, "")), find_operator("rmsnorm_fp8").define(512), tmp_path)
