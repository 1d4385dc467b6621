"""Read Traces from anywhere: .json arrays, .jsonl files, registries, datasets of flashinfer-bench."""

import warnings
from collections import Counter
from collections.abc import Collection, Iterable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from operator import attrgetter
from pathlib import Path

from fib_rmsnorm.analysis.reading import read_files, read_items
from fib_rmsnorm.analysis.sections import Home, split
from fib_rmsnorm.analysis.trace_record import TraceRecord
from fib_rmsnorm.errors import InputError
from fib_rmsnorm.garbage_collection import collector_off
from fib_rmsnorm.registry.layout import list_definitions
from fib_rmsnorm.registry.seals import TraceOrigin
from fib_rmsnorm.registry.selection import bench_command, choose, row_axis, row_size
from fib_rmsnorm.schema import Definition, Solution


@dataclass(frozen=True)
class TraceChoice:
    """The Traces that a command is about: names or globs, and batch sizes; empty ones choose all."""

    definitions: Collection[str] = ()
    solutions: Collection[str] = ()
    batch_sizes: Collection[int] = ()
    all_versions: bool = False
    """Also those of other versions of their Definition than the registry's, which are told apart later."""
    shows_outdated: bool = False
    """Also these where there are no others and nothing is chosen by them."""
    believes_all: bool = True
    """Also those that were changed since they were recorded."""


@dataclass
class TraceSet:
    """The Traces of files, to choose among, and what the registries that they lie in say."""

    roots: list[Path]
    """The registries, where Definitions and Solutions can be found."""
    traces: list[TraceRecord]
    faults: list[str] = field(default_factory=list)
    """A line for each file that could not be read whole."""
    solutions: dict[str, Solution] = field(default_factory=dict)
    """The measured Solutions, as their sources are today, once `read_solutions` was called."""
    superseded: int = 0
    """How many Traces sections leave out because a newer one of the same evaluation is there."""

    @cached_property
    def records(self) -> list[TraceRecord]:
        """All of them."""
        return self._complete(self.traces)

    @cached_property
    def definitions(self) -> dict[str, Definition]:
        """The Definitions that a registry holds, by name; one that cannot be read counts as missing."""
        from fib_rmsnorm.registry.registry import Registry

        wanted, found = {trace.definition for trace in self.traces}, dict[str, Definition]()
        for root in self.roots:
            found |= Registry(root).find_definitions(wanted - found.keys())
        return found

    @cached_property
    def sections(self) -> dict[Home, list[TraceRecord]]:
        """The newest of each evaluation, which of many Traces are few, in sections whose numbers can be compared."""
        found, self.superseded = split(self.traces)
        for records in found.values():
            self._complete(records)
        return found

    def _complete(self, records: list[TraceRecord]) -> list[TraceRecord]:
        """Fill in what Traces leave out: authors and languages if Solutions were read, and the bytes of a call."""
        for record in records:
            if solution := self.solutions.get(record.solution):
                record.author, record.language = solution.author, solution.spec.language.value
        lacking = [record for record in records if record.latency_ms and record.bytes_moved is None and record.axes]
        if lacking:
            from fib_rmsnorm.registry.workload_generation import bytes_moved
            from fib_rmsnorm.schema import Workload

            for record in lacking:
                definition = self.definitions.get(record.definition)
                if definition is not None and record.latency_ms and set(definition.var_axes) <= record.axes.keys():
                    record.bytes_moved = bytes_moved(definition, Workload(axes=record.axes, inputs={}, uuid="unknown"))
                    record.bandwidth_gb_per_s = record.bytes_moved / record.latency_ms / 1e6
        return records

    def read_solutions(self) -> "TraceSet":
        """Read the Solutions, which records are told of that are made later."""
        self.solutions = read_registered(self.roots, {trace.solution for trace in self.traces})
        return self

    def choose(self, choice: TraceChoice) -> None:
        """Keep what is chosen. Raises InputError for a choice that matches nothing."""
        found = choose("Definition with Traces", self.traces, attrgetter("definition"), choice.definitions)
        unmeasured = {*choice.solutions} - {trace.solution for trace in found}
        for name, each in read_registered(self.roots, unmeasured).items():
            bench = bench_command([each.definition], "--solutions", name)
            raise InputError(f"{name} is registered, but has no Traces here; measure it with: {bench}")
        self.traces = choose("Solution with Traces", found, attrgetter("solution"), choice.solutions)
        if choice.batch_sizes:
            self.traces = self._choose_batches(choice.batch_sizes)

    def _choose_batches(self, sizes: Collection[int]) -> list[TraceRecord]:
        axes = {name: row_axis(definition) for name, definition in self.definitions.items()}

        def size_of(trace: TraceRecord) -> int | None:
            """By the Definition's row axis; of an unknown Definition, by the first axis that the Trace names."""
            axis = axes.get(trace.definition)
            return trace.axes.get(axis) if axis else row_size(trace.axes)

        found = {size for trace in self.traces if (size := size_of(trace)) is not None}
        for size in sizes:
            if size not in found:
                available = ", ".join(map(str, sorted(found))) or "none"
                raise InputError(f"no Trace has batch size {size} (available: {available})")
        return [trace for trace in self.traces if size_of(trace) in sizes]

    def leave_out_outdated(self, *, shows_them: bool, told: list[str]) -> None:
        """Leave out the Traces of other versions of their Definition than the registries', which lines tell.

        Of a Definition that no registry has, the newest version stays. So do Traces that do not tell their version:
        flashinfer-bench does not record it. With `shows_them`, so do those of one version where there are no others.
        Raises InputError if none is left.
        """
        from fib_rmsnorm.schema import digest

        latest: dict[str, tuple[str, str]] = {}
        for each in self.traces:
            if each.definition_sha256:
                dated = each.timestamp, each.definition_sha256
                latest[each.definition] = max(dated, latest.get(each.definition, dated))
        current = {name: sha256 for name, (_, sha256) in latest.items()}
        current |= {name: digest(self.definitions[name]) for name in current if name in self.definitions}
        outdated, kept = list[TraceRecord](), list[TraceRecord]()
        for trace in self.traces:
            is_current = (trace.definition_sha256 or None) in (None, current.get(trace.definition))
            (kept if is_current else outdated).append(trace)
        versions = {(trace.definition, trace.definition_sha256) for trace in outdated}
        stays = shows_them and not kept and len(versions) == 1
        counts = Counter(trace.definition for trace in outdated)
        for name, number in counts.items():
            version = f"{number} Trace{'s' * (number != 1)} of another version of Definition {name}"
            told.append(f"{version} than the registry's" if stays else f"{version} (left out)")
        if not stays:
            self.traces = kept
        if not self.traces:
            raise InputError(f"no Trace is left; measure again: {bench_command(counts)}")


def load(*sources: str | Path, root: Path | None = None) -> list[TraceRecord]:
    """Return a record for each evaluation in trace files or folders (default: the registry found from here).

    What cannot be read is skipped, with one warning per file that says what and where.
    Raises InputError for a source that does not exist.
    """
    with collector_off():
        found = decode_traces([Path(source) for source in sources], root)
        for fault in found.faults:
            warnings.warn(fault, stacklevel=2)
        return found.read_solutions().records


def decode_traces(sources: list[Path], root: Path | None = None) -> TraceSet:
    """Decode the Traces of files and folders, by default of the registry."""
    return TraceSet(*read_files(sources, root))


def read_chosen(sources: list[Path], root: Path | None, choice: TraceChoice, told: list[str]) -> TraceSet:
    """Read the chosen Traces; `told` gets a line for each file that cannot be read completely, and what is left out.

    Raises InputError if nothing is left, or if a choice matches nothing.
    """
    found = decode_traces(sources, root)
    told += found.faults
    if not found.traces:
        where = ", ".join(map(str, sources or found.roots))
        bench = bench_command(choice.definitions or list_definitions(found.roots))
        raise InputError(f"no Traces in {where}; create them with: {bench}")
    found.choose(choice)
    if choice.all_versions:
        return found
    found.leave_out_outdated(shows_them=choice.shows_outdated, told=told)
    found.read_solutions()
    # Seals take longer to check than Traces to read: of all of them only where a false one would have been shown.
    if not choice.believes_all and find_false(each for records in found.sections.values() for each in records):
        false = find_false(found.records)
        told += [f"{path}:{line}: a Trace {origin.value} (left out)" for (path, line), origin in false.items()]
        kept = [trace for trace in found.traces if (trace.path, trace.line) not in false]
        if not kept:
            raise InputError(f"no Trace is left; measure again: {bench_command({t.definition for t in found.traces})}")
        return replace(found, traces=kept)
    return found


def read_registered(roots: Iterable[Path], names: Collection[str]) -> dict[str, Solution]:
    """The Solutions of these names that the registries hold, as their sources are today; the first registry counts.

    Any dataset may lie there: one that cannot be read has none, and `validate` says why.
    """
    from fib_rmsnorm.registry.registry import Registry
    from fib_rmsnorm.registry.sources.packing import read_current

    found: dict[str, Solution] = {}
    for root in roots if names else ():
        with suppress(InputError):
            found = {**read_current(Registry(root), wants=lambda name, _: name in names).by_name, **found}
    return {name: each for name, each in found.items() if name in names}


def find_false(records: Iterable[TraceRecord]) -> dict[tuple[str, int], TraceOrigin]:
    """The Traces of records not to believe, by path and line, read again from their files.

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
