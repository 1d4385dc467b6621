"""LayerNorm: right float32 kernels pass all hard rows, wrong ones fail, and their mistakes are named."""

from __future__ import annotations

import pytest
import torch

from fib_rmsnorm.building.native import build_native, find_cuda_home
from fib_rmsnorm.evaluation.bench import BenchOptions, bench
from fib_rmsnorm.evaluation.judging.output_comparison import OutputPair, compare
from fib_rmsnorm.evaluation.scheduler import Evaluated
from fib_rmsnorm.evaluation.tensors.case_numbers import count_cases
from fib_rmsnorm.evaluation.tensors.inputs import make_case
from fib_rmsnorm.evaluation.tensors.output_buffers import same_bits
from fib_rmsnorm.operators import define_by_name, find_operator, list_candidates, recognise_source
from fib_rmsnorm.registry import generate_workloads
from fib_rmsnorm.registry.sources.draft import draft_solution
from fib_rmsnorm.registry.sources.starting_kernel import make_starting_kernel
from fib_rmsnorm.schema import Definition, EvaluationStatus
from support.mistakes import judge_in_process, name_in_process
from support.norms import workload_of
from support.registries import QUICK, make_registry

DTYPES = ("float16", "bfloat16", "float32")


def define(hidden, dtype="float16", *, bias=True) -> Definition:
    return find_operator("layernorm_bias" if bias else "layernorm").define(hidden, dtype)


def as_arguments(kernel):
    """Call a kernel of x, weight, bias and eps for Definitions without a bias too."""
    return lambda x, weight, eps, bias=None: kernel(x, weight, torch.zeros_like(weight) if bias is None else bias, eps)


def judge(kernel, definition, folder, batch=20):
    (workload,) = generate_workloads(definition, [batch])
    return judge_in_process(as_arguments(kernel), definition, workload, folder)


def reference(x, weight, bias, eps):
    name = "layernorm_bias" if bias.any() else "layernorm"
    namespace = {}
    exec(define_by_name(f"{name}_d128").reference, namespace)
    return namespace["run"](x, weight, *([bias] if bias.any() else []), eps)


def two_passes(x, weight, bias, eps):
    wide = x.float()
    centered = wide - wide.mean(dim=-1, keepdim=True)
    rstd = torch.rsqrt(centered.square().mean(dim=-1, keepdim=True) + eps)
    return (centered * rstd * weight.float() + bias.float()).to(x.dtype)


def library(x, weight, bias, eps):
    return torch.nn.functional.layer_norm(x, x.shape[-1:], weight, bias, eps)


def scaled_first(x, weight, bias, eps):
    wide = x.float()
    variance, mean = torch.var_mean(wide, dim=-1, keepdim=True, correction=0)
    rstd = torch.rsqrt(variance + eps)
    return torch.addcmul(bias.float(), wide * rstd - mean * rstd, weight.float()).to(x.dtype)


def in_turn(x, weight, bias, eps):
    """The mean in a plain loop."""
    wide = x.float()
    total = torch.zeros_like(wide[:, :1])
    for column in wide.split(1, dim=1):
        total += column
    centered = wide - total / x.shape[1]
    rstd = torch.rsqrt(centered.square().mean(dim=-1, keepdim=True) + eps)
    return (centered * rstd * weight.float() + bias.float()).to(x.dtype)


RIGHT = (reference, library, scaled_first, in_turn)


@pytest.mark.parametrize("name", ["layernorm_d4096_fp16", "layernorm_d100", "layernorm_bias_bias_d128", "layernorm"])
def test_other_names_have_no_definition(name):
    assert define_by_name(name) is None


@pytest.mark.parametrize("hidden", [128, 1152, pytest.param(16384, marks=pytest.mark.fuzz)])
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("dtype", DTYPES)
def test_right_float32_kernels_pass(tmp_path, dtype, bias, hidden):
    definition = define(hidden, dtype, bias=bias)
    for kernel in RIGHT if hidden < 16384 else (reference, library):
        assert judge(kernel, definition, tmp_path, batch=10) == {}, kernel.__name__


@pytest.mark.parametrize("dtype", DTYPES)
def test_what_cancels_needs_its_bound(dtype):
    """By the tolerance of the dtype alone, right kernels would fail."""
    definition = define(4096, dtype)
    recognition, (workload,) = recognise_source(definition), generate_workloads(definition, [10])
    beyond = within = 0
    for case in range(count_cases(definition, recognition, workload)):
        inputs = make_case(definition, recognition, workload, case, "cpu").inputs
        (exact,), out = recognition.compute_exact(inputs), library(**inputs)
        beyond += compare(OutputPair(out, exact.values)).mismatched
        within += compare(OutputPair(out, exact.values, exact.bound)).mismatched
    assert beyond > 0 and within == 0


def wrong(body, statistics="centered.square().mean(dim=-1, keepdim=True)"):
    source = f"""
def kernel(x, weight, bias, eps):
    wide, w, b = x.float(), weight.float(), bias.float()
    mean = wide.mean(dim=-1, keepdim=True)
    centered = wide - mean
    var = {statistics}
    rstd = torch.rsqrt(var + eps)
    return ({body}).to(x.dtype)
"""
    namespace = {"torch": torch}
    exec(source, namespace)
    return namespace["kernel"]


FINISH = "centered * rstd * w + b"
WRONG = {
    "without the mean subtracted, as RMSNorm": wrong("wide * rstd * w + b", "wide.square().mean(-1, keepdim=True)"),
    "with the mean subtracted in the variance alone": wrong("wide * rstd * w + b"),
    "with mean(x^2) instead of the variance": wrong(FINISH, "wide.square().mean(-1, keepdim=True)"),
    "with the sum of squares divided by 1151": wrong(FINISH, "wide.var(-1, keepdim=True)"),
    "with eps added outside the root": wrong("centered / (var.sqrt() + eps) * w + b"),
    "without eps": wrong("centered * torch.rsqrt(var) * w + b"),
    "with the padding of a block counted in the variance": wrong(
        FINISH, "(centered.square().sum(-1, keepdim=True) + mean.square() * 896) / 1152"
    ),
    "with the bias added before the weight": wrong("(centered * rstd + b) * w"),
    "without the bias": wrong("centered * rstd * w"),
    "with 1 + weight instead of weight, as in Gemma": wrong("centered * rstd * (1 + w) + b"),
    "with the mean rounded to {dtype}": wrong(
        "(wide - mean.to(x.dtype).float()) * rstd * w + b", "(wide - mean.to(x.dtype).float()).square().mean(-1, True)"
    ),
    "with the variance as E[x^2] - E[x]^2 in {dtype}": wrong(
        "(wide - x.mean(-1, keepdim=True).float()) * rstd * w + b",
        "((x * x).mean(-1, keepdim=True) - x.mean(-1, keepdim=True) ** 2).clamp(min=0).float()",
    ),
    "with (x - mean) * rstd * weight rounded to {dtype} before the bias": wrong(
        "(centered * rstd * w).to(x.dtype) + bias"
    ),
}


@pytest.mark.parametrize("dtype", ["float16", pytest.param("bfloat16", marks=pytest.mark.fuzz)])
@pytest.mark.parametrize("mistake", WRONG)
def test_mistakes_are_named(tmp_path, mistake, dtype):
    definition = define(1152, dtype)
    (workload,) = generate_workloads(definition, [20])
    named = name_in_process(as_arguments(WRONG[mistake]), definition, workload, tmp_path)
    assert f"equals LayerNorm {mistake.format(dtype=dtype)}: " in (named or "")


EXPANDED = wrong(FINISH, "(wide.square().mean(-1, keepdim=True) - mean.square()).clamp(min=0)")


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("dtype", DTYPES)
def test_a_variance_of_two_large_means_is_wrong_in_float32_too(tmp_path, dtype, bias):
    assert judge(EXPANDED, define(4096, dtype, bias=bias), tmp_path) != {}


ROWS = {"shape": ["tokens", "channels"], "dtype": "bfloat16"}
CHANNELS = {"shape": ["channels"], "dtype": "bfloat16"}


def foreign(source: str, inputs: dict) -> Definition:
    """A LayerNorm with names of its own, in its own order."""
    return Definition.model_validate(
        {
            "name": f"ln_{'_'.join(inputs)}",
            "op_type": "norm",
            "axes": {"tokens": {"type": "var"}, "channels": {"type": "const", "value": 256}},
            "inputs": inputs,
            "outputs": {"output": ROWS},
            "reference": source,
        }
    )


CONSTANT = """\
import torch


def run(hidden_states, weight):
    wide = hidden_states.double()
    variance, mean = torch.var_mean(wide, dim=-1, keepdim=True, correction=0)
    return ((wide - mean) / (variance + 1e-5).sqrt() * weight).to(hidden_states.dtype)
"""
SWAPPED = """\
import torch


def run(p, q, tokens, epsilon):
    return torch.nn.functional.layer_norm(tokens.float(), tokens.shape[-1:], q.float(), p.float(), epsilon).bfloat16()
"""
FOREIGN = (
    foreign(CONSTANT, {"hidden_states": ROWS, "weight": CHANNELS}),
    foreign(SWAPPED, {"p": CHANNELS, "q": CHANNELS, "tokens": ROWS, "epsilon": {"shape": None, "dtype": "float32"}}),
)


def test_weight_and_bias_are_matched_in_both_orders():
    found = [each[0].tensors for each in list_candidates(FOREIGN[1]) if each[0].operator == "layernorm_bias"]
    assert [(each["x"], each["weight"], each["bias"]) for each in found] == [("tokens", "p", "q"), ("tokens", "q", "p")]


def test_references_are_probed_by_the_same_inputs_whichever_eps_they_may_hold():
    inputs = {"hidden_states": torch.randn(20, 256).bfloat16(), "weight": torch.randn(256).bfloat16()}
    compared = 0
    for candidates in list_candidates(FOREIGN[0]):
        for index in range(3):
            made = [each.make_hard_case(inputs, index, "seed").inputs for each in candidates]
            compared += len(made) - 1
            assert all(same_bits(made[0][name], other[name]) for other in made for name in inputs)
    assert compared > 30


def test_shapes_of_other_norms_are_not_its_own():
    definition = foreign(CONSTANT, {"x": ROWS, "residual": ROWS, "weight": CHANNELS})
    assert "layernorm" not in {each[0].operator for each in list_candidates(definition)}


def add_solution(registry, definition, name, source, suffix):
    """Register a kernel's text, as `try` would read it."""
    file = registry.root / f"{name}{suffix}"
    file.write_text(source)
    draft = draft_solution(registry, file, definition)
    return registry.write_solution(draft.model_copy(update={"name": name}), definition.op_type)


@pytest.mark.compile
def test_its_kernels_to_start_from_are_right_and_other_references_are_recognised(tmp_path):
    registry = make_registry(tmp_path, 384, (1,))
    own = [define(384, "float16"), define(384, "bfloat16", bias=False)]
    for definition in own:
        registry.write_definition(definition)
        registry.write_workloads(definition, generate_workloads(definition, (2,)))
        for language, suffix in (("cpp", ".cpp"), ("triton", ".py"), ("python", ".py")):
            kernel = make_starting_kernel(definition, language)
            assert kernel.kind == "kernel"
            add_solution(registry, definition, f"{definition.name}_{language}", kernel.text, suffix)
    for definition in FOREIGN:
        registry.write_definition(definition)
        registry.write_workloads(definition, [workload_of(definition, 4)])
        add_solution(registry, definition, f"{definition.name}_own", definition.reference, ".py")
    events = bench(registry, BenchOptions(settings=QUICK, device="cpu"))
    found = {each.trace.solution: each.trace.evaluation for each in events if isinstance(each, Evaluated)}
    assert len(found) == 3 * len(own) + len(FOREIGN)
    assert {name: each.log for name, each in found.items() if each.status is not EvaluationStatus.PASSED} == {}
    assert {each.judged_by for each in found.values()} == {"layernorm", "layernorm_bias"}


@pytest.mark.compile
@pytest.mark.skipif(find_cuda_home() is None, reason="needs nvcc")
@pytest.mark.parametrize("bias", [False, True])
def test_its_cuda_kernel_compiles(bias, tmp_path):
    registry, definition = make_registry(tmp_path), define(384, bias=bias)
    add_solution(registry, definition, "kernel", make_starting_kernel(definition, "cuda").text, ".cu")
    assert build_native(registry.packed_solutions()["kernel"], tmp_path / "cache", "9.0").exists()
