"""A large file of Traces: what is in it, and the records of the Traces that are chosen, decoded from the file."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Any, BinaryIO

import msgspec

from fib_rmsnorm.analysis.decoding import NotATraceError, decode
from fib_rmsnorm.analysis.sections import ClockClusters
from fib_rmsnorm.analysis.trace_files.chunks import Extent, read_extent
from fib_rmsnorm.analysis.trace_files.columnar_copy import ColumnarCopy
from fib_rmsnorm.analysis.trace_files.kinds import Content, DefinitionVersion, Kind, SeenVersion, see_versions
from fib_rmsnorm.analysis.trace_files.parquet_rows import open_rows
from fib_rmsnorm.analysis.trace_record import TraceRecord
from fib_rmsnorm.errors import InputError

_decode_axes = msgspec.json.Decoder(dict[str, int]).decode
_BATCH = 10_000
_FACTS = ("definition", "workload", "solution", "hardware", "timestamp")
"""What a record must have in common with its row."""
_VERSION = ", ".join(DefinitionVersion._fields)
_ROW = ", ".join(("chunk", "line", "place", "length", "failed", *_FACTS))
_NEWEST = f"""
WITH clock AS (
  SELECT unnest($hardware::VARCHAR[]) AS hardware, unnest($timer::VARCHAR[]) AS timer,
         unnest($low::DOUBLE[]) AS low, unnest($high::DOUBLE[]) AS high
), picked AS (
  SELECT min(place) AS first, arg_max(place, (timestamp, place)) AS newest
  FROM chosen LEFT JOIN clock ON chosen.hardware = clock.hardware AND chosen.timer IS NOT DISTINCT FROM clock.timer
                              AND during_mhz BETWEEN low AND high
  GROUP BY definition, workload, solution, solution_sha256, chosen.hardware, chosen.timer, cold_l2, settings, failed,
           low
)
SELECT {_ROW} FROM traces
SEMI JOIN (SELECT first AS place FROM picked UNION SELECT newest FROM picked) USING (place)
ORDER BY place
"""

_NEWEST_CONTENTS = f"""
SELECT timestamp, {", ".join(Content._fields)} FROM traces SEMI JOIN (
  SELECT arg_max(place, (timestamp, place)) AS place FROM chosen GROUP BY definition, workload, solution
) USING (place)
"""
_OF_CONTENTS = f"""
WITH wanted AS (SELECT {", ".join(f"unnest(${name}::VARCHAR[]) AS {name}" for name in Content._fields)})
SELECT {_ROW} FROM traces SEMI JOIN (
  SELECT place FROM chosen SEMI JOIN wanted
  ON {" AND ".join(f"chosen.{name} IS NOT DISTINCT FROM wanted.{name}" for name in Content._fields)}
  UNION SELECT arg_min(place, (timestamp, place)) FROM chosen GROUP BY definition, workload, solution
) USING (place)
ORDER BY place
"""


@dataclass(frozen=True)
class TracePlace:
    """What records tell of their file."""

    path: Path
    shown: str
    author: str | None


class TraceColumns:
    """The Traces of a file that is open for reading; closing it closes the file."""

    def __init__(self, file: BinaryIO, place: TracePlace, copy: ColumnarCopy, size: int) -> None:
        self._file = file
        self._place = place
        self._copy = copy
        self._lines_before = [0, *accumulate(chunk.lines for chunk in copy.chunks)]
        self._rows = open_rows(copy.rows)
        self._choice = "traces"
        self._narrow("")
        self._faults = [
            (self._lines_before[number] + chunk.first_fault[0], chunk.first_fault[1])
            for number, chunk in enumerate(copy.chunks)
            if chunk.first_fault
        ]
        self._uncounted = sum(chunk.faults for chunk in copy.chunks) - len(self._faults)
        self._last = self._read_last(size)

    def _read_last(self, size: int) -> TraceRecord | None:
        """The Trace of a last line without a newline, which another command may be writing: it is in no chunk."""
        end = self._copy.chunks[-1].extent.end
        line = read_extent(self._file.fileno(), Extent(end, size))
        number = self._lines_before[-1] + 1
        try:
            return self._decode(line, number, end) if line.strip() else None
        except NotATraceError as error:
            self._faults.append((number, str(error)))
            return None

    @property
    def faults(self) -> tuple[str | None, int]:
        """The first fault of the file, if any, and how many more there are."""
        if not self._faults:
            return None, 0
        line, what = self._faults[0]
        return f"{self._place.path}:{line}: {what}", len(self._faults) + self._uncounted - 1

    def close(self) -> None:
        """Close the file and the database."""
        self._rows.close()
        self._copy.rows.close()
        self._file.close()

    def count(self) -> int:
        """The number of chosen Traces."""
        ((number,),) = self._ask("SELECT count(*) FROM chosen")
        return int(number) + bool(self._last)

    def kinds(self) -> list[Kind]:
        """What the Traces are of, in the order of the file."""
        rows = self._ask("SELECT definition, solution, axes FROM traces GROUP BY ALL ORDER BY min(place)")
        found = [Kind(definition, solution, tuple(_decode_axes(axes).items())) for definition, solution, axes in rows]
        return [*found, *([Kind.of(self._last)] if self._last else [])]

    def keep(self, kinds: Collection[Kind]) -> None:
        """Choose the Traces of these kinds."""
        wanted = [(each.definition, each.solution, msgspec.json.encode(each.axes).decode()) for each in kinds]
        definitions, solutions, axes = ([each[part] for each in wanted] for part in range(3))
        lists = "unnest($1::VARCHAR[]) AS definition, unnest($2::VARCHAR[]) AS solution, unnest($3::VARCHAR[]) AS axes"
        self._ask(f"CREATE OR REPLACE TEMP TABLE kept AS SELECT {lists}", [definitions, solutions, axes])
        self._narrow("SEMI JOIN kept USING (definition, solution, axes)")
        if self._last and Kind.of(self._last) not in kinds:
            self._last = None

    def versions(self) -> list[SeenVersion]:
        """The versions of their Definitions that the chosen Traces are of."""
        query = f"SELECT {_VERSION}, count(*), max(timestamp) FROM chosen WHERE definition_sha256 != '' GROUP BY ALL"
        rows = self._ask(query)
        found = [SeenVersion(DefinitionVersion(*version), traces, newest) for *version, traces, newest in rows]
        return [*found, *see_versions([self._last] if self._last else [])]

    def leave_out(self, versions: Collection[DefinitionVersion]) -> None:
        """Choose no Traces of these versions."""
        definitions, digests = ([each[part] for each in versions] for part in range(2))
        lists = "unnest($1::VARCHAR[]) AS definition, unnest($2::VARCHAR[]) AS definition_sha256"
        self._ask(f"CREATE OR REPLACE TEMP TABLE left_out AS SELECT {lists}", [definitions, digests])
        self._narrow(f"ANTI JOIN left_out USING ({_VERSION})")
        if self._last and DefinitionVersion.of(self._last) in versions:
            self._last = None

    def _narrow(self, join: str) -> None:
        """Choose among the chosen Traces."""
        self._choice = f"(SELECT * FROM {self._choice} {join})"
        self._ask(f"CREATE OR REPLACE TEMP VIEW chosen AS {self._choice}")

    def clocks(self) -> list[tuple[str, str | None, float]]:
        """The devices, timers and clocks of the chosen Traces."""
        rows = self._ask("SELECT DISTINCT hardware, timer, during_mhz FROM chosen WHERE during_mhz IS NOT NULL")
        last = self._last
        if last and last.during_mhz is not None:
            rows.append((last.hardware, last.timer, last.during_mhz))
        return rows

    def newest(self, clocks: ClockClusters) -> Iterator[TraceRecord]:
        """The first and the newest Trace of each evaluation under the same conditions, in the order of the file.

        `sections.split` makes the same of them as of all: it keeps the newest, in the place that the first has.
        """
        ranges = [(*home, *each) for home, found in clocks.ranges.items() for each in found]
        names = ("hardware", "timer", "low", "high")
        values = {name: [each[part] for each in ranges] for part, name in enumerate(names)}
        yield from self._decode_rows(self._ask(_NEWEST, values))
        yield from [self._last] if self._last else []

    def newest_contents(self) -> Iterator[tuple[str, Content]]:
        """The newest content of each Solution on each Workload among the chosen Traces, after its timestamp."""
        yield from ((timestamp, Content(*content)) for timestamp, *content in self._ask(_NEWEST_CONTENTS))
        yield from [(self._last.timestamp, Content.of(self._last))] if self._last else []

    def of_contents(self, contents: Collection[Content]) -> Iterator[TraceRecord]:
        """The chosen Traces of these contents, in the order of the file.

        With the oldest of each Solution on a Workload, by which `comparison.compare` orders what it compares.
        """
        values = {name: [getattr(each, name) for each in contents] for name in Content._fields}
        return self._stream(_OF_CONTENTS, values)

    def records(self) -> Iterator[TraceRecord]:
        """All chosen Traces, in the order of the file."""
        return self._stream(f"SELECT {_ROW} FROM chosen ORDER BY place")

    def _stream(self, query: str, values: Any = None) -> Iterator[TraceRecord]:
        answer = self._rows.execute(query, values)
        while rows := answer.fetchmany(_BATCH):
            yield from self._decode_rows(rows)
        yield from [self._last] if self._last else []

    def _ask(self, query: str, values: Any = None) -> list[Any]:
        return self._rows.execute(query, values).fetchall()

    def _decode_rows(self, rows: Iterable[Sequence[Any]]) -> Iterator[TraceRecord]:
        for chunk, line, place, length, failed, *facts in rows:
            data = read_extent(self._file.fileno(), Extent(place, place + length))
            try:
                record = self._decode(data, self._lines_before[chunk] + line, place)
            except NotATraceError:
                record = None
            if record is None or (record.latency_ms is None) != failed or _facts(record) != facts:
                self._copy.discard()
                raise InputError(f"{self._place.path}: changed while it was read; run the command again")
            yield record

    def _decode(self, data: bytes, line: int, place: int) -> TraceRecord | None:
        record = decode(data, str(self._place.path), line, self._place.author)
        if record is not None:
            record.file, record.offset = self._place.shown, place
        return record


def _facts(record: TraceRecord) -> list[str]:
    return [getattr(record, name) for name in _FACTS]
