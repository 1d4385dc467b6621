"""Distances of the judged elements from the exact answer, read again from the Traces that a report shows."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from fib_rmsnorm.analysis.trace_files.trace_sources import read_items
from fib_rmsnorm.analysis.trace_record import TraceRecord
from fib_rmsnorm.errors import InputError


@dataclass(frozen=True)
class UlpHistogram:
    """Elements by their distance in units in the last place, over all cases of all Workloads."""

    name: str
    """The Solution's, or that of the reference."""
    counts: dict[str, int]

    @property
    def elements(self) -> int:
        """The number of judged elements."""
        return max(1, sum(self.counts.values()))


def read_ulps(records: Iterable[TraceRecord]) -> list[UlpHistogram]:
    """A histogram for each Solution, and one for the reference; records without distances are skipped."""
    judged: dict[str, dict[int, TraceRecord]] = {}
    for record in records:
        if record.status in ("PASSED", "INCORRECT_NUMERICAL"):
            judged.setdefault(record.path, {})[record.line] = record
    totals: dict[str, Counter[str]] = {}
    reference: Counter[str] = Counter()
    for path, mine in judged.items():
        for number, case in _cases(path, mine):
            totals.setdefault(mine[number].solution, Counter()).update(_add_up(case.get("ulp")))
            reference.update(_add_up(case.get("reference_ulp")))
    found = [UlpHistogram(name, dict(counts)) for name, counts in sorted(totals.items()) if counts]
    return [*found, UlpHistogram("the reference", dict(reference))] if reference and found else found


def read_extras(path: str, records: Mapping[int, TraceRecord]) -> Iterator[tuple[int, dict[str, Any]]]:
    """What `Correctness.extra` of these Traces holds, by line; missing files, and Traces without it, are skipped."""
    with suppress(InputError, msgspec.DecodeError, UnicodeDecodeError):
        for number, data in read_items(Path(path), records):
            try:
                extra = json.loads(data)["evaluation"]["correctness"]["extra"]
            except (ValueError, LookupError, TypeError):
                continue
            if isinstance(extra, dict):
                yield number, extra


def _cases(path: str, records: Mapping[int, TraceRecord]) -> Iterator[tuple[int, dict[str, Any]]]:
    """The judged cases of each Trace; what other tools write there is skipped."""
    for number, extra in read_extras(path, records):
        cases = extra.get("cases")
        if isinstance(cases, list):
            yield from ((number, case) for case in cases if isinstance(case, dict))


def _add_up(outputs: Any) -> Counter[str]:
    total: Counter[str] = Counter()
    for ulp in (outputs or {}).values() if isinstance(outputs, dict) else ():
        histogram = ulp.get("histogram") if isinstance(ulp, dict) else None
        if isinstance(histogram, dict):
            total.update({bucket: number for bucket, number in histogram.items() if type(number) is int})
    return total
