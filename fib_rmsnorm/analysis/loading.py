"""Read Traces from anywhere: .json arrays, .jsonl files, registries, datasets of flashinfer-bench."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from fib_rmsnorm.analysis.decoding import DecodedTrace, NotATraceError, Origin, TraceFacts, decode
from fib_rmsnorm.analysis.sections import LeftUnread, cluster_clocks
from fib_rmsnorm.analysis.trace_record import TraceRecord
from fib_rmsnorm.analysis.trace_sources import (
    TraceFile,
    author_by_path,
    find_roots,
    items_of,
    list_trace_files,
    path_in_registry,
    read_items,
)
from fib_rmsnorm.analysis.versions import find_other_versions, read_todays
from fib_rmsnorm.errors import InputError
from fib_rmsnorm.garbage_collection import collector_off
from fib_rmsnorm.registry.files.locking import locked
from fib_rmsnorm.registry.layout import find_root

if TYPE_CHECKING:
    from fib_rmsnorm.registry.seals import TraceOrigin
    from fib_rmsnorm.schema import Solution


@dataclass
class TraceSet:
    """The Traces that were asked for, and the Solutions of the registries they lie in."""

    records: list[TraceRecord]
    roots: list[Path]
    """The registries, where Definitions and Solutions can be found."""
    faults: list[str] = field(default_factory=list)
    """A line for each file that could not be read whole."""
    solutions: dict[str, Solution] = field(default_factory=dict)
    """Those that were measured, as their sources are today, once `read_solutions` was called."""
    unread: LeftUnread | None = None
    """What `records` leaves out where only the newest of each evaluation was asked for."""

    @cached_property
    def digests(self) -> dict[str, str]:
        """Those of the Solutions."""
        from fib_rmsnorm.schema import digest

        return {name: digest(solution) for name, solution in self.solutions.items()}

    def read_solutions(self) -> TraceSet:
        """Read the Solutions, and fill in their authors and languages."""
        measured = {record.solution for record in self.records}
        self.solutions = {name: each for name, each in read_todays(self.roots).items() if name in measured}
        for record in self.records:
            if solution := self.solutions.get(record.solution):
                record.author, record.language = solution.author, solution.spec.language.value
        return self


def load(*sources: str | Path, root: Path | None = None) -> list[TraceRecord]:
    """Return a record for each evaluation in trace files or folders (default: the registry found from here).

    What cannot be read is skipped, with one warning per file that says what and where.
    Raises InputError for a source that does not exist.
    """
    found = load_traces([Path(source) for source in sources], root, warn=partial(warnings.warn, stacklevel=3))
    return found.read_solutions().records


def load_traces(sources: list[Path], root: Path | None = None, *, warn: Callable[[str], None]) -> TraceSet:
    """Like `load`, with what the registries around the files say; `warn` gets a line for each bad file."""
    return decode_traces(sources, root, warn=warn).read()


@dataclass
class DecodedTraces:
    """The Traces of files, to choose among before they become records."""

    roots: list[Path]
    faults: list[str] = field(default_factory=list)
    traces: list[DecodedTrace] = field(default_factory=list)

    def facts(self) -> list[TraceFacts]:
        """What the Traces are of, in their order."""
        return list(dict.fromkeys(trace.facts for trace in self.traces))

    def keep(self, facts: Collection[TraceFacts]) -> None:
        """Leave out the Traces of others."""
        kept = set(facts)
        self.traces = [trace for trace in self.traces if trace.facts in kept]

    def leave_out_outdated(self) -> dict[str, int]:
        """Leave out the Traces of other versions of their Definition than the registry's; count them by Definition.

        Those that do not tell their version stay: flashinfer-bench does not record it.
        """
        outdated = find_other_versions(self.traces, self.roots)
        if outdated:
            self.keep([each for each in self.facts() if (each.definition, each.definition_sha256) not in outdated])
        counts = Counter[str]()
        for (name, _), number in outdated.items():
            counts[name] += number
        return counts

    def read(self) -> TraceSet:
        """All Traces."""
        return self._flatten(self.traces)

    def read_newest(self) -> TraceSet:
        """The newest Trace of each evaluation under the same conditions: `sections.split` keeps no others."""
        clocks = cluster_clocks((each.facts.hardware, each.facts.timer, each.during_mhz) for each in self.traces)
        newest: dict[object, DecodedTrace] = {}
        for trace in self.traces:
            facts = trace.facts
            key = facts[:2], facts[3], facts[5:], clocks.find(facts.hardware, facts.timer, trace.during_mhz)
            if key not in newest or newest[key].timestamp <= trace.timestamp:
                newest[key] = trace
        found = self._flatten(newest.values())
        found.unread = LeftUnread(len(self.traces) - len(newest), clocks)
        return found

    def _flatten(self, traces: Iterable[DecodedTrace]) -> TraceSet:
        with collector_off():  # records hold no cycles
            records = [trace.flatten() for trace in traces]
        return TraceSet(records, self.roots, self.faults)


def decode_traces(sources: list[Path], root: Path | None = None, *, warn: Callable[[str], None]) -> DecodedTraces:
    """Like `load_traces`, to choose among the Traces first."""
    asked = sources or [_near(find_root(root))]
    roots = find_roots([file for source in asked for file in list_trace_files(source)], sources, root)
    found = DecodedTraces(roots)
    with locked(reading=roots), collector_off():
        for file in (file for source in asked for file in list_trace_files(source)):
            faults: list[str] = []
            found.traces += _decode_file(file, faults)
            if faults:
                more = f"; and {len(faults) - 1} more in this file" if len(faults) > 1 else ""
                found.faults.append(f"{faults[0]} (skipped{more})")
                warn(found.faults[-1])
    return found


def _near(folder: Path) -> Path:
    """The folder as seen from the working folder, if it lies within: shorter to read."""
    here = Path.cwd()
    return folder.relative_to(here) if folder.is_relative_to(here) else folder


def _decode_file(file: TraceFile, faults: list[str]) -> Iterator[DecodedTrace]:
    """The Traces of a file; `faults` gets what could not be read in it."""
    path = file.path
    origin = Origin(str(path), path_in_registry(path), author_by_path(path))
    try:
        for number, item in items_of(path, file.root):
            try:
                trace = decode(item, origin, number)
            except NotATraceError as error:
                faults.append(f"{path}:{number}: {error}")
                continue
            if trace is not None:
                yield trace
    except InputError as error:
        faults.append(str(error))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        faults.append(f"{path}: not a JSON array: {error}")


def find_false(records: Iterable[TraceRecord]) -> dict[tuple[str, int], TraceOrigin]:
    """Those of the records not to believe, by path and line, read again from their files.

    They were changed since this machine recorded them, are dated in the future, or have no date.
    """
    from pydantic import ValidationError

    from fib_rmsnorm.registry.seals import Sealer, TraceOrigin, find_false_date
    from fib_rmsnorm.schema import Trace

    sealer, found = Sealer.of_this_machine(), dict[tuple[str, int], TraceOrigin]()
    for record, item in read_items(records):
        try:
            origin = sealer.find_origin(Trace.model_validate_json(item))
        except ValidationError:  # not by the schema's models, so not sealed
            origin = find_false_date(record.timestamp) or TraceOrigin.UNSEALED
        if origin.is_false:
            found[record.path, record.line] = origin
    return found
