"""What CUPTI recorded: the launch in a record that is laid out as in cupti_activity.h, and the call that it is of."""

from __future__ import annotations

import ctypes
import re
import struct
from collections.abc import Sequence
from itertools import chain

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fib_rmsnorm.evaluation.timing.cuda_driver import END_OF_CALL
from fib_rmsnorm.evaluation.timing.kernel_records import KernelRecord, MemoryRecord, Piece, attribute, read_launch
from fib_rmsnorm.evaluation.timing.timer import MAX_LAUNCHES, MeasurementError
from fib_rmsnorm.schema import KernelLaunch

# kind, cacheConfig, sharedMemoryConfig, registersPerThread, partitionedGlobalCache (requested, executed);
# start, end, completed; deviceId, contextId, streamId; grid, block; staticSharedMemory, dynamicSharedMemory;
# localMemory (per thread, total), correlationId; gridId, name.
LAYOUT = struct.Struct("<IBBHII QQQ III 3i 3i ii III qQ")
NAME_AT = LAYOUT.size - 8
RECORDS = re.compile(r"activity_(?:(kernel)|memcpy|memset)\d+_dtype")
OURS, THEIRS = 13, 7


def make_record(name: ctypes.Array | None = None, *, behind: bytes = b"") -> bytes:
    sizes = (4096, 2, 1, 128, 4, 3, 528, 65536)
    head = (10, 0, 0, 40, 0, 0, 1000, 2600, 0, 0, 1, 7)
    return LAYOUT.pack(*head, *sizes, 0, 0, 99, 5, ctypes.addressof(name) if name else 0) + behind


def test_the_numbers_are_where_the_header_says():
    name = ctypes.create_string_buffer(b"_Z7RmsNormPKf")
    told = KernelLaunch(
        name="_Z7RmsNormPKf",
        grid=(4096, 2, 1),
        block=(128, 4, 3),
        registers=40,
        static_shared_bytes=528,
        dynamic_shared_bytes=65536,
    )
    assert read_launch(make_record(name)) == told
    assert read_launch(make_record(name, behind=bytes(104))) == told  # as CUpti_ActivityKernel10 is
    assert ctypes.sizeof(KernelRecord) == LAYOUT.size


@pytest.mark.parametrize(
    ("given", "read"),
    [
        (b"", ""),
        (b"long_" * 1000, ("long_" * 52)[:256]),
        (b"caf\xc3\xa9 \xff", "café \N{REPLACEMENT CHARACTER}"),
        (b"\xc3\xa9" * 128, "é" * 128),
        (b"a" + b"\xc3\xa9" * 128, "a" + "é" * 127 + "\N{REPLACEMENT CHARACTER}"),
    ],
)
def test_a_name_is_cut_and_always_text(given, read):
    assert read_launch(make_record(ctypes.create_string_buffer(given))).name == read


def test_a_name_need_not_end():
    endless = (ctypes.c_char * 256).from_buffer_copy(b"x" * 256)
    assert read_launch(make_record(endless)).name == "x" * 256


@given(st.binary(max_size=2 * LAYOUT.size))
def test_garbage_is_read_within_bounds(garbage):
    whole = garbage.ljust(LAYOUT.size, b"\xff")
    launch = read_launch(whole[:NAME_AT] + bytes(8) + whole[LAYOUT.size :])
    assert launch.name == ""
    sizes = (*launch.grid, *launch.block, launch.registers, launch.static_shared_bytes, launch.dynamic_shared_bytes)
    assert all(0 <= size < 1 << 32 for size in sizes)


def test_our_layouts_match_those_of_cupti_python():
    cupti = pytest.importorskip("cupti.cupti")
    found = {name: match for name in dir(cupti) if (match := RECORDS.fullmatch(name))}
    assert len(found) >= 3
    for name, match in found.items():
        layout = KernelRecord if match[1] else MemoryRecord
        fields = getattr(cupti, name).fields
        read = {field for field, *_ in layout._fields_ if field != "configuration"}  # bytes of several kinds
        assert read >= {"kind", "start", "end", "stream_id"}
        for field in read:
            kind, offset = fields[field][:2]
            ours = getattr(layout, field)
            assert (ours.offset, ours.size) == (offset, kind.itemsize), f"{name}.{field}"


END = ctypes.create_string_buffer(END_OF_CALL.encode())


def timeline(calls, extras: Sequence[int] = (), wait=1):
    """The pieces of calls, each a list of (gap, duration) after a marker of two pieces.

    The mark of a call's end starts `wait` after its own work, before the call's extras.
    """
    now, pieces = 0, []
    mark = bytes(KernelRecord(grid_x=1, block_x=1, name=ctypes.addressof(END)))
    for work, extra in zip(calls, (*extras, *[0] * (len(calls) - len(extras))), strict=True):
        pieces += [Piece(now, now + 5, OURS), Piece(now + 6, now + 7, OURS)]
        now += 7
        for number in range(len(work) + 1):
            if number == len(work) - extra:
                pieces.append(Piece(now + wait, now + wait + 1, THEIRS, mark))
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


def launched_rows(sample):
    return None if sample.launches is None else [launch.grid[0] for launch in sample.launches]


def timeline_of_kernels(*calls, extras=()):
    """The pieces of calls, each a list of the rows that its kernels are launched for; 0 is a copy."""
    rows = chain.from_iterable(calls)
    return [
        piece._replace(kernel=bytes(KernelRecord(grid_x=number)))
        if piece.stream == THEIRS and not piece.kernel and (number := next(rows))
        else piece
        for piece in timeline([[(1, 2)] * len(call) for call in calls], extras)
    ]


def test_the_last_call_has_its_launches_of_many_the_first():
    pieces = timeline_of_kernels([8], [0, 16, 8, 99], extras=[0, 1])
    samples = split(reversed(pieces), [0, 1])  # the last piece is our own kernel
    assert [launched_rows(sample) for sample in samples] == [None, [16, 8]]
    assert launched_rows(split(timeline_of_kernels([0]), [0])[-1]) == []
    rows = list(range(1, 3 * MAX_LAUNCHES))
    (sample,) = split(timeline_of_kernels(rows), [0])
    assert launched_rows(sample) == rows[:MAX_LAUNCHES]
    assert sample.pieces == len(rows)


@pytest.mark.parametrize(
    ("pieces", "extras", "says"),
    [
        (timeline([[(1, 2)], []]), [0, 0], "no device work for 1 of 2"),
        (timeline([[(1, 2)], [], [(1, 2)]]), [0, 0, 0], "no device work for 1 of 3"),
        (timeline([[(1, 2)]], [1]), [1], "no device work for 1 of 1"),
        ([each for each in timeline([[(1, 2)]]) if not each.kernel], [0], "no single end of 1 of 1"),
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
