"""The launch in a kernel's record, read from records that are laid out by hand as in cupti_activity.h."""

from __future__ import annotations

import ctypes
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fib_rmsnorm.evaluation.timing.kernel_records import KernelRecord, read_launch
from fib_rmsnorm.schema import KernelLaunch

# kind, cacheConfig, sharedMemoryConfig, registersPerThread, partitionedGlobalCache (requested, executed);
# start, end, completed; deviceId, contextId, streamId; grid, block; staticSharedMemory, dynamicSharedMemory;
# localMemory (per thread, total), correlationId; gridId, name.
LAYOUT = struct.Struct("<IBBHII QQQ III 3i 3i ii III qQ")
NAME_AT = LAYOUT.size - 8


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
    endless = (ctypes.c_char * 256)(*b"x" * 256)
    assert read_launch(make_record(endless)).name == "x" * 256


def test_a_record_without_a_name():
    assert read_launch(make_record()).name == ""


@given(st.binary(max_size=2 * LAYOUT.size), st.integers(0, LAYOUT.size))
def test_garbage_and_parts_of_records_are_read_within_bounds(garbage, cut):
    assert read_launch(garbage[:cut][: LAYOUT.size - 1]) is None
    whole = garbage.ljust(LAYOUT.size, b"\xff")
    launch = read_launch(whole[:NAME_AT] + bytes(8) + whole[LAYOUT.size :])
    assert launch.name == ""
    sizes = (*launch.grid, *launch.block, launch.registers, launch.static_shared_bytes, launch.dynamic_shared_bytes)
    assert all(0 <= size < 1 << 32 for size in sizes)
