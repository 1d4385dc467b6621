"""Whose reference it is does not matter: it runs in a worker, and only its outputs reach the judge."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from fib_rmsnorm.evaluation import judging
from fib_rmsnorm.evaluation.plan import Group, Plan
from fib_rmsnorm.evaluation.run_config import RunConfig
from fib_rmsnorm.evaluation.scheduler import Evaluated, Scheduler, Skip
from fib_rmsnorm.machine.devices import choose_devices
from fib_rmsnorm.registry import Registry
from fib_rmsnorm.sandbox.fork_server import ForkServer
from fib_rmsnorm.schema import Trace, Workload
from support.registries import DOUBLES, QUICK, add_kernel, make_doubling_registry

ZEROS = DOUBLES.replace("x * 2", "torch.zeros_like(x)")
RESTORES = DOUBLES.replace("    return x * 2", "    y = x.neg_() * -2\n    x.neg_()\n    return y")
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


def with_attack(reference: str) -> str:
    """The reference, which begins to run with the attack."""
    head, end, body = reference.partition("):\n")
    return head + end + REPLACES_THE_COMPARISON + body


@pytest.fixture
def doubling(tmp_path) -> Registry:
    """A registry whose operator nobody knows."""
    return make_doubling_registry(tmp_path)


def judge(
    fork_server: ForkServer, registry: Registry, reference: str, *sources: str, timeout_s: float = 60
) -> tuple[list[Trace], list[Skip]]:
    (definition,) = registry.definitions().values()
    definition = definition.model_copy(update={"reference": reference})
    inputs = {"x": {"type": "random"}, "weight": {"type": "random"}}
    workloads = [Workload(axes={"batch": batch}, inputs=inputs, uuid=f"batch-{batch}") for batch in (1, 8)]
    solutions = tuple(
        add_kernel(registry, f"kernel_v{number}", source).model_copy(update={"definition": definition.name})
        for number, source in enumerate(sources)
    )
    return run(fork_server, Plan([Group(definition, workload, solutions) for workload in workloads]), timeout_s)


def run(fork_server: ForkServer, plan: Plan, timeout_s: float = 60) -> tuple[list[Trace], list[Skip]]:
    events = list(Scheduler(fork_server, choose_devices("cpu"), RunConfig(QUICK, timeout_s)).run(plan))
    traces = [event.trace for event in events if isinstance(event, Evaluated)]
    return sorted(traces, key=lambda trace: trace.solution), [event for event in events if isinstance(event, Skip)]


@pytest.mark.process
def test_an_unknown_operator_is_judged_by_its_reference(fork_server, doubling):
    traces, skips = judge(fork_server, doubling, DOUBLES, DOUBLES, ZEROS, RIGHT_BUT_WHEN_TIMED)
    assert skips == []
    assert [trace.evaluation.status.value for trace in traces] == [
        *["PASSED"] * 2,
        *["INCORRECT_NUMERICAL"] * 4,
    ]
    assert "workload: y:" in traces[2].evaluation.log
    assert "timed call: y:" in traces[4].evaluation.log


def test_a_sum_that_is_more_exact_than_its_reference_is_right_where_terms_cancel(fork_server, doubling):
    traces, skips = judge(fork_server, doubling, MULTIPLIES, MULTIPLIES_EXACTLY, MULTIPLIES_ROUNDED)
    assert skips == []
    assert [trace.evaluation.status.value for trace in traces] == ["PASSED"] * 2 + ["INCORRECT_NUMERICAL"] * 2


@pytest.mark.process
def test_its_inputs_are_read_only_in_a_second_call(fork_server, doubling):
    """Elsewhere in the other cases; an operator that is not recognised has the Workload's alone."""
    traces, _ = judge(fork_server, doubling, DOUBLES, RESTORES)
    assert [trace.evaluation.status.value for trace in traces] == ["RUNTIME_ERROR"] * 2
    assert "it changes its input 'x'" in traces[0].evaluation.log


def test_a_reference_that_replaces_the_comparison_makes_no_wrong_kernel_pass(fork_server, doubling):
    traces, skips = judge(fork_server, doubling, with_attack(DOUBLES), ZEROS)
    assert skips == []
    assert [trace.evaluation.status.value for trace in traces] == ["INCORRECT_NUMERICAL"] * 2


def test_nor_does_that_of_a_known_operator(fork_server, registry):
    (definition,) = registry.definitions().values()
    attacked = definition.model_copy(update={"reference": with_attack(definition.reference)})
    zeros = "import torch\n\n\ndef run(x, weight, eps):\n    return torch.zeros_like(x)\n"
    kernel = add_kernel(registry, "zeros_v1", zeros)
    plan = Plan([Group(attacked, workload, (kernel,)) for workload in registry.workloads(definition.name)])
    traces, skips = run(fork_server, plan)
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
def test_a_reference_that_fails_is_no_failure_of_a_solution(fork_server, doubling, fault, reason):
    traces, skips = judge(fork_server, doubling, DOUBLES.replace("return x * 2", fault), DOUBLES, ZEROS, timeout_s=5)
    assert traces == []
    assert len(skips) == 2
    assert all("the reference of double failed" in skip.reason and reason in skip.reason for skip in skips)


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
