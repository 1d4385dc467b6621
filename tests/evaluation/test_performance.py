"""What trials sum up to."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pytest

from fib_rmsnorm.evaluation.interleaved_trials import TrialResults
from fib_rmsnorm.evaluation.performance import Conditions, describe_performance
from fib_rmsnorm.evaluation.timing.timer import Sample
from fib_rmsnorm.evaluation.timing.trial_times import collect
from fib_rmsnorm.evaluation.worker.worker_messages import Timed, TimingPrepared
from fib_rmsnorm.schema import Clocks, KernelLaunch, Settings

LAUNCH = KernelLaunch("RmsNorm", (8, 1, 1), (256, 1, 1), 40, static_shared_bytes=32, dynamic_shared_bytes=0)
OTHER = replace(LAUNCH, name="RmsNormTuned", block=(512, 1, 1))


def make_trial(launches):
    samples = [Sample(0.5, 0.25), Sample(0.5, 0.25, 2, launches)]
    return Timed(**vars(collect(samples)), clock_ns=0, repeated=[])


@pytest.mark.parametrize(
    ("launches", "told"),
    [([(LAUNCH,), (LAUNCH, OTHER)], [LAUNCH, OTHER]), ([(LAUNCH,), ()], []), ([None, None], None)],
)
def test_the_last_trial_tells_what_is_launched(launches, told):
    trials = tuple(map(make_trial, launches))
    results = TrialResults(TimingPrepared("cupti", 0.0, None), trials, None, (), "iterations")
    admitted = SimpleNamespace(first_call_ms=1.0, worker=SimpleNamespace(build_s=1.0))
    conditions = Conditions(Settings(), 1024, None, None, Clocks(), None)
    performance = describe_performance(admitted, results, results, conditions, interpreted=False)
    assert performance.launches == told
    assert performance.samples == 4
