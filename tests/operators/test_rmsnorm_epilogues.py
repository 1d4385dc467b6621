"""RMSNorm without a weight, and with more after it: right kernels pass all hard rows, and wrong ones are named."""

from __future__ import annotations

import pytest
import torch

from fib_rmsnorm.building.native import build_native, find_cuda_home
from fib_rmsnorm.errors import InputError
from fib_rmsnorm.evaluation.bench import BenchOptions, bench
from fib_rmsnorm.evaluation.judging.mistake_finding import name_mistakes
from fib_rmsnorm.evaluation.scheduler import Evaluated
from fib_rmsnorm.operators import define_by_name, find_operator, list_candidates, recognise_source
from fib_rmsnorm.registry import generate_workloads
from fib_rmsnorm.registry.sources.draft import draft_solution
from fib_rmsnorm.registry.sources.starting_kernel import make_starting_kernel
from fib_rmsnorm.schema import EvaluationStatus
from support.mistakes import judge_in_process
from support.registries import QUICK, make_registry

OPERATORS = ("rmsnorm_no_weight", "rmsnorm_bias")
WEIGHTED = ("rmsnorm", "rmsnorm_bias")


def load(source):
    namespace = {}
    exec(source, namespace)
    return namespace["run"]


def judge(run, definition, folder, batch=16):
    (workload,) = generate_workloads(definition, [batch])
    return judge_in_process(run, definition, workload, folder)


@pytest.mark.parametrize("operator", OPERATORS)
@pytest.mark.parametrize(("dtype", "suffix"), [("fp16", ""), ("bf16", "_bf16"), ("fp32", "_fp32")])
def test_its_definitions_are_named_for_what_differs(operator, dtype, suffix):
    definition = find_operator(operator).define(256, dtype)
    assert definition.name == f"{operator}_d256{suffix}"
    assert recognise_source(definition).operator == operator
    assert define_by_name(definition.name) == definition


@pytest.mark.parametrize("operator", WEIGHTED)
def test_a_weight_in_float32_is_in_the_name(operator):
    definition = find_operator(operator).define(256, "bf16", "float32")
    assert definition.name == f"{operator}_d256_bf16_weight_fp32"
    columns = [name for name in definition.inputs if name in ("weight", "bias")]
    assert {definition.inputs[name].dtype.value for name in columns} == {"float32"}
    assert recognise_source(definition).operator == operator
    assert define_by_name(definition.name) == definition
    assert find_operator(operator).define(256, "fp32", "fp32").name == f"{operator}_d256_fp32"


def test_a_weight_that_cannot_be_is_refused():
    with pytest.raises(InputError, match=r"weight 'none': choose same or float32; without .* rmsnorm_no_weight"):
        find_operator("rmsnorm").define(256, "fp16", "none")
    assert define_by_name("rmsnorm_llama_d256_weight_fp32") is None


@pytest.mark.parametrize("hidden", [128, 1152, 16384])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
@pytest.mark.parametrize("operator", OPERATORS)
def test_its_own_reference_is_right(tmp_path, operator, dtype, hidden):
    definition = find_operator(operator).define(hidden, dtype)
    assert judge(load(definition.reference), definition, tmp_path, batch=10) == {}


@pytest.mark.parametrize("operator", WEIGHTED)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_it_is_right_with_a_weight_in_float32(tmp_path, operator, dtype):
    definition = find_operator(operator).define(512, dtype, "float32")
    assert judge(load(definition.reference), definition, tmp_path) == {}


def in_turn(x, weight, bias, eps):
    """A plain loop in float32, with the terms of the end in another order."""
    wide = x.float()
    total = torch.zeros_like(wide[:, :1])
    for column in wide.pow(2).split(1, dim=1):
        total += column
    return torch.addcmul(bias.float(), wide, weight.float() / torch.sqrt(total / x.shape[1] + eps)).to(x.dtype)


@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_what_cancels_may_have_the_errors_of_its_terms(tmp_path, dtype):
    definition = find_operator("rmsnorm_bias").define(4096, dtype)
    assert judge(in_turn, definition, tmp_path, batch=8) == {}


def test_tensors_of_one_shape_may_be_in_any_order():
    definition = find_operator("rmsnorm_bias").define(128)
    other = definition.model_copy(update={"reference": "def run(x, b, w): ...\n"})
    found = [each[0].tensors for each in list_candidates(other) if each[0].operator == "rmsnorm_bias"]
    assert [(each["weight"], each["bias"]) for each in found] == [("weight", "bias"), ("bias", "weight")]


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
@pytest.mark.parametrize("operator", OPERATORS)
def test_its_python_kernel_is_right(tmp_path, operator, dtype):
    definition = find_operator(operator).define(384, dtype)
    kernel = make_starting_kernel(definition, "python")
    assert kernel.kind == "kernel"
    assert judge(load(kernel.text), definition, tmp_path) == {}


def test_kernels_of_one_dtype_are_not_offered_for_two():
    definition = find_operator("rmsnorm").define(384, "float16", "float32")
    kinds = {language: make_starting_kernel(definition, language).kind for language in ("triton", "cuda", "cutedsl")}
    assert kinds == {"triton": "kernel", "cuda": "kernel", "cutedsl": "reference"}


NATIVE = [
    find_operator("rmsnorm").define(384, "float16", "float32"),
    find_operator("rmsnorm_no_weight").define(384, "bfloat16"),
    find_operator("rmsnorm_bias").define(384, "float32"),
]


def add_kernel(registry, definition, language, suffix):
    """Register what `new` writes, as `try` would read it."""
    file = registry.root / f"{definition.name}_{language}{suffix}"
    file.write_text(make_starting_kernel(definition, language).text)
    draft = draft_solution(registry, file, definition)
    return registry.write_solution(draft.model_copy(update={"name": file.stem}), definition.op_type)


@pytest.mark.slow
def test_its_native_kernels_are_right(tmp_path):
    registry = make_registry(tmp_path, 384, (1,))
    for definition in NATIVE:
        registry.write_definition(definition)
        registry.write_workloads(definition, generate_workloads(definition, (2,)))
        add_kernel(registry, definition, "cpp", ".cpp")
        add_kernel(registry, definition, "triton", ".py")
    events = bench(registry, BenchOptions(settings=QUICK, device="cpu"))
    found = {each.trace.solution: each.trace.evaluation for each in events if isinstance(each, Evaluated)}
    assert len(found) == 2 * len(NATIVE)
    assert {name: each.log for name, each in found.items() if each.status is not EvaluationStatus.PASSED} == {}
    assert {each.judged_by for each in found.values()} == {"rmsnorm", *OPERATORS}


@pytest.mark.slow
@pytest.mark.skipif(find_cuda_home() is None, reason="needs nvcc")
@pytest.mark.parametrize("operator", OPERATORS)
def test_its_cuda_kernel_compiles(operator, tmp_path):
    registry = make_registry(tmp_path)
    add_kernel(registry, find_operator(operator).define(384), "cuda", ".cu")
    (solution,) = registry.solutions().values()
    assert build_native(solution, tmp_path / "cache", "9.0").binary.exists()


BIAS = """\
import torch


def run(x, weight, bias, eps):
    wide = x.float()
    rstd = torch.rsqrt(wide.square().mean(dim=-1, keepdim=True) + eps)
    return (wide * rstd * weight.float() + bias.float()).to(x.dtype)
"""
NO_WEIGHT = """\
import torch


def run(x, eps):
    wide = x.float()
    return (wide * torch.rsqrt(wide.square().mean(dim=-1, keepdim=True) + eps)).to(x.dtype)
"""
WRONG = [
    ("rmsnorm_bias", BIAS, " + bias.float()", "", "without the bias"),
    ("rmsnorm_bias", BIAS, "+ bias", "- bias", "with the bias subtracted"),
    (
        "rmsnorm_bias",
        BIAS,
        "wide * rstd * weight.float() + bias.float()",
        "(wide * rstd + bias) * weight",
        "with the bias added before the weight",
    ),
    (
        "rmsnorm_bias",
        BIAS,
        "(wide * rstd * weight.float() + bias.float())",
        "(wide * rstd * weight.float()).to(x.dtype).add(bias)",
        "with x * rstd * weight rounded to float16 before the bias",
    ),
    ("rmsnorm_bias", BIAS, " + eps", "", "without eps"),
    (
        "rmsnorm_bias",
        BIAS,
        "* weight.float()",
        "* (1 + weight.float())",
        "with 1 + weight instead of weight, as in Gemma",
    ),
    ("rmsnorm_no_weight", NO_WEIGHT, " + eps", "", "without eps"),
    ("rmsnorm_no_weight", NO_WEIGHT, "wide.square()", "x.square().float()", "with squares in float16"),
    ("rmsnorm_no_weight", NO_WEIGHT, "(wide * torch", "(wide + 0 * torch", "reduced to x itself"),
]


@pytest.mark.parametrize(("operator", "right", "old", "new", "named"), WRONG, ids=[each[-1] for each in WRONG])
def test_a_mistake_is_named(tmp_path, operator, right, old, new, named):
    assert right.count(old) == 1
    definition = find_operator(operator).define(256)
    suspects = judge(load(right.replace(old, new)), definition, tmp_path)
    (sentence,) = name_mistakes(suspects, ["out"])
    assert sentence.startswith(f"the output equals RMSNorm {named}: ")
