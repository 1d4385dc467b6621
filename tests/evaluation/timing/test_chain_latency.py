"""What a call costs in a chain, from the times of replays."""

from __future__ import annotations

import pytest

from fib_rmsnorm.evaluation.chained_trials import ChainResults
from fib_rmsnorm.evaluation.performance import describe_chain
from fib_rmsnorm.evaluation.timing.latency_statistics import LINKS, ChainTimes, has_precise_cost, sum_up_chain
from fib_rmsnorm.schema import Clocks

CALL_MS, BARE_MS = 0.0015, 0.003
STEADY = Clocks(before_mhz=1980, during_min_mhz=1980, during_max_mhz=1980)


def trial(call_ms=CALL_MS, drift=1.0, replays=16):
    """Both graphs take longer by `drift`, and from replay to replay."""
    bare = [BARE_MS * LINKS * drift * (1 + index * 1e-4) for index in range(replays)]
    return ChainTimes([each + call_ms * LINKS for each in bare], bare)


def test_a_call_costs_the_difference_of_the_graphs():
    found = sum_up_chain("chained", [trial()] * 4)
    assert found["chained_latency_ms"] == pytest.approx(CALL_MS)
    assert found["chained_bare_link_ms"] == pytest.approx(BARE_MS, rel=0.01)
    assert found["chained_low_ms"] <= found["chained_latency_ms"] <= found["chained_high_ms"]
    assert found["chained_replays"] == 64


def test_a_drift_of_both_graphs_cancels_out():
    found = sum_up_chain("chained", [trial(drift=drift) for drift in (1.0, 1.1, 1.2, 1.3)])
    assert found["chained_latency_ms"] == pytest.approx(CALL_MS)
    assert found["chained_a_a_difference"] == pytest.approx(0, abs=1e-6)


def test_a_cost_near_nothing_has_an_interval_that_holds_0():
    noise = [trial(call_ms) for call_ms in (-1e-5, 2e-5, -2e-5, 1e-5)]
    found = sum_up_chain("chained", noise)
    assert found["chained_low_ms"] <= 0
    assert not has_precise_cost(noise)


def test_trials_end_when_the_cost_is_known():
    assert has_precise_cost([trial()] * 4)
    assert not has_precise_cost([trial(CALL_MS * scale) for scale in (0.9, 1.0, 1.1, 1.2)])


def test_both_ways_to_launch_stand_beside_each_other():
    found = describe_chain(ChainResults((trial(),) * 4, (trial(CALL_MS / 2),) * 4), STEADY)
    assert found.chained_latency_ms == pytest.approx(CALL_MS)
    assert found.dependent_latency_ms == pytest.approx(CALL_MS / 2)
    assert (found.links, found.chain_refused, found.clocks) == (LINKS, None, STEADY)


def test_a_clock_that_moved_is_a_mark():
    moved = STEADY.model_copy(update={"during_min_mhz": 1500})
    found = describe_chain(ChainResults((trial(),) * 4), moved)
    assert found.chain_noisy == ["clock moved by 24.2%: 1500 to 1980 MHz"]
    assert found.dependent_latency_ms is None


def test_calls_that_cannot_be_captured_have_a_reason_and_no_cost():
    found = describe_chain(ChainResults(refused="RuntimeError: it synchronises"), STEADY)
    assert (found.chained_latency_ms, found.chain_refused) == (None, "RuntimeError: it synchronises")
