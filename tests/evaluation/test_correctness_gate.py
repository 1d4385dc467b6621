"""Solutions that nobody will judge are not built."""

from __future__ import annotations

import time
from types import SimpleNamespace

import pytest

from fib_rmsnorm.evaluation import correctness_gate
from fib_rmsnorm.evaluation.correctness_gate import CorrectnessGate
from fib_rmsnorm.evaluation.judging.reference_client import ReferenceFailedError
from fib_rmsnorm.machine.devices import Device
from fib_rmsnorm.operators import RmsNorm
from fib_rmsnorm.registry import generate_workloads

BUILD_S = 0.05


def test_once_the_reference_has_failed_no_other_solution_is_built(monkeypatch):
    monkeypatch.setattr(correctness_gate.os, "cpu_count", lambda: 1)
    definition = RmsNorm().define(1024)
    (workload,) = generate_workloads(definition, [1])
    built = []

    def build(_definition, solution):
        time.sleep(BUILD_S)
        built.append(solution.name)
        return SimpleNamespace()

    def call(*_):
        raise ReferenceFailedError("the reference failed")

    workers, judge_client = SimpleNamespace(find=build), SimpleNamespace(call=call)
    gate = CorrectnessGate(workers, judge_client, Device("cpu", "a CPU", 1 << 30), 10)
    solutions = [SimpleNamespace(name=f"solution {number}") for number in range(20)]
    with pytest.raises(ReferenceFailedError):
        list(gate.admit(definition, workload, solutions))
    assert len(built) < 4
