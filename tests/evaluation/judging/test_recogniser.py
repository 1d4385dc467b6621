"""An operator is recognised by what a reference computes. What it and its tensors are called does not matter."""

from __future__ import annotations

import re

import pytest

from fib_rmsnorm.evaluation import ROLES
from fib_rmsnorm.evaluation.plan import Group, Plan
from fib_rmsnorm.evaluation.run_config import RunConfig
from fib_rmsnorm.evaluation.scheduler import Evaluated, Scheduler, Skip
from fib_rmsnorm.machine.devices import choose_devices
from fib_rmsnorm.operators import RmsNorm, find_operator
from support.lent_fork_server import LentForkServer
from support.norms import UPSTREAM, UPSTREAM_FUSED_ADD, define_norm, define_sum_norm, kernel_for, workload_of
from support.registries import QUICK

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

CASES = {
    "rmsnorm_tanh_d128": (
        RmsNorm().define(128).model_copy(update={"name": "rmsnorm_tanh_d128", "reference": TANH}),
        [TANH, PLAIN],
    ),
    "my_norm": (define_norm("my_norm", PLAIN, NAMES, eps="e"), [PLAIN, NO_EPS, SQUARES_IN_FLOAT16]),
    "rmsnorm_h128": (
        define_norm("rmsnorm_h128", UPSTREAM, ("hidden_states", "weight", "output"), eps=None, dtype="bfloat16"),
        [PLAIN, NO_EPS, OTHER_EPS],
    ),
    "fused_add_rmsnorm_h128": (
        define_sum_norm("fused_add_rmsnorm_h128", UPSTREAM_FUSED_ADD, dtype="bfloat16"),
        [ADDED, ADDED_NO_EPS],
    ),
    "llama_layer": (
        define_sum_norm("llama_layer", ADDED_LLAMA, ("a", "b", "scale"), ("c", "d"), eps="e"),
        [ADDED_LLAMA],
    ),
    "gemma": (define_norm("gemma", GEMMA, NAMES), [GEMMA, PLAIN]),
    "gated": (
        find_operator("rmsnorm_silu_gate").define(128).model_copy(update={"name": "gated", "reference": GATED}),
        [GATED, GATED_WITHOUT_EPS],
    ),
    "llama": (define_norm("llama", LLAMA, NAMES), [LLAMA]),
    "only_in_small": (define_norm("only_in_small", ONLY_IN_SMALL, NAMES), [PLAIN, ONLY_IN_SMALL]),
}


def kernel_name(source: str) -> str:
    return next(name.lower() for name, value in globals().items() if value is source)


@pytest.fixture(scope="module")
def traces():
    """The Trace of each kernel by Definition, kernel and number of rows, all of one run."""
    groups = [
        Group(
            definition,
            workload_of(definition, rows),
            tuple(kernel_for(definition, kernel_name(source), source) for source in sources),
        )
        for definition, sources in CASES.values()
        for rows in ((8, 16) if definition.name == "only_in_small" else (8,))
    ]
    with LentForkServer(ROLES) as fork_server:
        events = list(Scheduler(fork_server, choose_devices("cpu"), RunConfig(QUICK, 60)).run(Plan(groups)))
    assert not [event.reason for event in events if isinstance(event, Skip)]
    traces = [event.trace for event in events if isinstance(event, Evaluated)]
    return {(each.definition, each.solution, *each.workload.axes.values()): each.evaluation for each in traces}


def verdicts(traces, definition: str, rows: int = 8) -> dict[str, str]:
    return {
        solution: evaluation.status.value
        for (name, solution, size), evaluation in traces.items()
        if (name, size) == (definition, rows)
    }


def judges(traces, definition: str, rows: int = 8) -> set[str | None]:
    return {each.judged_by for (name, _, size), each in traces.items() if (name, size) == (definition, rows)}


def test_a_name_that_begins_like_ours_makes_no_rmsnorm(traces):
    assert verdicts(traces, "rmsnorm_tanh_d128") == {"tanh": "PASSED", "plain": "INCORRECT_NUMERICAL"}
    assert judges(traces, "rmsnorm_tanh_d128") == {"reference"}


def test_an_rmsnorm_is_recognised_under_any_name(traces):
    assert verdicts(traces, "my_norm") == {
        "plain": "PASSED",
        "no_eps": "INCORRECT_NUMERICAL",
        "squares_in_float16": "INCORRECT_NUMERICAL",
    }
    assert judges(traces, "my_norm") == {"rmsnorm"}
    assert re.search(r"hard rows, eps=[\d.e-]+: y:", traces["my_norm", "no_eps", 8].log)


def test_an_eps_that_is_no_input_is_found(traces):
    assert verdicts(traces, "rmsnorm_h128") == {
        "plain": "PASSED",
        "no_eps": "INCORRECT_NUMERICAL",
        "other_eps": "INCORRECT_NUMERICAL",
    }
    assert judges(traces, "rmsnorm_h128") == {"rmsnorm"}
    log = traces["rmsnorm_h128", "other_eps", 8].log
    assert "hard rows, eps=1e-05" in log and "eps dominates" in log


def test_upstreams_add_and_norm_gets_hard_inputs(traces):
    assert verdicts(traces, "fused_add_rmsnorm_h128") == {"added": "PASSED", "added_no_eps": "INCORRECT_NUMERICAL"}
    assert judges(traces, "fused_add_rmsnorm_h128") == {"fused_add_rmsnorm"}
    assert "RMSNorm of s = x + residual without eps" in traces["fused_add_rmsnorm_h128", "added_no_eps", 8].log


def test_a_sum_may_be_the_first_output_under_any_name(traces):
    assert verdicts(traces, "llama_layer") == {"added_llama": "PASSED"}
    assert judges(traces, "llama_layer") == {"fused_add_rmsnorm_llama"}


def test_one_plus_weight_is_gemmas_convention(traces):
    assert verdicts(traces, "gemma") == {"gemma": "PASSED", "plain": "INCORRECT_NUMERICAL"}
    assert judges(traces, "gemma") == {"rmsnorm_gemma"}
    assert "with the weight multiplied in float32 and one rounding, as in torch" in traces["gemma", "plain", 8].log


def test_inputs_of_one_shape_may_be_in_another_order(traces):
    """Here the gate comes first."""
    assert verdicts(traces, "gated") == {"gated": "PASSED", "gated_without_eps": "INCORRECT_NUMERICAL"}
    assert judges(traces, "gated") == {"rmsnorm_silu_gate"}
    assert "without eps" in traces["gated", "gated_without_eps", 8].log


def test_a_rounding_before_the_weight_is_llamas(traces):
    assert verdicts(traces, "llama") == {"llama": "PASSED"}
    assert judges(traces, "llama") == {"rmsnorm_llama"}


def test_a_reference_that_computes_something_else_at_another_size_judges_there_itself(traces):
    assert verdicts(traces, "only_in_small") == {"plain": "PASSED", "only_in_small": "PASSED"}
    assert judges(traces, "only_in_small") == {"rmsnorm"}
    assert verdicts(traces, "only_in_small", 16) == {"plain": "INCORRECT_NUMERICAL", "only_in_small": "PASSED"}
    assert judges(traces, "only_in_small", 16) == {"reference"}
