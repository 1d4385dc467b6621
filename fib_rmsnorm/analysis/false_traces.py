"""Traces that say what cannot be: changed since this machine recorded them, dated in the future, or without a date."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby
from pathlib import Path

from pydantic import ValidationError

from fib_rmsnorm.analysis.trace_files.trace_sources import read_items
from fib_rmsnorm.analysis.trace_record import TraceRecord
from fib_rmsnorm.registry.seals import Sealer, TraceOrigin, find_false_date
from fib_rmsnorm.schema import Trace


def find_false(records: Iterable[TraceRecord]) -> dict[tuple[str, int], TraceOrigin]:
    """Those of the records not to believe, by path and line, read again from their files."""
    sealer, found = Sealer.of_this_machine(), dict[tuple[str, int], TraceOrigin]()
    by_path = sorted(records, key=lambda record: (record.path, record.line))
    for path, of_file in groupby(by_path, key=lambda record: record.path):
        asked = {record.line: record for record in of_file}
        for line, item in read_items(Path(path), asked):
            try:
                origin = sealer.find_origin(Trace.model_validate_json(item))
            except ValidationError:  # not by the schema's models, so not sealed
                origin = find_false_date(asked[line].timestamp) or TraceOrigin.UNSEALED
            if origin.is_false:
                found[path, line] = origin
    return found
