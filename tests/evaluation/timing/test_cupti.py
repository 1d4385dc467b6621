"""CUPTI is detached from the process while it times nothing."""

from __future__ import annotations

import pytest
import torch

from fib_rmsnorm.evaluation.timing import choose_timer, cupti_fault
from fib_rmsnorm.evaluation.timing.host_overhead import host_overhead_us
from fib_rmsnorm.evaluation.timing.timer import Timer

pytestmark = [pytest.mark.gpu, pytest.mark.alone]
CALLS = 20
ROUNDS = 10


@pytest.fixture
def timer() -> Timer:
    if fault := cupti_fault():
        pytest.skip(fault)
    return choose_timer("cuda:0")


def fill() -> None:
    torch.zeros(1024, device="cuda")


def spans_ms(timer: Timer) -> list[float]:
    return [sample.span_ms for sample in timer.measure(lambda _: fill, CALLS, cold=True, budget_s=10)]


def test_measures_after_a_rest_as_before(timer):
    for _ in range(3):
        assert all(0 < span_ms < 1 for span_ms in spans_ms(timer))
        timer.rest()
        timer.rest()  # there is nothing left to do


def test_a_call_costs_the_host_less_at_rest(timer):
    awake, at_rest = [], []
    for _ in range(ROUNDS):
        spans_ms(timer)
        awake.append(host_overhead_us(fill))
        timer.rest()
        at_rest.append(host_overhead_us(fill))
    assert min(at_rest) < min(awake)


def test_graphs_outlive_a_rest(timer):
    for _ in range(2):
        spans_ms(timer)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            fill()
        timer.rest()
        graph.replay()
        found = timer.measure(lambda _, graph=graph: graph.replay, CALLS, cold=True, budget_s=10)
        assert [sample.pieces for sample in found] == [1] * CALLS
        timer.rest()
