"""How often `compare` is right: simulated runs, and real ones of an H200."""

from __future__ import annotations

import itertools
import json
import math
import random
from statistics import fmean, variance

import pytest

from fib_rmsnorm.analysis.comparing.comparison import compare, estimate_drift
from fib_rmsnorm.analysis.difference import Drift, RunLatency
from fib_rmsnorm.evaluation.interleaved_trials import INTERVAL_GOAL
from support.paths import REPOSITORY
from support.trace_json import record

# Standard deviations at 2 us as measured (see analysis/difference.py): of a run, and of a session.
BY_RUN, BY_SESSION = 0.005, 0.009


def side(source, latency_ms, sessions: str, batches=(8,), by_session=BY_SESSION):
    """Runs of one side that end at the goal, one for each letter: its session, which an asterisk does not tell."""
    drift = {(letter, batch): source.gauss(0, by_session) for letter in sessions for batch in batches}
    found = []
    for (number, letter), batch in itertools.product(enumerate(sessions), batches):
        ms = latency_ms * math.exp(drift[letter, batch] + source.gauss(0, BY_RUN))
        interval = {"latency_low_ms": ms * (1 - INTERVAL_GOAL), "latency_high_ms": ms * (1 + INTERVAL_GOAL)}
        session, minute = None if letter == "*" else letter, f"2026-01-01T00:{number:02}"
        found.append(record(batch=batch, latency_ms=ms, device_session=session, timestamp=minute, **interval))
    return found


def verdicts(seed: int, old: str, new: str, *, slowdown: float, times: int, by_session=BY_SESSION) -> list[str]:
    source = random.Random(seed)
    return [
        compare(
            side(source, 0.002, old, by_session=by_session), side(source, 0.002 * slowdown, new, by_session=by_session)
        )
        .comparisons[0]
        .verdict
        for _ in range(times)
    ]


IN_ONE_SESSION = [("a", "a"), ("aa", "aa")]
ACROSS_SESSIONS = [("*", "*"), ("a", "b"), ("aa", "bb"), ("**", "**"), ("ab", "cd")]


@pytest.mark.parametrize(("old", "new"), IN_ONE_SESSION)
def test_in_one_session_a_slowdown_of_5_percent_is_found_and_of_200_equal_pairs_few_differ(old, new):
    """The session's own drift is that of both, and cancels."""
    assert verdicts(1, old, new, slowdown=1.05, times=100, by_session=0).count("slower") >= 95
    assert verdicts(2, old, new, slowdown=1.0, times=200, by_session=0).count("tie") >= 190


@pytest.mark.parametrize(("old", "new"), ACROSS_SESSIONS)
def test_across_sessions_of_200_equal_pairs_at_most_5_percent_are_called_different(old, new):
    assert verdicts(3, old, new, slowdown=1.0, times=200).count("tie") >= 190


def test_two_sessions_a_side_find_a_slowdown_of_5_percent():
    assert verdicts(4, "ab", "cd", slowdown=1.05, times=100).count("slower") >= 95


def test_one_session_a_side_is_too_coarse_for_that_and_says_so():
    found = compare([record()], [record()]).comparisons[0]
    assert not found.is_of_one_session and 0.025 < found.resolution < 0.04
    within = compare([record(device_session="a")], [record(device_session="a")]).comparisons[0]
    assert within.is_of_one_session and within.resolution < 0.02
    assert set(verdicts(5, "*", "*", slowdown=1.1, times=100)) == {"slower"}


def benches_of_an_h200() -> list[list[float]]:
    """Medians in microseconds of three benches in a row, of equal kernels, on four H200s."""
    machines = json.loads((REPOSITORY / "docs" / "data" / "h200-runs.json").read_text())
    return [medians for machine in machines for medians in machine.values()]


def test_benches_of_an_h200_in_a_row_are_no_different_and_5_percent_is_found():
    pairs = [pair for medians in benches_of_an_h200() for pair in itertools.permutations(medians, 2)]

    def judge(old_us, new_us):
        old, new = (record(latency_ms=us / 1e3, device_session="a") for us in (old_us, new_us))
        return compare([old], [new]).comparisons[0].verdict

    assert len(pairs) == 4 * 144
    assert [judge(*pair) for pair in pairs].count("tie") >= 0.95 * len(pairs)
    assert [judge(old, 1.05 * new) for old, new in pairs].count("slower") >= 0.95 * len(pairs)


def test_what_is_assumed_of_runs_is_what_benches_of_an_h200_show():
    groups = [
        [RunLatency.of(record(latency_ms=us / 1e3, device_session="a")) for us in each] for each in benches_of_an_h200()
    ]
    assert estimate_drift(groups).repeats == 4 * 48
    for shortest, longest in ((0, 1e-2), (1e-2, 1)):
        some = [group for group in groups if shortest < group[0].ms < longest]
        shown = fmean(variance([math.log(run.ms) for run in group]) for group in some)
        assumed = fmean(Drift().deviation(run) ** 2 for group in some for run in group)
        assert 0.8 * shown < assumed < 3 * shown


@pytest.mark.fuzz
def test_eight_workloads_together_raise_no_more_false_alarms_than_one():
    source = random.Random(8)
    batches = tuple(range(1, 9))
    alarms = 0
    for _ in range(200):
        found = compare(side(source, 0.002, "ab", batches), side(source, 0.002, "cd", batches))
        alarms += any(each.verdict != "tie" for each in found.comparisons)
    assert alarms <= 10
