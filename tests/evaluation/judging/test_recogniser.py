"""An operator is recognised by what a reference computes. What it and its tensors are called does not matter."""

import ast
import re
from collections.abc import Sequence
from pathlib import Path

import pytest

from fib_rmsnorm.evaluation import judging
from fib_rmsnorm.evaluation.plan import Group, Plan, Skip
from fib_rmsnorm.evaluation.run_config import RunConfig
from fib_rmsnorm.evaluation.scheduler import Evaluated, Scheduler
from fib_rmsnorm.machine.devices import choose_devices
from fib_rmsnorm.operators import RmsNorm, find_operator
from fib_rmsnorm.sandbox.fork_server import ForkServer
from fib_rmsnorm.schema import Definition, Trace
from support.kernels import change
from support.norms import (
    BACKWARD,
    FOREIGN_BACKWARD,
    FOREIGN_LAYERNORM,
    FOREIGN_LAYERNORM_BIAS,
    HIDDEN,
    LAYERNORM,
    LAYERNORM_BIAS,
    UPSTREAM,
    UPSTREAM_FUSED_ADD,
    define_norm,
    define_sum_norm,
    kernel_for,
    workload_of,
)
from support.registries import DOUBLES, QUICK, make_definition

NAMES = ("a", "scale", "y")

PLAIN = """\
import torch


def run(a, scale, e=1e-5):
    mean_square = a.float().square().sum(dim=-1, keepdim=True) / a.shape[-1]
    return (scale.float() * (a.float() / torch.sqrt(mean_square + e))).to(a.dtype)
"""
NO_EPS = PLAIN.replace(" + e)", ")").replace("a.float() /", "a.float().clamp(min=-1e30) /")
OTHER_EPS = PLAIN.replace("1e-5", "1e-6")
SQUARES_IN_FLOAT16 = PLAIN.replace("a.float().square()", "a.square().float()")
TANH = PLAIN.replace("return (", "return torch.tanh(")
GEMMA = PLAIN.replace("(scale.float() *", "((1 + scale.float()) *")
LLAMA = PLAIN.replace("(scale.float() * (a.float()", "scale * (a.float()").replace("+ e))).to", "+ e)).to")
GATED = """\
import torch


def run(a, b, scale, e=1e-5):
    mean_square = b.float().square().mean(dim=-1, keepdim=True)
    return (scale.float() * b.float() / torch.sqrt(mean_square + e) * a.float() * torch.sigmoid(a.float())).to(a.dtype)
"""
GATED_WITHOUT_EPS = GATED.replace(" + e", "")
ONLY_IN_SMALL = PLAIN.replace("return (", "return (a.shape[0] < 10) * (")
ADDED = """\
import torch


def run(a, b, scale, e=1e-6):
    s = a.float() + b.float()
    return (s * torch.rsqrt(s.square().mean(-1, keepdim=True) + e) * scale.float()).to(a.dtype)
"""
ADDED_NO_EPS = ADDED.replace(" + e)", ")")
ADDED_LLAMA = """\
import torch


def run(a, b, scale, e):
    s = a + b
    rstd = torch.rsqrt(s.float().square().mean(-1, keepdim=True) + e)
    return s, scale * (s * rstd).to(s.dtype)
"""
# As diffusion transformers modulate: scale and shift belong to a sequence, not to a token.
ADAPTIVE = """\
import torch


def run(x, shift, scale):
    normed = torch.nn.functional.layer_norm(x.float(), x.shape[-1:], eps=1e-6)
    return (normed * (1 + scale.float().view(len(x), 1, -1)) + shift.float().view(len(x), 1, -1)).to(x.dtype)
"""
ADAPTIVE_SWAPPED = ADAPTIVE.replace("x, shift, scale", "x, scale, shift")
ADAPTIVE_OF_ANOTHER = ADAPTIVE.replace(".view(len(x), 1, -1))", ".view(len(x), 1, -1).roll(1, 0))")


def define_adaptive(name: str, per_sequence: str) -> Definition:
    rows = "bfloat16 sequences tokens channels"
    inputs = {"x": rows, "shift": f"bfloat16 {per_sequence}", "scale": f"bfloat16 {per_sequence}"}
    return make_definition(name, ADAPTIVE, inputs, {"y": rows}, channels=HIDDEN, tokens=5, one=1)


# The reference rounds the normalized row, its product with the weight, and the sum: right kernels round less.
POST_NORM = """\
import torch


def run(x, residual, scale, e=1e-6):
    rstd = torch.rsqrt(x.float().square().mean(-1, keepdim=True) + e)
    return residual + scale * (x.float() * rstd).to(x.dtype)
"""
POST_NORM_IN_FLOAT32 = POST_NORM.replace(
    "residual + scale * (x.float()", "(residual.float() + scale.float() * x.float()"
)
POST_NORM_PRODUCT = POST_NORM.replace("scale * (x.float()", "(scale.float() * x.float()")
POST_NORM_RSTD_ROUNDED = POST_NORM_IN_FLOAT32.replace("* rstd)", "* rstd.to(x.dtype).float())")
POST_NORM_TOO_LARGE = POST_NORM_IN_FLOAT32.replace("* rstd)", "* rstd * 1.01)")
RIGHT_POST_NORMS = [POST_NORM, POST_NORM_IN_FLOAT32, POST_NORM_PRODUCT]
WRONG_POST_NORMS = [POST_NORM_RSTD_ROUNDED, POST_NORM_TOO_LARGE]


def define_post_norm(dtype: str) -> Definition:
    rows = f"{dtype} tokens channels"
    inputs = {"x": rows, "residual": rows, "scale": f"{dtype} channels"}
    return make_definition(f"post_norm_{dtype}", POST_NORM, inputs, {"y": rows}, channels=4096)


ZEROS = DOUBLES.replace("x * 2", "torch.zeros_like(x)")
# A product with a matrix whose rows are the weight, shifted: most sums are much smaller than their terms.
MULTIPLIES = DOUBLES.replace("x * 2", "x @ torch.stack([weight.roll(shift) for shift in range(len(weight))])")
MULTIPLIES_EXACTLY = (
    MULTIPLIES.replace("return x @", "weight = weight.double()\n    y = x.double() @") + "    return y.float()\n"
)
MULTIPLIES_ROUNDED = MULTIPLIES.replace("return x", "return x.bfloat16().float()")
RIGHT_BUT_WHEN_TIMED = DOUBLES.replace("x * 2", "x * (2 if x.abs().max() < 10 else 3)")

# Whoever calls it to compare with its outputs finds all outputs right from then on.
REPLACES_THE_COMPARISON = """\
    import sys

    frame = sys._getframe(1)
    while frame:
        if callable(compare := frame.f_globals.get("compare")):
            frame.f_globals["compare"] = lambda pair, *rest: compare(type(pair)(pair.expected, pair.expected), *rest)
            break
        frame = frame.f_back
"""


def define_doubling(name: str, reference: str) -> Definition:
    """Of an operator that nobody knows, although its tensors have RMSNorm's shapes."""
    return define_norm(name, reference, ("x", "weight", "y"), eps=None, dtype="float32")


CASES = {
    "rmsnorm_tanh_d128": (
        RmsNorm().define(128).model_copy(update={"name": "rmsnorm_tanh_d128", "reference": TANH}),
        ("reference", [TANH], [PLAIN]),
    ),
    "my_norm": (define_norm("my_norm", PLAIN, NAMES, eps="e"), ("rmsnorm", [PLAIN], [NO_EPS, SQUARES_IN_FLOAT16])),
    "rmsnorm_h128": (
        define_norm("rmsnorm_h128", UPSTREAM, ("hidden_states", "weight", "output"), eps=None, dtype="bfloat16"),
        ("rmsnorm", [PLAIN], [NO_EPS, OTHER_EPS]),
    ),
    "fused_add_rmsnorm_h128": (
        define_sum_norm("fused_add_rmsnorm_h128", UPSTREAM_FUSED_ADD, dtype="bfloat16"),
        ("fused_add_rmsnorm", [ADDED], [ADDED_NO_EPS]),
    ),
    "llama_layer": (
        define_sum_norm("llama_layer", ADDED_LLAMA, ("a", "b", "scale"), ("c", "d"), eps="e"),
        ("fused_add_rmsnorm_llama", [ADDED_LLAMA], []),
    ),
    "gemma": (define_norm("gemma", GEMMA, NAMES), ("rmsnorm_gemma", [GEMMA], [PLAIN])),
    # Inputs of one shape may be in another order: here the gate comes first.
    "gated": (
        find_operator("rmsnorm_silu_gate").define(128).model_copy(update={"name": "gated", "reference": GATED}),
        ("rmsnorm_silu_gate", [GATED], [GATED_WITHOUT_EPS]),
    ),
    "llama": (define_norm("llama", LLAMA, NAMES), ("rmsnorm_llama", [LLAMA], [])),
    "layer_norm": (FOREIGN_LAYERNORM, ("layernorm", [LAYERNORM], [])),
    "layer_norm_bias": (FOREIGN_LAYERNORM_BIAS, ("layernorm_bias", [LAYERNORM_BIAS], [])),
    "backward_of_x": (FOREIGN_BACKWARD, ("rmsnorm_backward", [BACKWARD], [])),
    "adaptive": (
        define_adaptive("adaptive", "sequences channels"),
        ("layernorm_scale_shift", [ADAPTIVE], [ADAPTIVE_SWAPPED, ADAPTIVE_OF_ANOTHER]),
    ),
    "adaptive_one": (
        define_adaptive("adaptive_one", "sequences one channels"),
        ("layernorm_scale_shift", [ADAPTIVE], [ADAPTIVE_SWAPPED]),
    ),
    "post_norm_bfloat16": (define_post_norm("bfloat16"), ("reference", RIGHT_POST_NORMS, WRONG_POST_NORMS)),
    "post_norm_float16": (define_post_norm("float16"), ("reference", RIGHT_POST_NORMS, WRONG_POST_NORMS)),
    "double": (define_doubling("double", DOUBLES), ("reference", [DOUBLES], [ZEROS, RIGHT_BUT_WHEN_TIMED])),
    # A sum that is more exact than the reference is right where terms cancel.
    "multiplies": (
        define_doubling("multiplies", MULTIPLIES),
        ("reference", [MULTIPLIES_EXACTLY], [MULTIPLIES_ROUNDED]),
    ),
    "only_in_small": (define_norm("only_in_small", ONLY_IN_SMALL, NAMES), ("rmsnorm", [PLAIN, ONLY_IN_SMALL], [])),
}
"""Definitions, what judges them, and the kernels that pass and that fail, by name."""
ROWS = {"only_in_small": (8, 16), "post_norm_bfloat16": (32,), "post_norm_float16": (32,)}
"""The numbers of rows, where they are not 8 alone."""
LOGS = {
    ("my_norm", "no_eps"): r"hard rows, eps=[\d.e-]+: y:",
    ("rmsnorm_h128", "other_eps"): r"(?s)hard rows, eps=1e-05.*eps dominates",
    ("fused_add_rmsnorm_h128", "added_no_eps"): r"RMSNorm of s = x \+ residual without eps",
    ("double", "zeros"): "workload: y:",
    ("double", "right_but_when_timed"): "timed call: y:",
    ("gemma", "plain"): "with the weight multiplied in float32 and one rounding, as in torch",
    ("gated", "gated_without_eps"): "without eps",
    ("adaptive", "adaptive_swapped"): "LayerNorm with scale and shift swapped",
}


def kernel_name(source: str) -> str:
    return next(name.lower() for name, value in globals().items() if value is source)


def make_groups(definition: Definition, sources: Sequence[str], rows: Sequence[int]) -> list[Group]:
    kernels = tuple(kernel_for(definition, kernel_name(source), source) for source in sources)
    return [Group(definition, workload_of(definition, each), kernels) for each in rows]


def evaluate(fork_server: ForkServer, groups: list[Group], timeout_s: float) -> tuple[list[Trace], list[Skip]]:
    events = list(Scheduler(fork_server, choose_devices("cpu"), RunConfig(QUICK, timeout_s)).run(Plan(groups)))
    traces = [event.trace for event in events if isinstance(event, Evaluated)]
    return traces, [event for event in events if isinstance(event, Skip)]


@pytest.fixture(scope="module")
def traces(fork_server):
    """The Trace of each kernel by Definition, kernel and number of rows, all of one run."""
    groups = [
        group
        for definition, (_, right, wrong) in CASES.values()
        for group in make_groups(definition, [*right, *wrong], ROWS.get(definition.name, (8,)))
    ]
    traces, skips = evaluate(fork_server, groups, 60)
    assert skips == []
    return {(each.definition, each.solution, *each.workload.axes.values()): each.evaluation for each in traces}


def assert_judged(traces, name, rows, operator, right, wrong):
    found = {kernel: each for (definition, kernel, size), each in traces.items() if (definition, size) == (name, rows)}
    expected = dict.fromkeys(map(kernel_name, right), "PASSED")
    expected |= dict.fromkeys(map(kernel_name, wrong), "INCORRECT_NUMERICAL")
    assert {kernel: each.status.value for kernel, each in found.items()} == expected
    assert {each.judged_by for each in found.values()} == {operator}


@pytest.mark.parametrize("name", CASES)
def test_what_a_reference_computes_judges_whatever_it_is_called(traces, name):
    assert_judged(traces, name, ROWS.get(name, (8,))[0], *CASES[name][1])


@pytest.mark.parametrize(("definition", "kernel"), LOGS)
def test_hard_inputs_and_usual_mistakes_are_those_of_the_operator(traces, definition, kernel):
    assert re.search(LOGS[definition, kernel], traces[definition, kernel, 8].log)


def test_a_reference_that_computes_something_else_at_another_size_judges_there_itself(traces):
    assert_judged(traces, "only_in_small", 16, "reference", [ONLY_IN_SMALL], [PLAIN])


RESTORES = DOUBLES.replace("    return x * 2", "    y = x.neg_() * -2\n    x.neg_()\n    return y")


def judge(
    fork_server: ForkServer, reference: str, kernel: str, timeout_s: float = 60
) -> tuple[list[Trace], list[Skip]]:
    groups = make_groups(define_doubling("double", reference), [kernel], (1, 8))
    return evaluate(fork_server, groups, timeout_s)


@pytest.mark.process
def test_its_inputs_are_read_only_in_a_second_call(fork_server):
    """Elsewhere in the other cases; an operator that is not recognised has the Workload's alone."""
    traces, _ = judge(fork_server, DOUBLES, RESTORES)
    assert [trace.evaluation.status.value for trace in traces] == ["RUNTIME_ERROR"] * 2
    assert "inputs are guarded" in traces[0].evaluation.log


def test_a_reference_that_replaces_the_comparison_makes_no_wrong_kernel_pass(fork_server):
    traces, skips = judge(fork_server, change(DOUBLES, "):\n", f"):\n{REPLACES_THE_COMPARISON}"), ZEROS)
    assert skips == []
    assert [trace.evaluation.status.value for trace in traces] == ["INCORRECT_NUMERICAL"] * 2


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        ("raise ValueError('no luck')", "ValueError: no luck"),
        pytest.param("return x[:, 1:]", "y: shape", marks=pytest.mark.process),
        pytest.param("__import__('os')._exit(3)", "exited with code 3", marks=pytest.mark.process),
        pytest.param("while True: pass", "timed out after 5 s", marks=pytest.mark.process),
    ],
)
def test_a_reference_that_fails_is_not_a_failure_of_a_solution(fork_server, fault, reason):
    traces, skips = judge(fork_server, DOUBLES.replace("return x * 2", fault), DOUBLES, timeout_s=5)
    assert traces == []
    assert len(skips) == 2
    assert all("the reference of double failed" in skip.reason and reason in skip.reason for skip in skips)
    assert all(skip.is_failure for skip in skips)


def test_the_judge_runs_no_code_of_others():
    files = sorted(Path(judging.__file__).parent.glob("*.py"))
    called = {
        node.func.id
        for file in files
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    }
    assert "read_outputs" in called
    assert called.isdisjoint({"exec", "eval", "compile", "__import__", "build_entry"})
