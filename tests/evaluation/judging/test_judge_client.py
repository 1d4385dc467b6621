"""A worker that hands over fewer timed calls than were chosen from is not believed."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from fib_rmsnorm.evaluation.judging.judge_client import JudgeClient
from fib_rmsnorm.evaluation.run_config import RunConfig
from fib_rmsnorm.evaluation.worker.worker_messages import Revealed
from fib_rmsnorm.evaluation.worker_pool import EvaluationFailedError
from fib_rmsnorm.machine.devices import Device
from support.registries import QUICK


class Worker:
    """Reveals the calls of these numbers, whatever it was asked for."""

    def __init__(self, numbers: list[int]) -> None:
        self._numbers = numbers
        self.is_killed = False
        self.process = SimpleNamespace(kill=lambda: setattr(self, "is_killed", True))

    def ask(self, *_):
        return Revealed(None, [], [], [], numbers=self._numbers)


@pytest.mark.parametrize("numbers", [[], [7], [7, 7, 7, 7]])
def test_fewer_calls_than_were_timed_are_a_failure(registry, numbers):
    (definition,) = registry.definitions().values()
    client = JudgeClient(None, Device("cpu", "a CPU", 1 << 30), RunConfig(QUICK, 10), lambda _: None)
    worker = Worker(numbers)
    with pytest.raises(EvaluationFailedError, match=rf"{len(set(numbers))} were revealed, not 4"):
        client.judge_timed_calls(definition, registry.workloads(definition.name)[0], worker, None, 4)
    assert worker.is_killed
