"""What CUPTI recorded: the fields of a record that is laid out as in cupti_activity.h, and the call that it is of."""

import ctypes
import re
import struct
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fib_rmsnorm.evaluation.timing.cuda_driver import END_OF_CALL
from fib_rmsnorm.evaluation.timing.kernel_records import KernelRecord, MemoryRecord, Piece, attribute, is_end_of_call
from fib_rmsnorm.evaluation.timing.timer import MeasurementError

# kind, cacheConfig, sharedMemoryConfig, registersPerThread, partitionedGlobalCache (requested, executed);
# start, end, completed; deviceId, contextId, streamId; grid, block; staticSharedMemory, dynamicSharedMemory;
# localMemory (per thread, total), correlationId; gridId, name.
LAYOUT = struct.Struct("<IBBHII QQQ III 3i 3i ii III qQ")
RECORDS = re.compile(r"activity_(?:(kernel)|memcpy|memset)\d+_dtype")
OURS, THEIRS = 13, 7


def record_of(name: ctypes.Array | None, grid_x: int = 1) -> KernelRecord:
    sizes = (grid_x, 2, 1, 1, 4, 3, 528, 65536)
    head = (10, 0, 0, 40, 0, 0, 1000, 2600, 0, 0, 1, 7)
    packed = LAYOUT.pack(*head, *sizes, 0, 0, 99, 5, ctypes.addressof(name) if name else 0)
    return KernelRecord.from_buffer_copy(packed)


@pytest.mark.parametrize(
    ("name", "grid_x", "is_end"),
    [
        (ctypes.create_string_buffer(END_OF_CALL.encode()), 1, True),
        (ctypes.create_string_buffer(END_OF_CALL.encode()), 2, False),
        (ctypes.create_string_buffer(f"{END_OF_CALL}s".encode()), 1, False),
        ((ctypes.c_char * 256).from_buffer_copy(b"x" * 256), 1, False),  # a name need not end
        (None, 1, False),
    ],
)
def test_the_numbers_and_the_name_are_where_the_header_says(name, grid_x, is_end):
    found = record_of(name, grid_x)
    assert (found.start, found.end, found.stream_id, found.grid_x, found.block_x) == (1000, 2600, 7, grid_x, 1)
    assert is_end_of_call(found) == is_end
    assert ctypes.sizeof(KernelRecord) == LAYOUT.size


def test_our_layouts_match_those_of_cupti_python():
    cupti = pytest.importorskip("cupti.cupti")
    found = {name: match for name in dir(cupti) if (match := RECORDS.fullmatch(name))}
    assert len(found) >= 3
    for name, match in found.items():
        layout = KernelRecord if match[1] else MemoryRecord
        fields = getattr(cupti, name).fields
        read = {field for field, *_ in layout._fields_} - {
            "configuration",
            "memory_and_correlation",
        }  # of several kinds
        assert read >= {"kind", "start", "end", "stream_id"}
        for field in read:
            kind, offset = fields[field][:2]
            ours = getattr(layout, field)
            assert (ours.offset, ours.size) == (offset, kind.itemsize), f"{name}.{field}"


def timeline(calls, extras: Sequence[int] = (), wait=1):
    """The pieces of calls, each a list of (gap, duration) after a marker of two pieces.

    The mark of a call's end starts `wait` after its own work, before the call's extras.
    """
    now, pieces = 0, []
    for work, extra in zip(calls, (*extras, *[0] * (len(calls) - len(extras))), strict=True):
        pieces += [Piece(now, now + 5, OURS), Piece(now + 6, now + 7, OURS)]
        now += 7
        for number in range(len(work) + 1):
            if number == len(work) - extra:
                pieces.append(Piece(now + wait, now + wait + 1, THEIRS, is_end=True))
                now += wait + 1
            if number < len(work):
                gap, duration = work[number]
                pieces.append(Piece(now + gap, now + gap + duration, THEIRS))
                now += gap + duration
        now += 100
    return pieces


def split(pieces, extras, *, queued=True):
    return attribute(pieces, OURS, extras, 2, queued=queued)


CALLS = st.lists(
    st.lists(st.tuples(st.integers(1, 50), st.integers(1, 1000)), min_size=1, max_size=4), min_size=1, max_size=6
)


@given(CALLS, st.integers(0, 1), st.randoms())
def test_each_call_gets_the_work_after_its_marker_but_not_ours_at_its_end(calls, ours, source):
    extras = [ours] * len(calls)
    pieces = timeline([[*work, *[(1, 2)] * ours] for work in calls], extras)
    source.shuffle(pieces)  # CUPTI hands records over in no order
    samples = split(pieces, extras)
    for sample, work in zip(samples, calls, strict=True):
        assert sample.pieces == len(work)
        assert sample.busy_ms == pytest.approx(sum(duration for _, duration in work) / 1e6)
        assert sample.span_ms == pytest.approx((sum(gap + duration for gap, duration in work) - work[0][0]) / 1e6)


def test_a_call_that_waits_for_the_device_lasts_until_its_stream_is_free():
    (sample,) = split(timeline([[(5, 10)]], wait=90_000), [0], queued=False)
    assert sample.span_ms == pytest.approx(90_010e-6)


def test_work_that_was_not_recorded_fails():
    calls = [[(5, 10)]] * 3
    pieces = timeline(calls[:1], wait=90_000)
    later = [piece._replace(start=piece.start + 10**6, end=piece.end + 10**6) for piece in timeline(calls[1:])]
    assert len(split(pieces + later, [0] * 3)) == 3  # one wait is chance
    with pytest.raises(MeasurementError, match=r"busy for 90 us more than CUPTI recorded"):
        split(timeline(calls, wait=90_000), [0] * 3)


@pytest.mark.parametrize(
    ("pieces", "extras", "says"),
    [
        (timeline([[(1, 2)], []]), [0, 0], "no device work for 1 of 2"),
        (timeline([[(1, 2)], [], [(1, 2)]]), [0, 0, 0], "no device work for 1 of 3"),
        (timeline([[(1, 2)]], [1]), [1], "no device work for 1 of 1"),
        ([each for each in timeline([[(1, 2)]]) if not each.is_end], [0], "no single end of 1 of 1"),
        ([*timeline([[(1, 2)]]), timeline([[(1, 2)]])[-1]], [0], "no single end of 1 of 1"),
        (timeline([[(1, 2)]])[2:], [0], "no device work for 1 of 1"),
        (timeline([[(1, 2)], [(1, 2)]])[:-2], [0, 0], "no device work for 1 of 2"),
        (timeline([[(1, 2)], [(1, 2)]]), [0], "ran amid the marker"),
        ([*timeline([[(1, 2)]]), Piece(7, 8, OURS)], [0], "used the marker's stream"),
        ([*timeline([[(1, 2)]] * 2), Piece(11, 12, OURS)], [0, 0], "used the marker's stream"),
    ],
)
def test_missing_or_foreign_work_fails(pieces, extras, says):
    with pytest.raises(MeasurementError, match=says) as caught:
        split(pieces, extras)
    assert caught.value.calls == len(extras)
