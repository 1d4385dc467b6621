"""How often `compare` is right on a CPU, by simulation: drift, two modes, heavy tails; two runs a side or ten.

Each run is drawn call by call and summed up as the evaluator does. A run as a whole lies off the truth, by a noise that
no interval of its own shows; the intervals learn it from the other runs. What is assumed of it is 2%: on a quieter
machine the intervals are wider than need be, and hold more than 97 of 100. A single run a side has only the assumption.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from functools import cache

import pytest

from fib_rmsnorm.analysis.comparing.comparison import SolutionComparison, compare
from fib_rmsnorm.evaluation.timing.latency_statistics import measure_scatter
from support.trace_json import record

Noise = Callable[[random.Random], float]
"""What a run lies off the truth by, as a logarithm."""
TRIALS, CALLS = 4, 5
SLOWED = 1.10


def normal(deviation: float) -> Noise:
    return lambda source: source.gauss(0, deviation)


def two_modes(apart: float) -> Noise:
    """One run of four is slow.

    Of two runs a side, both of NEW and none of OLD are so in 3.5 of 100 cases (in 6.25, were one of two slow), which
    nothing tells from a slowdown.
    """
    return lambda source: apart * (source.random() < 0.25)


def tail(deviation: float) -> Noise:
    """Most runs are a little slowed, and few by a lot."""
    return lambda source: source.expovariate(1 / deviation)


def draw_run(source: random.Random, latency_ms: float, number: int, *, trial_noise: float = 0.01):
    """A run whose calls have a tail too: one of twenty takes up to three times as long."""
    trials = [
        [
            centre * math.exp(source.gauss(0, 0.03)) * (source.uniform(1, 3) if source.random() < 0.05 else 1)
            for _ in range(CALLS)
        ]
        for centre in (latency_ms * math.exp(source.gauss(0, trial_noise)) for _ in range(TRIALS))
    ]
    found = measure_scatter(trials, 0.0)
    return record(
        latency_ms=found.latency_ms,
        latency_low_ms=found.interval.low,
        latency_high_ms=found.interval.high,
        timer="cpu_clock",
        device_session="here",
        timestamp=f"2026-01-01T00:{number:02}",
    )


@cache
def compare_often(noise: Noise, runs: int, *, slowdown: float = 1.0, **options: float) -> list[SolutionComparison]:
    """Comparisons of `runs` runs a side, of a kernel and of one that takes `slowdown` times as long."""
    source = random.Random(runs)
    found = []
    for _ in range(800 if runs == 2 else 200):
        sides = (
            [draw_run(source, ms * math.exp(noise(source)), number, **options) for number in range(runs)]
            for ms in (1.0, slowdown)
        )
        found += compare(*sides).comparisons
    return found


def percent(found: list[SolutionComparison], holds: Callable[[SolutionComparison], bool]) -> float:
    return 100 * sum(map(holds, found)) / len(found)


def held(found: list[SolutionComparison], truth: float = 1.0) -> float:
    return percent(found, lambda each: each.ratio.low <= truth <= each.ratio.high)


def slower(found: list[SolutionComparison]) -> float:
    return percent(found, lambda each: each.verdict == "slower")


QUIET = normal(0.004)
NOISES = {
    "as assumed": normal(0.02),
    "twice as assumed": normal(0.04),
    "four times as assumed": normal(0.08),
    "two modes 4% apart": two_modes(0.04),
    "two modes 13% apart": two_modes(0.13),
    "a tail of 2%": tail(0.02),
    "a tail of 6%": tail(0.06),
}
noises = pytest.mark.parametrize("noise", NOISES.values(), ids=NOISES.keys())


@noises
@pytest.mark.parametrize("runs", [2, 10])
def test_of_equal_kernels_few_are_called_slower(noise, runs):
    assert slower(compare_often(noise, runs)) <= 5


@noises
def test_the_intervals_of_ten_runs_hold_the_truth(noise):
    """What each run's interval tells is counted too, and makes them hold a little more than 95 of 100."""
    assert 93 <= held(compare_often(noise, 10)) <= 98


@pytest.mark.parametrize("runs", [2, 10])
def test_on_a_quiet_machine_a_slowdown_of_10_percent_is_found(runs):
    found = compare_often(QUIET, runs, slowdown=SLOWED)
    assert slower(found) >= 95 and held(found, SLOWED) >= 95
    assert slower(compare_often(QUIET, runs)) == 0


def test_trials_in_two_modes_widen_the_interval_of_a_run():
    """Addresses, or another thread on the core: the runs themselves have no noise but that."""
    assert slower(compare_often(normal(0.0), 2, trial_noise=0.08)) <= 5


def test_what_drifts_slowly_cancels_out_in_rounds_that_are_measured_in_turn():
    """A machine that becomes hot, by 30%: unpaired, the drift hides what the rounds show."""
    source = random.Random(3)
    paired: list[SolutionComparison] = []
    equal: list[SolutionComparison] = []
    unpaired: list[SolutionComparison] = []
    for _ in range(100):
        hot = [1 + 0.1 * number + source.gauss(0, 0.05) for number in range(4)]

        def rounds(ms: float, hot=hot):
            return [draw_run(source, ms * each, number) for number, each in enumerate(hot)]

        before, after = rounds(1.0), rounds(SLOWED)
        paired += compare(before, after, in_turn=True).comparisons
        unpaired += compare(before, after).comparisons
        equal += compare(before, rounds(1.0), in_turn=True).comparisons
    assert slower(paired) >= 95 and held(paired, SLOWED) >= 95
    assert slower(unpaired) < 50
    assert slower(equal) <= 5
