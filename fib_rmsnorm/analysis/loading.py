"""Read Traces from anywhere: .json arrays, .jsonl files, registries, datasets of flashinfer-bench."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path

import msgspec

from fib_rmsnorm.analysis.decoding import NotATraceError, decode
from fib_rmsnorm.analysis.sections import LeftUnread, clocks_of, gather_clocks
from fib_rmsnorm.analysis.solution_sources import SolutionFacts, read_solutions
from fib_rmsnorm.analysis.trace_files.kinds import Content, DefinitionVersion, Kind, newest_contents, see_versions
from fib_rmsnorm.analysis.trace_files.large_file import LargeFile
from fib_rmsnorm.analysis.trace_files.trace_sources import (
    FileForm,
    TraceFile,
    author_by_path,
    find_roots,
    form_of,
    items_of,
    list_trace_files,
    path_in_registry,
)
from fib_rmsnorm.analysis.trace_record import TraceRecord
from fib_rmsnorm.analysis.versions import OtherVersions, find_other_versions
from fib_rmsnorm.errors import InputError
from fib_rmsnorm.garbage_collection import collector_off
from fib_rmsnorm.registry.files.locking import locked
from fib_rmsnorm.registry.files.regular_files import open_regular
from fib_rmsnorm.registry.layout import find_root

LARGE_BYTES = 64 << 20
"""The size from which only those Traces of a file are decoded that are asked for. A smaller one takes a second."""


@dataclass
class TraceSet:
    """The Traces that were asked for, and the Solutions of the registries they lie in."""

    records: list[TraceRecord] = field(default_factory=list)
    solutions: dict[str, SolutionFacts] = field(default_factory=dict)
    roots: list[Path] = field(default_factory=list)
    """The registries, where Definitions can be found."""
    faults: list[str] = field(default_factory=list)
    """A line for each file that could not be read whole."""
    digests: dict[str, str] = field(default_factory=dict)
    """Those of the Solutions as they are today, if they were asked for."""
    unread: LeftUnread | None = None
    """What `records` leaves out where only the newest of each evaluation was asked for."""


def load(*sources: str | Path, root: Path | None = None) -> list[TraceRecord]:
    """Return a record for each evaluation in trace files or folders (default: the registry found from here).

    What cannot be read is skipped, with one warning per file that says what and where.
    Raises InputError for a source that does not exist.
    """
    return load_traces([Path(source) for source in sources], root, warn=_warn).records


def _warn(message: str) -> None:
    warnings.warn(message, stacklevel=4)


def load_traces(sources: list[Path], root: Path | None = None, *, warn: Callable[[str], None]) -> TraceSet:
    """Like `load`, with what the registries around the files say; `warn` gets a line for each bad file."""
    with open_traces(sources, root, warn=warn) as found:
        return found.read()


@dataclass
class OpenTraces:
    """Files of Traces: small ones are read already, of large ones what is in them is known."""

    solutions: dict[str, SolutionFacts]
    roots: list[Path]
    faults: list[str] = field(default_factory=list)
    parts: list[list[TraceRecord] | LargeFile] = field(default_factory=list)
    """The files, in their order."""

    def count(self) -> int:
        """The number of Traces."""
        return sum(len(part) if isinstance(part, list) else part.count() for part in self.parts)

    def kinds(self) -> list[Kind]:
        """What the Traces are of."""
        kinds = (map(Kind.of, part) if isinstance(part, list) else part.kinds() for part in self.parts)
        return list(dict.fromkeys(chain.from_iterable(kinds)))

    def keep(self, kinds: Collection[Kind]) -> None:
        """Leave out the Traces of other kinds."""
        kept = set(kinds)
        for part in self.parts:
            if isinstance(part, list):
                part[:] = [record for record in part if Kind.of(record) in kept]
            else:
                part.keep(kept)

    def leave_out_outdated(self, *, alone: bool) -> OtherVersions:
        """Leave out the Traces of other versions of their Definition than the registry's, and return what was found.

        With `alone`, those of one version stay where none is of the registry's. Those that do not tell their version
        stay: flashinfer-bench does not record it.
        """
        seen = (see_versions(part) if isinstance(part, list) else part.versions() for part in self.parts)
        found = find_other_versions(chain.from_iterable(seen), self.roots, alone=alone)
        for part in self.parts if found.outdated else ():
            if isinstance(part, list):
                part[:] = [record for record in part if DefinitionVersion.of(record) not in found.outdated]
            else:
                part.leave_out(found.outdated)
        return found

    def read(self) -> TraceSet:
        """All Traces."""
        return self._finish(part if isinstance(part, list) else part.records() for part in self.parts)

    def read_newest(self) -> TraceSet:
        """The Traces that `sections.split` needs to find the newest of each evaluation, and all of small files."""
        if all(isinstance(part, list) for part in self.parts):
            return self.read()
        clocks = gather_clocks(
            chain.from_iterable(clocks_of(part) if isinstance(part, list) else part.clocks() for part in self.parts)
        )
        found = self._finish(part if isinstance(part, list) else part.newest(clocks) for part in self.parts)
        found.unread = LeftUnread(self.count() - len(found.records), clocks)
        return found

    def read_newest_contents(self) -> TraceSet:
        """Those that `comparison.compare` needs: of the newest content of each Solution on each Workload.

        And all of small files.
        """
        if all(isinstance(part, list) for part in self.parts):
            return self.read()
        dated = (
            ((each.timestamp, Content.of(each)) for each in part) if isinstance(part, list) else part.newest_contents()
            for part in self.parts
        )
        contents = newest_contents(chain.from_iterable(dated))
        return self._finish(part if isinstance(part, list) else part.of_contents(contents) for part in self.parts)

    def _finish(self, parts: Iterable[Iterable[TraceRecord]]) -> TraceSet:
        found = TraceSet([], self.solutions, self.roots, self.faults)
        with collector_off():  # records hold no cycles
            for part in parts:
                found.records += part
        for record in found.records:
            if facts := self.solutions.get(record.solution):
                record.author, record.language = facts.author, facts.language
        return found


@contextmanager
def open_traces(sources: list[Path], root: Path | None = None, *, warn: Callable[[str], None]) -> Iterator[OpenTraces]:
    """Open files for `load_traces`, or to choose among their Traces first. Registries stay locked for reading."""
    asked = sources or [_near(find_root(root))]
    roots = find_roots([file for source in asked for file in list_trace_files(source)], sources, root)
    with ExitStack() as stack:
        stack.enter_context(locked(reading=roots))
        solutions: dict[str, SolutionFacts] = {}
        for dataset in roots:
            for name, solution in read_solutions(dataset).items():
                solutions.setdefault(name, solution)
        found = OpenTraces(solutions, roots)

        def note(fault: str) -> None:
            found.faults.append(fault)
            warn(fault)

        with collector_off():
            for file in (file for source in asked for file in list_trace_files(source)):
                part = _open_large(file, note)
                if part is not None:
                    stack.callback(part.close)
                found.parts.append(part if part is not None else _read_file(file, note))
        yield found


def _near(folder: Path) -> Path:
    """The folder as seen from the working folder, if it lies within: shorter to read."""
    here = Path.cwd()
    return folder.relative_to(here) if folder.is_relative_to(here) else folder


def _open_large(file: TraceFile, warn: Callable[[str], None]) -> LargeFile | None:
    """A large file of lines; None for any other, which is read whole, and then tells what is wrong with it."""
    with suppress(InputError), ExitStack() as stack:
        opened = stack.enter_context(open_regular(file.path, file.root))
        if os.fstat(opened.fileno()).st_size < LARGE_BYTES or form_of(opened, file.path) is not FileForm.LINES:
            return None
        found = LargeFile(opened, file.path)
        stack.pop_all()
        _tell(found.faults, warn)
        return found
    return None


def _read_file(file: TraceFile, warn: Callable[[str], None]) -> list[TraceRecord]:
    """The records of a file. One warning covers all that could not be read in it."""
    records: list[TraceRecord] = []
    faults: list[str] = []
    path = file.path
    author, shown = author_by_path(path), path_in_registry(path)
    try:
        for number, item in items_of(path, file.root):
            try:
                record = decode(item, str(path), number, author)
            except NotATraceError as error:
                faults.append(f"{path}:{number}: {error}")
                continue
            if record is not None:
                record.file = shown
                records.append(record)
    except InputError as error:
        faults.append(str(error))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        faults.append(f"{path}: not a JSON array: {error}")
    _tell(faults, warn)
    return records


def _tell(faults: list[str], warn: Callable[[str], None]) -> None:
    """One warning for the faults of a file, if there are any."""
    if faults:
        more = f"; and {len(faults) - 1} more in this file" if len(faults) > 1 else ""
        warn(f"{faults[0]} (skipped{more})")
