"""The fewest choices that are as good as the best at every batch."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from fib_rmsnorm.tuning.choosing import TOLERANCE, climb
from fib_rmsnorm.tuning.sweep import split_evenly

A, B, C = ((("threads", number),) for number in (1, 2, 3))


def chosen(rungs, batch):
    return next(rung.parameters for rung in rungs if rung.largest is None or batch <= rung.largest)


def test_one_choice_that_is_good_everywhere_is_enough():
    (rung,) = climb({1: {A: 1.0, B: 1.005}, 8: {A: 2.1, B: 2.0}, 64: {A: 3.0, B: 3.02}})
    assert (rung.largest, rung.parameters) == (None, {"threads": 2})


def test_the_border_lies_between_the_batches_that_were_measured():
    few, many = climb({512: {A: 1.0, B: 2.0}, 2048: {A: 2.0, B: 1.0}})
    assert (few.largest, few.parameters, many.largest, many.parameters) == (1024, {"threads": 1}, None, {"threads": 2})


def test_of_equally_far_reaching_choices_the_faster_wins():
    (rung,) = climb({1: {A: 1.008, B: 1.0, C: 1.004}, 2: {A: 1.0, B: 1.005, C: 1.0}})
    assert rung.parameters == {"threads": 3}


def test_what_failed_at_a_batch_is_not_chosen_there():
    rungs = climb({1: {A: 1.0, B: 1.009}, 64: {B: 5.0}})
    assert chosen(rungs, 64) == {"threads": 2}


def test_the_evidence_is_told():
    (rung,) = climb({1: {A: 0.0016}, 8: {A: 0.00201, B: 0.002}})
    assert rung.evidence == "1: 1.60 us, 8: 2.01 us (+0.5%)"


@given(
    st.dictionaries(
        st.integers(1, 1 << 20),
        st.dictionaries(st.sampled_from([A, B, C]), st.floats(0.001, 10), min_size=1),
        min_size=1,
        max_size=8,
    )
)
def test_at_every_measured_batch_the_choice_is_good(timings):
    rungs = climb(timings)
    assert rungs[-1].largest is None
    borders = [rung.largest for rung in rungs[:-1]]
    assert borders == sorted(borders)
    for batch, latencies in timings.items():
        latency = latencies[tuple(chosen(rungs, batch).items())]
        assert latency <= min(latencies.values()) * (1 + TOLERANCE) + 1e-12


@given(st.integers(1, 100))
def test_heats_are_of_about_the_same_size(number):
    parts = split_evenly([(("n", i),) for i in range(number)], 16)
    assert [item for part in parts for item in part] == [(("n", i),) for i in range(number)]
    sizes = [len(part) for part in parts]
    assert max(sizes) <= 16
    assert max(sizes) - min(sizes) <= 1
