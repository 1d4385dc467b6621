from __future__ import annotations

from itertools import chain

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fib_rmsnorm.evaluation.timing.kernel_records import KernelRecord, Piece, attribute
from fib_rmsnorm.evaluation.timing.timer import MAX_LAUNCHES, MeasurementError

OURS, THEIRS = 13, 7


def timeline(calls):
    """The pieces of calls, each a list of (gap, duration) after a marker of two pieces."""
    now, pieces = 0, []
    for work in calls:
        pieces += [Piece(now, now + 5, OURS), Piece(now + 6, now + 7, OURS)]
        now += 7
        for gap, duration in work:
            pieces.append(Piece(now + gap, now + gap + duration, THEIRS))
            now += gap + duration
        now += 100
    return pieces


CALLS = st.lists(
    st.lists(st.tuples(st.integers(1, 50), st.integers(1, 1000)), min_size=1, max_size=4), min_size=1, max_size=6
)


@given(CALLS, st.randoms())
def test_each_call_gets_the_work_after_its_marker(calls, source):
    pieces = timeline(calls)
    source.shuffle(pieces)  # CUPTI hands records over in no order
    samples = attribute(pieces, OURS, [0] * len(calls))
    for sample, work in zip(samples, calls, strict=True):
        assert sample.pieces == len(work)
        assert sample.busy_ms == pytest.approx(sum(duration for _, duration in work) / 1e6)
        assert sample.span_ms == pytest.approx((sum(gap + duration for gap, duration in work) - work[0][0]) / 1e6)


def test_our_own_work_at_the_end_does_not_count():
    samples = attribute(timeline([[(5, 10), (1, 2)], [(5, 20)]]), OURS, [1, 0])
    assert [(sample.span_ms, sample.pieces) for sample in samples] == [(1e-5, 1), (2e-5, 1)]


def launched_rows(sample):
    return None if sample.launches is None else [launch.grid[0] for launch in sample.launches]


def timeline_of_kernels(*calls):
    """The pieces of calls, each a list of the rows that its kernels are launched for; 0 is a copy."""
    rows = chain.from_iterable(calls)
    return [
        piece._replace(kernel=bytes(KernelRecord(grid_x=number)))
        if piece.stream == THEIRS and (number := next(rows))
        else piece
        for piece in timeline([[(1, 2)] * len(call) for call in calls])
    ]


def test_the_last_call_has_its_launches():
    pieces = timeline_of_kernels([8], [0, 16, 8, 99])
    samples = attribute(reversed(pieces), OURS, [0, 1])  # the last piece is our own kernel
    assert [launched_rows(sample) for sample in samples] == [None, [16, 8]]


def test_a_call_of_copies_launched_nothing():
    assert launched_rows(attribute(timeline_of_kernels([0]), OURS, [0])[-1]) == []


def test_of_many_launches_only_the_first_are_kept():
    rows = list(range(1, 3 * MAX_LAUNCHES))
    (sample,) = attribute(timeline_of_kernels(rows), OURS, [0])
    assert launched_rows(sample) == rows[:MAX_LAUNCHES]
    assert sample.pieces == len(rows)


@pytest.mark.parametrize(
    ("pieces", "extras", "says"),
    [
        (timeline([[(1, 2)], []]), [0, 0], "no device work for 1 of 2"),
        (timeline([[(1, 2)], [], [(1, 2)]]), [0, 0, 0], "no device work for 1 of 3"),
        (timeline([[(1, 2)]]), [1], "no device work for 1 of 1"),
        (timeline([[(1, 2)]])[2:], [0], "no device work for 1 of 1"),
        (timeline([[(1, 2)], [(1, 2)]])[:-1], [0, 0], "no device work for 1 of 2"),
        (timeline([[(1, 2)], [(1, 2)]]), [0], "ran amid the marker"),
    ],
)
def test_missing_or_foreign_work_fails(pieces, extras, says):
    with pytest.raises(MeasurementError, match=says) as caught:
        attribute(pieces, OURS, extras)
    assert caught.value.calls == len(extras)
