"""How CUPTI's records begin, against what cupti-python knows of them."""

from __future__ import annotations

import re

import pytest

RECORDS = re.compile(r"activity_(?:(kernel)|memcpy|memset)\d+_dtype")


def test_records_begin_as_we_read_them():
    cupti = pytest.importorskip("cupti.cupti")
    from fib_rmsnorm.evaluation.timing.activity import _KernelRecord, _MemoryRecord

    found = {name: match for name in dir(cupti) if (match := RECORDS.fullmatch(name))}
    assert len(found) >= 3
    for name, match in found.items():
        layout = _KernelRecord if match[1] else _MemoryRecord
        fields = getattr(cupti, name).fields
        for field in ("kind", "start", "end", "stream_id"):
            kind, offset = fields[field][:2]
            ours = getattr(layout, field)
            assert (ours.offset, ours.size) == (offset, kind.itemsize), f"{name}.{field}"
