"""A large file of Traces, one a line: what they are chosen by stays in memory, and only those asked for are decoded."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from typing import BinaryIO, NamedTuple

from fib_rmsnorm.analysis.decoding import NotATraceError, TraceFacts, decode, decode_facts
from fib_rmsnorm.analysis.sections import ClockClusters, SeenClock
from fib_rmsnorm.analysis.trace_files.kinds import Content, DefinitionVersion, Kind, SeenVersion
from fib_rmsnorm.analysis.trace_files.trace_sources import author_by_path, path_in_registry
from fib_rmsnorm.analysis.trace_record import TraceRecord
from fib_rmsnorm.errors import InputError
from fib_rmsnorm.registry.files.regular_files import MOST_RECORD, lines_of


class _Place(NamedTuple):
    """Where a Trace lies; the last of several places is that of the newest Trace."""

    timestamp: str
    offset: int
    line: int
    during_mhz: float | None


class LargeFile:
    """The Traces of a file that is open for reading, and stays so until `close`."""

    def __init__(self, file: BinaryIO, path: Path) -> None:
        self._file = file
        self._path = path
        self._author, self._shown = author_by_path(path), path_in_registry(path)
        self._chosen: dict[TraceFacts, list[_Place]] = {}
        self.faults: list[str] = []
        """What could not be read."""
        self._read()

    def _read(self) -> None:
        offset = 0
        try:
            for number, line in lines_of(self._file, self._path):
                try:
                    found = None if line.isspace() else decode_facts(line)
                except NotATraceError as error:
                    self.faults.append(f"{self._path}:{number}: {error}")
                    found = None
                if found:
                    place = _Place(found.timestamp, offset, number, found.during_mhz)
                    self._chosen.setdefault(found.shared, []).append(place)
                offset += len(line)
        except InputError as error:
            self.faults.append(str(error))

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def count(self) -> int:
        """The number of chosen Traces."""
        return sum(map(len, self._chosen.values()))

    def kinds(self) -> Iterator[Kind]:
        """What the chosen Traces are of, in the order of the file."""
        return map(Kind.of, self._chosen)

    def keep(self, kinds: Collection[Kind]) -> None:
        """Choose the Traces of these kinds."""
        self._chosen = {facts: places for facts, places in self._chosen.items() if Kind.of(facts) in kinds}

    def versions(self) -> Iterator[SeenVersion]:
        """The versions of their Definitions that the chosen Traces are of."""
        for facts, places in self._chosen.items():
            if version := DefinitionVersion.of(facts):
                yield SeenVersion(version, len(places), max(places).timestamp)

    def leave_out(self, versions: Collection[DefinitionVersion]) -> None:
        """Choose no Traces of these versions."""
        self._chosen = {
            facts: places for facts, places in self._chosen.items() if DefinitionVersion.of(facts) not in versions
        }

    def clocks(self) -> Iterator[SeenClock]:
        """The devices, timers and clocks of the chosen Traces."""
        for facts, places in self._chosen.items():
            for clock in {place.during_mhz for place in places if place.during_mhz is not None}:
                yield facts.hardware, facts.timer, clock

    def newest(self, clocks: ClockClusters) -> Iterator[TraceRecord]:
        """The first and the newest Trace of each evaluation under the same conditions, in the order of the file.

        `sections.split` makes the same of them as of all: it keeps the newest, in the place that the first has.
        """
        evaluations: dict[tuple[TraceFacts, tuple[float, float] | None], list[_Place]] = {}
        for facts, places in self._chosen.items():
            same = facts._replace(sizes=(), definition_sha256=None)
            by_clock: dict[tuple[float, float] | None, list[_Place]] = {}
            for place in places:
                by_clock.setdefault(clocks.find(facts, place.during_mhz), []).append(place)
            for clock, alike in by_clock.items():
                evaluations.setdefault((same, clock), []).extend((alike[0], max(alike)))
        firsts = {min(places, key=_offset) for places in evaluations.values()}
        return self._decode(firsts | {max(places) for places in evaluations.values()})

    def newest_contents(self) -> Iterator[tuple[str, Content]]:
        """The contents of each Solution on each Workload among the chosen Traces, the newest last, with timestamps."""
        dated = sorted((max(places), Content.of(facts)) for facts, places in self._chosen.items())
        return ((place.timestamp, content) for place, content in dated)

    def of_contents(self, contents: Collection[Content]) -> Iterator[TraceRecord]:
        """The chosen Traces of these contents, in the order of the file.

        With the oldest of each Solution on a Workload, by which `comparison.compare` orders what it compares.
        """
        wanted = set(contents)
        chosen: set[_Place] = set()
        oldest: dict[tuple[str, ...], _Place] = {}
        for facts, places in self._chosen.items():
            if Content.of(facts) in wanted:
                chosen.update(places)
            key = (facts.definition, facts.workload, facts.solution)
            first = min(places)
            oldest[key] = min(first, oldest.get(key, first))
        return self._decode(chosen.union(oldest.values()))

    def records(self) -> Iterator[TraceRecord]:
        """All chosen Traces, in the order of the file."""
        return self._decode(place for places in self._chosen.values() for place in places)

    def _decode(self, places: Iterable[_Place]) -> Iterator[TraceRecord]:
        for place in sorted(places, key=_offset):
            self._file.seek(place.offset)
            try:
                record = decode(self._file.readline(MOST_RECORD), str(self._path), place.line, self._author)
            except NotATraceError:
                record = None
            if record is None or record.timestamp != place.timestamp:
                raise InputError(f"{self._path}: changed while it was read; run the command again")
            record.file, record.offset = self._shown, place.offset
            yield record


def _offset(place: _Place) -> int:
    return place.offset
