"""Distances of the judged elements from the exact answer, read again from the Traces that a report shows."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import msgspec

from fib_rmsnorm.analysis.trace_record import TraceRecord
from fib_rmsnorm.analysis.trace_sources import read_items
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


class _Ulps(msgspec.Struct):
    histogram: dict[str, int] = {}


class _Case(msgspec.Struct):
    ulp: dict[str, _Ulps | None] = {}
    reference_ulp: dict[str, _Ulps | None] = {}


class _Judged(msgspec.Struct):
    cases: list[_Case] = []


def read_ulps(records: Iterable[TraceRecord]) -> list[UlpHistogram]:
    """A histogram for each Solution, and one for the reference; records without distances are skipped."""
    totals: dict[str, Counter[str]] = defaultdict(Counter)
    reference: Counter[str] = Counter()
    for record, extra in read_extras(each for each in records if each.status in ("PASSED", "INCORRECT_NUMERICAL")):
        with suppress(msgspec.ValidationError):  # what other tools write there
            for case in msgspec.convert(extra, _Judged).cases:
                for total, ulps in ((totals[record.solution], case.ulp), (reference, case.reference_ulp)):
                    for each in filter(None, ulps.values()):
                        total.update(each.histogram)
    found = [UlpHistogram(name, dict(counts)) for name, counts in sorted(totals.items()) if counts]
    return [*found, UlpHistogram("the reference", dict(reference))] if reference and found else found


def read_extras(records: Iterable[TraceRecord]) -> Iterator[tuple[TraceRecord, dict[str, Any]]]:
    """What `Correctness.extra` of these Traces holds; missing files, and Traces without it, are skipped."""
    with suppress(InputError, msgspec.DecodeError, UnicodeDecodeError):
        for record, data in read_items(records):
            try:
                extra = json.loads(data)["evaluation"]["correctness"]["extra"]
            except (ValueError, LookupError, TypeError):
                continue
            if isinstance(extra, dict):
                yield record, extra
