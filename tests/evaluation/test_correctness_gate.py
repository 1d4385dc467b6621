"""Solutions are built in an order, and those that nobody will judge not at all."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest

from fib_rmsnorm.evaluation import correctness_gate
from fib_rmsnorm.evaluation.correctness_gate import CorrectnessGate
from fib_rmsnorm.evaluation.judging.comparer import ReferenceFailedError
from fib_rmsnorm.evaluation.worker_pool import EvaluationFailedError
from fib_rmsnorm.machine.devices import Device
from fib_rmsnorm.operators import RmsNorm
from fib_rmsnorm.registry import generate_workloads
from fib_rmsnorm.schema import SupportedLanguages


def solution_in(language, name):
    return SimpleNamespace(name=name, spec=SimpleNamespace(language=SupportedLanguages(language)))


def make_gate(**stubs):
    workers, judge_client = SimpleNamespace(find=stubs["find"]), SimpleNamespace(call=stubs.get("call"))
    return CorrectnessGate(workers, judge_client, Device("cpu", "a CPU", 1 << 30), 10)


def test_once_the_reference_has_failed_no_other_solution_is_built(monkeypatch):
    monkeypatch.setattr(correctness_gate.os, "cpu_count", lambda: 1)
    definition = RmsNorm().define(1024)
    (workload,) = generate_workloads(definition, [1])
    built, ended = [], threading.Event()

    class Pool(ThreadPoolExecutor):
        """Builds after the first take until it is shut down."""

        def shutdown(self, wait=True, **options):
            super().shutdown(wait=False, **options)
            ended.set()
            super().shutdown(wait)

    monkeypatch.setattr(correctness_gate, "ThreadPoolExecutor", Pool)

    def build(_definition, solution):
        if built:
            ended.wait()
        built.append(solution.name)
        return SimpleNamespace()

    def call(*_):
        raise ReferenceFailedError("the reference failed")

    solutions = [solution_in("triton", f"solution {number}") for number in range(20)]
    with pytest.raises(ReferenceFailedError):
        list(make_gate(find=build, call=call).admit(definition, workload, solutions))
    assert len(built) <= 3  # the first, and what the two threads have begun


def test_what_verdicts_need_begins_first_then_what_takes_long_and_the_rest_when_all_have_begun(monkeypatch):
    monkeypatch.setattr(correctness_gate, "ThreadPoolExecutor", lambda _: ThreadPoolExecutor(1))
    definition = RmsNorm().define(1024)
    (workload,) = generate_workloads(definition, [1])
    begun = []

    def build(_definition, solution):
        begun.append(solution.name)
        raise EvaluationFailedError("RUNTIME_ERROR", "it does not build")

    languages = ["triton", "tilelang", "python", "cuda"]
    solutions = [solution_in(language, language) for language in languages]
    needed = (lambda: begun.append("judge"), lambda: begun.append("reference"))
    verdicts = make_gate(find=build).admit(definition, workload, solutions, needed, lambda: begun.append("copy"))
    assert sorted(solution.name for solution, _ in verdicts) == sorted(languages)
    assert begun == ["judge", "reference", "cuda", "python", "triton", "tilelang", "copy"]
