"""RMSNorm without a weight, and with more after it: right kernels pass all hard rows, and wrong ones are named."""

from __future__ import annotations

import pytest
import torch

from fib_rmsnorm.building.native import build_native, find_cuda_home
from fib_rmsnorm.errors import InputError
from fib_rmsnorm.evaluation.judging.judge_client import name_mistakes
from fib_rmsnorm.operators import define_by_name, find_operator, list_candidates, recognise_source
from fib_rmsnorm.registry import generate_workloads
from fib_rmsnorm.registry.sources.starting_kernel import make_starting_kernel
from support.mistakes import judge_in_process
from support.starting_kernels import draft_starting_kernel, find_wrong, find_wrong_triton

OPERATORS = ("rmsnorm_no_weight", "rmsnorm_bias", "rmsnorm_relu", "rmsnorm_silu_gate")
WEIGHTED = ("rmsnorm", "rmsnorm_bias", "rmsnorm_relu", "rmsnorm_silu_gate")


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


@pytest.mark.parametrize(
    ("dtype", "hidden"), [("float16", 16384), ("bfloat16", 1152), ("float32", 128), ("float32", 16384)]
)
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


def list_definitions(operator):
    """Definitions of all dtypes, and of a weight in float32."""
    known = find_operator(operator)
    mixed = [known.define(384, "bf16", "float32")] if operator in WEIGHTED else []
    return [*(known.define(384, dtype) for dtype in ("float16", "bfloat16", "float32")), *mixed]


@pytest.mark.compile
@pytest.mark.parametrize("operator", ["rmsnorm_bias", "rmsnorm_silu_gate"])  # a build takes seconds
def test_its_cpp_kernel_is_right(operator, tmp_path):
    assert find_wrong("cpp", list_definitions(operator), tmp_path) == []


@pytest.mark.compile
def test_its_triton_kernel_is_right():
    assert find_wrong_triton(each for operator in ("rmsnorm", *OPERATORS) for each in list_definitions(operator)) == []


@pytest.mark.compile
@pytest.mark.skipif(find_cuda_home() is None, reason="needs nvcc")
def test_its_cuda_kernel_compiles(tmp_path):
    solution = draft_starting_kernel(find_operator("rmsnorm_silu_gate").define(384), "cuda", tmp_path)
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
RELU = """\
import torch


def run(x, weight, eps):
    wide, weight = x.float(), weight.float()
    rstd = torch.rsqrt(wide.square().mean(dim=-1, keepdim=True) + eps)
    return torch.relu(wide * rstd * weight).to(x.dtype)
"""
GATE = """\
import torch
from torch.nn.functional import silu


def run(x, gate, weight, eps):
    wide, gate, weight = x.float(), gate.float(), weight.float()
    rstd = torch.rsqrt(wide.square().mean(dim=-1, keepdim=True) + eps)
    return (wide * rstd * weight * silu(gate)).to(x.dtype)
"""
WRONG = [
    ("rmsnorm_relu", RELU, "torch.relu(", "(", "without the ReLU"),
    ("rmsnorm_relu", RELU, "x.float()", "x.float().relu()", "with the ReLU of x, before the mean square"),
    (
        "rmsnorm_relu",
        RELU,
        "torch.relu(wide * rstd * weight)",
        "(torch.relu(wide * rstd) * weight)",
        "with the ReLU before the weight",
    ),
    ("rmsnorm_relu", RELU, "torch.relu(", "torch.nn.functional.gelu(", "with gelu instead of ReLU"),
    ("rmsnorm_silu_gate", GATE, " * silu(gate)", "", "without the gate"),
    ("rmsnorm_silu_gate", GATE, "silu(gate)", "gate", "with the gate itself instead of silu(gate)"),
    ("rmsnorm_silu_gate", GATE, "silu(gate)", "gate.sigmoid()", "with sigmoid(gate) instead of silu(gate)"),
    (
        "rmsnorm_silu_gate",
        GATE,
        "wide, gate, weight = x.float(), gate.float()",
        "gate, wide, weight = x.float(), gate.float()",
        "with x and gate swapped",
    ),
    (
        "rmsnorm_silu_gate",
        GATE.replace(" * silu(gate)", ""),
        "x.float()",
        "x.float() * silu(gate.float())",
        "of x * silu(gate), as in Mamba-2 without norm_before_gate",
    ),
    (
        "rmsnorm_silu_gate",
        GATE,
        "wide * rstd * weight",
        "(wide * rstd).to(x.dtype) * weight.to(x.dtype)",
        "with x * rstd and its product with the weight rounded to float16, as in Hugging Face's Qwen3-Next",
    ),
    ("rmsnorm_silu_gate", GATE, " + eps", "", "without eps"),
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
    ("rmsnorm_no_weight", NO_WEIGHT, "wide.square()", "x.square().float()", "with squares in float16"),
    ("rmsnorm_no_weight", NO_WEIGHT, "(wide * torch", "(wide + 0 * torch", "reduced to x itself"),
]


@pytest.mark.parametrize(("operator", "right", "old", "new", "named"), WRONG, ids=[each[-1] for each in WRONG])
def test_a_mistake_is_named(tmp_path, operator, right, old, new, named):
    assert right.count(old) == 1
    definition = find_operator(operator).define(4096 if "rounded" in named else 256)
    suspects = judge(load(right.replace(old, new)), definition, tmp_path)
    (sentence,) = name_mistakes(suspects, ["out"])
    assert sentence.startswith(f"the output equals RMSNorm {named}: ")
