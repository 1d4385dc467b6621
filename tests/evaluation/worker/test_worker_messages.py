"""A trial arrives from a worker unchanged, and an invalid one is refused."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from fib_rmsnorm.evaluation.timing.latency_statistics import ChainTimes
from fib_rmsnorm.evaluation.timing.timer import MAX_ATTEMPTS, MAX_LAUNCHES
from fib_rmsnorm.evaluation.worker.worker_messages import MAX_REASON, ChainTimed, Time, TimeChain, Timed
from fib_rmsnorm.sandbox.asking import InvalidAnswerError, ask
from fib_rmsnorm.schema import KernelLaunch, Performance, Workload

LAUNCH = KernelLaunch("RmsNorm", (8, 1, 1), (256, 1, 1), 40, static_shared_bytes=32, dynamic_shared_bytes=0)
TIMED = Timed([0.5, 0.25], [0.5, 0.125], [1, 2], [LAUNCH], [False, True], clock_ns=5, repeated=[], queued=True)


class Answers:
    """A process that sends this answer, in JSON."""

    def __init__(self, answer):
        self._message = json.loads(json.dumps({"ok": True, **vars(answer)}, default=vars))
        self.killed = False

    def request(self, _message, _deadline, _limit, _files):
        return self._message

    def kill(self):
        self.killed = True


def ask_for_trial(process):
    return ask(process, Time(calls=2, cold=True, budget_s=1), Timed, 0.0)


@pytest.mark.parametrize("launches", [None, [], [LAUNCH], [LAUNCH] * MAX_LAUNCHES])
def test_a_trial_arrives_unchanged(launches):
    timed = replace(TIMED, launches=launches)
    assert ask_for_trial(Answers(timed)) == timed


@pytest.mark.parametrize(
    "changes",
    [
        {"launches": [LAUNCH] * (MAX_LAUNCHES + 1)},
        {"launches": "RmsNorm"},
        {"launches": [None]},
        {"launches": [{}]},
        {"launches": {"0": LAUNCH}},
        *(
            {"launches": [replace(LAUNCH, **wrong)]}
            for wrong in (
                {"name": "x" * 257},
                {"name": 5},
                {"grid": (8, 1)},
                {"grid": (8, 1, 1, 1)},
                {"grid": (8, 1, -1)},
                {"grid": [8] * 100_000},
                {"block": (1 << 32, 1, 1)},
                {"block": (1.5, 1, 1)},
                {"registers": None},
                {"registers": float("inf")},
                {"static_shared_bytes": -1},
                {"dynamic_shared_bytes": 10**400},
            )
        ),
        {"span_ms": []},
        {"span_ms": [float("nan")]},
        {"busy_ms": [-1.0]},
        {"pieces": [1.5]},
        {"disturbed": [0.5]},
        {"clock_ns": None},
        {"repeated": ["again"] * MAX_ATTEMPTS},
    ],
    ids=lambda changes: str(changes)[:60],
)
def test_anything_else_is_refused_and_ends_the_process(changes):
    process = Answers(replace(TIMED, **changes))
    with pytest.raises(InvalidAnswerError, match="invalid answer") as caught:
        ask_for_trial(process)
    assert process.killed
    assert len(str(caught.value)) < 500


CHAINED = ChainTimed(ChainTimes([0.2, 0.3], [0.1, 0.1]), None, clock_ns=5)


def ask_for_chain(process):
    workload = Workload(uuid="u", axes={"batch": 8}, inputs={})
    return ask(process, TimeChain(workload=workload, dependent=True, replays=2, budget_s=1), ChainTimed, 0.0)


@pytest.mark.parametrize("chained", [CHAINED, ChainTimed(None, "it synchronises", clock_ns=5)])
def test_a_trial_in_a_graph_arrives_unchanged(chained):
    assert ask_for_chain(Answers(chained)) == chained


@pytest.mark.parametrize(
    "changes",
    [
        {"times": ChainTimes([], [])},
        {"times": ChainTimes([0.2], [-0.1])},
        {"times": ChainTimes([float("inf")], [0.1])},
        {"times": [0.2, 0.1]},
        {"refused": "x" * (MAX_REASON + 1)},
        {"clock_ns": None},
    ],
    ids=lambda changes: str(changes)[:60],
)
def test_another_trial_in_a_graph_is_refused(changes):
    process = Answers(replace(CHAINED, **changes))
    with pytest.raises(InvalidAnswerError, match="invalid answer"):
        ask_for_chain(process)
    assert process.killed


@pytest.mark.parametrize("launches", [None, [LAUNCH]])
def test_a_trace_keeps_what_was_launched(launches):
    from flashinfer_bench.data import Performance as UpstreamPerformance

    written = Performance(latency_ms=1, reference_latency_ms=1, speedup_factor=1, launches=launches).model_dump_json()
    assert Performance.model_validate_json(written).launches == launches
    assert UpstreamPerformance.model_validate_json(written).latency_ms == 1
