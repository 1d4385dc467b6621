"""When the calls of a measurement are too far apart to trust its median."""

from __future__ import annotations

import random

import pytest

from fib_rmsnorm.evaluation.timing.scatter import in_words, measure_scatter
from fib_rmsnorm.machine.load import CpuLoad

QUIET = CpuLoad(0.0, 0)


def trials(*medians: float, noise: float = 0.01, calls: int = 40) -> list[list[float]]:
    source = random.Random(1)
    return [[median * (1 + noise * abs(source.gauss(0, 1))) for _ in range(calls)] for median in medians]


def doubts(found: list[list[float]], timer: str = "cpu_clock", load: CpuLoad = QUIET) -> list[str]:
    return measure_scatter(found, 0.0).find_doubts(timer, load)


def test_a_narrow_interval_is_trusted_though_the_halves_of_a_cpu_differ_a_little():
    drifting = trials(*[1.0] * 8, *[1.031] * 8)
    assert doubts(drifting) == []
    (found,) = doubts(drifting, "cupti")
    assert found.startswith("earlier and later trials 3.") and found.endswith("% apart"), "a GPU does not drift so"


def test_a_cpu_that_drifts_more_than_it_does_from_run_to_run_is_doubted():
    (found,) = doubts(trials(*[1.0] * 12, *[1.08] * 12))
    assert found.startswith("earlier and later trials 8.")


@pytest.mark.parametrize("timer", ["cpu_clock", "cupti"])
def test_a_wide_interval_is_doubted_even_if_the_halves_agree(timer):
    found = doubts(trials(1.0, 1.4, 1.4, 1.0), timer)
    assert found[0].startswith("95% interval ±")


def test_calls_that_scatter_are_doubted_though_the_median_is_sure():
    source = random.Random(1)
    calls = [[source.choice((*[1.0] * 15, 40.0)) for _ in range(100)] for _ in range(8)]
    assert doubts(calls) == ["slow calls (95th percentile) take 40x as long as fast ones (5th)"]


def test_a_few_ticks_of_a_gpus_clock_are_no_wide_interval():
    calls = [[0.001216, 0.001376] * 50]
    assert measure_scatter(calls, 0.0).interval.relative_to(0.001296) > 0.06
    assert doubts(calls, "cupti") == []
    assert doubts([[1000 * call for call in calls[0]]], "cupti") == ["95% interval ±6.2%"]


def test_one_call_has_no_interval():
    assert doubts([[1.0]])[0] == "a single call has no interval"


def test_the_first_doubt_names_its_cause():
    wide = trials(1.0, 3.0, 3.0, 1.0)
    first, *others = doubts(wide, load=CpuLoad(0.62, 900))
    assert first.startswith("95% interval ±") and first.endswith(": other processes took 62% of the cores")
    assert not any("cores" in other for other in others)
    assert doubts(wide, load=CpuLoad(0.0, 900))[0].endswith(": other processes took a core away 900 times")
    assert ":" not in doubts(wide, load=CpuLoad())[0], "unknown"


def test_a_heavy_load_is_a_doubt_of_its_own_for_it_slows_every_call():
    steady = trials(*[1.0] * 8)
    assert doubts(steady, load=CpuLoad(0.4, 0)) == ["other processes took 40% of the cores"]
    assert doubts(steady, load=CpuLoad(0.1, 500)) == []
    assert doubts(steady, "cupti", CpuLoad(0.9, 0)) == []


@pytest.mark.parametrize(
    ("share", "said"), [(0.031, "3.1%"), (0.24, "24%"), (2.5, "2.50x"), (540.04, "540x"), (54004.0, "54004x")]
)
def test_a_large_difference_is_a_factor(share, said):
    assert in_words(share) == said
