"""Medians with their intervals, how far the calls and the trials of a measurement lie apart, and costs in a chain."""

import math
import random

import pytest

from fib_rmsnorm.evaluation.interleaved_trials import TrialResults
from fib_rmsnorm.evaluation.performance import describe_chain
from fib_rmsnorm.evaluation.timing.latency_statistics import (
    LINKS,
    ChainTimes,
    has_precise_cost,
    latency_interval,
    measure_scatter,
    median_interval,
    sum_up_chain,
)
from fib_rmsnorm.schema import Clocks

TICK_MS = 32e-6
CALLS = 40
CALL_MS, BARE_MS = 0.0015, 0.003
STEADY = Clocks(before_mhz=1980, during_min_mhz=1980, during_max_mhz=1980)


def test_trials_that_vary_more_than_their_calls_widen_the_interval():
    trials = [[centre] * CALLS for centre in (0.0019, 0.002, 0.002, 0.0021)]
    # Student's t of 3 degrees of freedom is 3.18; the standard deviation is 82 ns, over the root of 4 trials.
    assert latency_interval(trials, 0.0).relative_to(0.002) == pytest.approx(0.065, abs=0.001)


@pytest.mark.parametrize("trials", [1, 2, 4])
def test_trials_that_agree_leave_the_interval_of_the_calls(trials):
    calls = [0.002 + index * 1e-6 for index in range(CALLS)]
    assert latency_interval([calls] * trials, TICK_MS) == median_interval(calls * trials, TICK_MS)


def test_the_interval_contains_the_true_latency_about_as_often_as_promised():
    source = random.Random(1)
    holds = 0
    for _ in range(300):
        centres = [source.gauss(0.002, 0.00003) for _ in range(8)]
        trials = [[source.gauss(centre, 0.0001) for _ in range(CALLS)] for centre in centres]
        interval = latency_interval(trials, 0.0)
        holds += interval.low < 0.002 < interval.high
    assert holds > 0.9 * 300


@pytest.mark.parametrize("count", [20, 40, 200])
def test_95_of_100_intervals_hold_the_median(count):
    """Order statistics hold it a little more often where samples are few."""
    chance = random.Random(count)
    intervals = [median_interval([chance.expovariate(1) for _ in range(count)], 0.0) for _ in range(2000)]
    assert 0.94 <= sum(each.low <= math.log(2) <= each.high for each in intervals) / 2000 <= 0.99


def test_the_halves_tell_a_drift_and_the_percentiles_slow_calls():
    source = random.Random(1)
    trials = [[median * (1 + 0.01 * abs(source.gauss(0, 1))) for _ in range(40)] for median in [1.0] * 8 + [1.08] * 8]
    assert measure_scatter(trials, 0.0).a_a_difference == pytest.approx(0.08, abs=0.01)
    found = measure_scatter([[source.choice((*[1.0] * 9, 40.0)) for _ in range(100)] for _ in range(8)], 0.0)
    assert (found.latency_ms, found.p5_ms, found.p95_ms) == (1.0, 1.0, 40.0)


def test_one_call_has_no_interval_and_a_trial_without_calls_does_not_count():
    assert math.isinf(measure_scatter([[1.0]], 0.0).interval.high)
    assert measure_scatter([[1.0, 1.1], [], [1.2, 1.3]], 0.0) == measure_scatter([[1.0, 1.1], [1.2, 1.3]], 0.0)


def trial(call_ms=CALL_MS, drift=1.0, replays=16):
    """Both graphs take longer by `drift`, and from replay to replay."""
    bare = [BARE_MS * LINKS * drift * (1 + index * 1e-4) for index in range(replays)]
    return ChainTimes([each + call_ms * LINKS for each in bare], bare)


@pytest.mark.parametrize("drifts", [(1.0,) * 4, (0.9, 1.0, 1.0, 1.1)])
def test_a_call_costs_the_difference_of_the_graphs_whose_drift_cancels_out(drifts):
    found = sum_up_chain("chained", [trial(drift=drift) for drift in drifts])
    assert found["chained_latency_ms"] == pytest.approx(CALL_MS)
    assert found["chained_bare_link_ms"] == pytest.approx(BARE_MS, rel=0.01)
    assert found["chained_low_ms"] <= found["chained_latency_ms"] <= found["chained_high_ms"]
    assert found["chained_a_a_difference"] == pytest.approx(0, abs=1e-6)
    assert found["chained_replays"] == 64
    assert trial(drift=drifts[0]).call_ms == pytest.approx([CALL_MS] * 16)  # from replay to replay too


def test_a_cost_near_nothing_has_an_interval_that_holds_0():
    noise = [trial(call_ms) for call_ms in (-1e-5, 2e-5, -2e-5, 1e-5)]
    found = sum_up_chain("chained", noise)
    assert found["chained_low_ms"] <= 0
    assert not has_precise_cost(noise)
    assert has_precise_cost([trial()] * 4)
    assert not has_precise_cost([trial(CALL_MS * scale) for scale in (0.9, 1.0, 1.1, 1.2)])


def describe(chains, clocks=STEADY, refused=None):
    return describe_chain(TrialResults(None, chains=chains, chain_refused=refused), clocks)


def test_both_ways_to_launch_stand_beside_each_other_and_what_cannot_be_captured_has_a_reason():
    found = describe({False: [trial()] * 4, True: [trial(CALL_MS / 2)] * 4})
    assert found.chained_latency_ms == pytest.approx(CALL_MS)
    assert found.dependent_latency_ms == pytest.approx(CALL_MS / 2)
    assert (found.links, found.chain_refused, found.chain_noisy, found.clocks) == (LINKS, None, [], STEADY)
    moved = STEADY.model_copy(update={"during_min_mhz": 1500})
    found = describe({False: [], True: []}, moved, refused="RuntimeError: it synchronises")
    assert (found.chained_latency_ms, found.dependent_latency_ms) == (None, None)
    assert found.chain_refused == "RuntimeError: it synchronises"
    assert found.chain_noisy == ["clock moved by 24.2%: 1500 to 1980 MHz"]
