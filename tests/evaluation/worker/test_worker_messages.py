"""A trial arrives from a worker unchanged, and an invalid one is refused."""

import json
from dataclasses import replace
from typing import Any

import pytest

from fib_rmsnorm.evaluation.timing.latency_statistics import ChainTimes
from fib_rmsnorm.evaluation.timing.timer import MAX_ATTEMPTS, Sample
from fib_rmsnorm.evaluation.worker.worker_messages import MAX_REASON, ChainTimed, CountCosts, Timed
from fib_rmsnorm.sandbox.asking import ask
from fib_rmsnorm.sandbox.process import NoAnswerError

LAST = Sample(0.25, 0.125, 2, is_disturbed=True)
TIMED = Timed([Sample(0.5, 0.5), LAST], clock_ns=5, repeated=[], queued=True)


class Answers:
    """A process that sends this answer, in JSON."""

    def __init__(self, answer):
        self._message = json.loads(json.dumps({"ok": True, **vars(answer)}, default=vars))
        self.killed = False

    def request(self, _message, _deadline, _limit, _files):
        return self._message

    def kill(self):
        self.killed = True


CHAINED = ChainTimed(ChainTimes([0.2, 0.3], [0.1, 0.1]), None, clock_ns=5)


@pytest.mark.parametrize("answer", [TIMED, CHAINED, ChainTimed(None, "it synchronises", clock_ns=5)], ids=str)
def test_a_trial_arrives_unchanged(answer):
    process: Any = Answers(answer)
    assert ask(process, CountCosts(), type(answer), 0.0) == answer


WRONG_SAMPLES: tuple[dict[str, Any], ...] = (
    {"span_ms": float("nan")},
    {"busy_ms": -1.0},
    {"pieces": 1.5},
    {"is_disturbed": 0.5},
)
WRONG = [
    *({"samples": [LAST._replace(**each)]} for each in WRONG_SAMPLES),
    {"samples": []},
    {"samples": [[0.5]]},
    {"clock_ns": None},
    {"repeated": ["again"] * MAX_ATTEMPTS},
]
WRONG_CHAINED = [
    {"times": ChainTimes([], [])},
    {"times": ChainTimes([0.2], [-0.1])},
    {"times": ChainTimes([float("inf")], [0.1])},
    {"times": [0.2, 0.1]},
    {"refused": "x" * (MAX_REASON + 1)},
    {"clock_ns": None},
]


@pytest.mark.parametrize(
    ("answer", "changes"),
    [*((TIMED, each) for each in WRONG), *((CHAINED, each) for each in WRONG_CHAINED)],
    ids=lambda value: str(value)[:60],
)
def test_anything_else_is_refused_and_ends_the_process(answer, changes):
    process: Any = Answers(replace(answer, **changes))
    with pytest.raises(NoAnswerError, match="invalid answer") as caught:
        ask(process, CountCosts(), type(answer), 0.0)
    assert process.killed
    assert len(str(caught.value)) < 500
