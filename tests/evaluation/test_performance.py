"""What trials sum up to."""

from types import SimpleNamespace
from typing import Any

import pytest

from fib_rmsnorm.evaluation.interleaved_trials import TrialResults
from fib_rmsnorm.evaluation.performance import describe_performance
from fib_rmsnorm.evaluation.timing.latency_statistics import measure_calls
from fib_rmsnorm.evaluation.timing.timer import Sample
from fib_rmsnorm.evaluation.worker.worker_messages import Timed, TimingPrepared
from fib_rmsnorm.schema import Ceiling, Clocks, Performance

ADMITTED: Any = SimpleNamespace(first_call_ms=1.0, worker=SimpleNamespace(build_s=1.0))


def make_trial(*samples):
    return Timed(list(samples), clock_ns=0, repeated=[], queued=False)


def test_on_a_gpu_all_calls_count_with_their_pieces():
    trials = [make_trial(Sample(0.5, 0.25, 2), Sample(0.5, 0.25, 2))] * 2
    results = TrialResults(ADMITTED, TimingPrepared("cupti", 0.0, None), trials)
    shared = Performance(bytes_moved=1024, cold_l2=True, noisy=["no copy to compare with"])
    found = describe_performance(results, results, shared)
    assert (found.samples, found.disturbed_calls, found.pieces, found.busy_ms) == (4, None, 2, 0.25)
    assert (found.noisy, found.cold_l2, found.bytes_moved) == (shared.noisy, True, 1024)


def describe(own_ms, reference_ms, *, ceiling=None, clocks=None):
    """The Performance of trials with these medians."""
    own, reference = (tuple(map(steady_trial, each)) for each in (own_ms, reference_ms))
    return describe_trials(own, reference, ceiling=ceiling, clocks=clocks)


def describe_trials(*trials, ceiling=None, clocks=None):
    """The Performance of a Solution's trials and the reference's on a CPU."""
    own, reference = (TrialResults(ADMITTED, TimingPrepared("cpu_clock", 0.0, None), each) for each in trials)
    return describe_performance(own, reference, Performance(bytes_moved=1024, ceiling=ceiling, clocks=clocks))


def steady_trial(span_ms):
    return make_trial(*(Sample(span_ms * (1 + index * 1e-4), span_ms) for index in range(40)))


STEADY, WILD = (1.0,) * 8, (1.0, 9.0, 1.0, 9.0)


def test_the_reference_is_a_result_too():
    found = describe((2.0,) * 8, WILD)
    assert found.noisy == [], "its interval tells"
    assert found.latency_ms == pytest.approx(2.0, rel=0.01)
    assert found.reference_low_ms < found.reference_latency_ms < found.reference_high_ms
    assert found.speedup_factor == found.reference_latency_ms / found.latency_ms, "of the two numbers beside it"


def test_only_what_no_interval_tells_is_marked():
    ceiling = Ceiling(empty_ms=0.001, copy_ms=0.99, copy_low_ms=0.98, copy_high_ms=1.0, copy_method="cpp")
    assert describe(STEADY, STEADY, ceiling=ceiling).percent_of_copy == pytest.approx(99, abs=1)
    assert describe(STEADY, STEADY, ceiling=ceiling).noisy == []
    slow = ceiling.model_copy(update={"copy_ms": 2.0, "copy_low_ms": 1.9, "copy_high_ms": 2.1})
    assert describe(STEADY, STEADY, ceiling=slow).noisy == [
        "faster than the limit: 50% of the time of a copy of the same bytes"
    ]
    assert describe(WILD, STEADY, clocks=Clocks(other_share=0.62)).noisy == [], "said once, at the end"


def disturb(trial, calls):
    """The trial, with its first calls disturbed and a hundred times as long."""
    first = [each._replace(span_ms=100 * each.span_ms, is_disturbed=True) for each in trial.samples[:calls]]
    return make_trial(*first, *trial.samples[calls:])


def describe_disturbed(calls, calls_of_reference=0, *, trials=8, other_share=None):
    """The Performance of trials with as many disturbed calls in each."""
    own, reference = ((disturb(steady_trial(1.0), each),) * trials for each in (calls, calls_of_reference))
    return describe_trials(own, reference, clocks=Clocks(other_share=other_share))


@pytest.mark.parametrize(("disturbed", "left"), [(0, 320), (1, 312), (30, 80), (39, 8)])
def test_disturbed_calls_are_not_samples(disturbed, left):
    found = describe_disturbed(disturbed, disturbed, other_share=0.62)
    assert (found.samples, found.disturbed_calls, found.noisy) == (left, 320 - left, [])
    assert found.latency_ms == found.busy_ms == found.reference_latency_ms == pytest.approx(1.0, rel=0.01)
    assert found.latency_high_ms < 1.01 and found.reference_high_ms < 1.01


@pytest.mark.parametrize(("share", "cause"), [(0.62, ": other processes took 62% of the cores"), (None, "")])
def test_where_too_few_calls_were_undisturbed_only_an_upper_bound_is_known(share, cause):
    found = describe_disturbed(40, other_share=share)
    assert (found.samples, found.disturbed_calls) == (320, 320)
    assert found.noisy == [f"only 0 of 320 calls undisturbed{cause}"]
    assert found.latency_low_ms == 0 and found.latency_high_ms > 100 and found.reference_low_ms > 0.99
    found = describe_disturbed(0, 39, trials=4, other_share=share)
    assert found.noisy == [f"the reference: only 4 of 160 calls undisturbed{cause}"]
    assert found.reference_latency_ms == pytest.approx(1.0, rel=0.01), "the best that is known"
    assert found.reference_low_ms == 0 and found.reference_high_ms > 100


def test_a_call_that_nobody_else_disturbed_disturbs_itself():
    found = describe_disturbed(40, 40, other_share=0.01)
    assert (found.samples, found.disturbed_calls, found.noisy) == (320, 320, [])
    assert found.latency_low_ms > 99


def test_of_few_calls_half_suffice():
    trials = [steady_trial(1.0), disturb(steady_trial(1.0), 40)]
    one_call = [trial.samples[:1] for trial in trials]
    assert measure_calls(one_call * 2, 0.0).doubt is None
    assert measure_calls([*one_call, one_call[1]], 0.0).doubt == "only 1 of 3 calls undisturbed"
