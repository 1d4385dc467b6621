from __future__ import annotations

import random
from statistics import NormalDist

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fib_rmsnorm.analysis.roofline import fit
from fib_rmsnorm.student_t import t_central_probability, t_quantile
from support.trace_json import record

BATCHES = (1, 8, 32, 128, 512, 4096, 16384, 65536)


def timed(latency_of, batches=BATCHES, **changes):
    return [record(batch=batch, latency_ms=latency_of(16384 * batch + 8192), **changes) for batch in batches]


@given(st.floats(1e-4, 1e-2), st.floats(50, 8000))
def test_a_perfect_line_is_found(floor_ms, bandwidth):
    found = fit(timed(lambda moved: floor_ms + moved / bandwidth / 1e6))
    assert found.floor_ms.value == pytest.approx(floor_ms, rel=1e-6)
    assert found.bandwidth_gb_per_s.value == pytest.approx(bandwidth, rel=1e-6)
    assert found.crossover_bytes == pytest.approx(floor_ms * bandwidth * 1e6, rel=1e-6)
    assert abs(found.worst_miss) < 1e-6


def test_intervals_hold_the_truth_19_times_in_20():
    """Under proportional noise, for both parameters."""
    noise = random.Random(1)
    held = {"floor": 0, "bandwidth": 0}
    for _ in range(400):
        found = fit(timed(lambda moved: (0.002 + moved / 4e9) * noise.gauss(1, 0.03)))
        held["floor"] += found.floor_ms.low <= 0.002 <= found.floor_ms.high
        held["bandwidth"] += found.bandwidth_gb_per_s.low <= 4000 <= found.bandwidth_gb_per_s.high
    assert all(0.92 <= number / 400 <= 0.98 for number in held.values()), held


def test_too_few_points_are_not_fitted():
    assert fit(timed(lambda moved: 0.002 + moved / 4e9, batches=(1, 8, 32))) is None


def test_a_latency_that_falls_with_the_work_has_no_line():
    assert fit(timed(lambda moved: 10 / moved)) is None


def test_quantiles_are_those_of_the_tables():
    table = {1: 12.706, 2: 4.303, 3: 3.182, 6: 2.447, 10: 2.228, 30: 2.042, 120: 1.980}
    assert {freedom: round(t_quantile(0.95, freedom), 3) for freedom in table} == table
    assert t_quantile(0.95, 10**6) == NormalDist().inv_cdf(0.975)


@given(st.floats(0.01, 0.999), st.integers(1, 400))
def test_a_quantile_inverts_the_probability(confidence, freedom):
    assert t_central_probability(t_quantile(confidence, freedom), freedom) == pytest.approx(confidence, abs=1e-9)
