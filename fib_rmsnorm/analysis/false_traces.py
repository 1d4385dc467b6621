"""Traces that say what cannot be: changed since this machine recorded them, or dated in the future."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby
from pathlib import Path

from pydantic import ValidationError

from fib_rmsnorm.analysis.loading import read_items
from fib_rmsnorm.analysis.trace_record import TraceRecord
from fib_rmsnorm.registry.seals import Origin, Sealer
from fib_rmsnorm.schema import Trace


def find_false(records: Iterable[TraceRecord]) -> dict[tuple[str, int], Origin]:
    """The false ones of the records, by path and line, read again from their files."""
    sealer, found = Sealer.of_this_machine(), dict[tuple[str, int], Origin]()
    by_path = sorted(records, key=lambda record: (record.path, record.line))
    for path, of_file in groupby(by_path, key=lambda record: record.path):
        lines = {record.line for record in of_file}
        for line, item in read_items(Path(path), lines):
            try:
                origin = sealer.find_origin(Trace.model_validate_json(item))
            except ValidationError:
                continue  # not by the schema's models, so not sealed
            if origin.is_false:
                found[path, line] = origin
    return found
