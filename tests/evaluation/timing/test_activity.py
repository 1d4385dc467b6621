"""Our layouts of CUPTI's records match those of cupti-python."""

from __future__ import annotations

import re

import pytest

from fib_rmsnorm.evaluation.timing.kernel_records import KernelRecord, MemoryRecord

RECORDS = re.compile(r"activity_(?:(kernel)|memcpy|memset)\d+_dtype")


def test_our_layouts_match_those_of_cupti_python():
    cupti = pytest.importorskip("cupti.cupti")
    found = {name: match for name in dir(cupti) if (match := RECORDS.fullmatch(name))}
    assert len(found) >= 3
    for name, match in found.items():
        layout = KernelRecord if match[1] else MemoryRecord
        fields = getattr(cupti, name).fields
        read = {field for field, _ in layout._fields_ if field != "configuration"}  # bytes of several kinds
        assert read >= {"kind", "start", "end", "stream_id"}
        for field in read:
            kind, offset = fields[field][:2]
            ours = getattr(layout, field)
            assert (ours.offset, ours.size) == (offset, kind.itemsize), f"{name}.{field}"
