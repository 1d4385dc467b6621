"""What timed calls do beside filling their outputs is revealed with these."""

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from fib_rmsnorm.evaluation.tensors.inputs import DeviceWorkload
from fib_rmsnorm.evaluation.timing import choose_timer
from fib_rmsnorm.evaluation.timing.timer import Trial
from fib_rmsnorm.evaluation.worker.caller import SolutionCaller
from fib_rmsnorm.evaluation.worker.timed_calls import TimedCalls
from fib_rmsnorm.operators import find_operator
from fib_rmsnorm.registry import generate_workloads

KEPT: list[torch.Tensor] = []


def norm(x, weight, eps):
    return torch.nn.functional.rms_norm(x, (x.shape[-1],), weight, eps)


def fill(x, weight, eps, out):
    out.copy_(norm(x, weight, eps))


def change_inputs(x, weight, eps, out):
    fill(x, weight, eps, out)
    weight.zero_()


def overrun(x, weight, eps, out):
    fill(x, weight, eps, out)
    out.as_strided((out.numel() + 1,), (1,))[-1] = 1


def change_the_last_output(x, weight, eps):
    for output in KEPT:
        output.zero_()
    KEPT[:] = [norm(x, weight, eps)]
    return KEPT[0]


@pytest.mark.parametrize(
    ("function", "fills", "found"),
    [
        (norm, False, ([], [], [])),
        (fill, True, ([], [], [])),
        (change_inputs, True, (["weight"], [], [])),
        (overrun, True, ([], ["out"], [])),
        (change_the_last_output, False, ([], [], ["out"])),
    ],
)
def test_what_timed_calls_touch_wrongly_is_revealed(function, fills, found):
    definition = find_operator("rmsnorm").define(128)
    solution: Any = SimpleNamespace(spec=SimpleNamespace(destination_passing_style=fills, in_place={}))
    wanted = DeviceWorkload(definition, generate_workloads(definition, [3])[0], "cpu")
    calls = TimedCalls(wanted, SolutionCaller(function, definition, solution, "cpu"), judged_calls=4)
    calls.time(choose_timer("cpu"), Trial(calls=4, cold=False, budget_s=60))
    revealed = calls.reveal(lambda _: None)
    assert len(revealed.numbers) == 4
    assert (revealed.changed_inputs, revealed.overrun, revealed.changed_outputs) == found
