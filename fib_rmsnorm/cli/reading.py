"""Find and choose records, for the commands that read Traces or whole registries."""

from __future__ import annotations

import gc
from collections import Counter
from enum import Enum, auto
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fib_rmsnorm.cli.options import split_definitions, split_names, split_sizes
from fib_rmsnorm.cli.printing import warn
from fib_rmsnorm.errors import InputError

if TYPE_CHECKING:
    from fib_rmsnorm.analysis.decoding import TraceFacts
    from fib_rmsnorm.analysis.loading import DecodedTraces, TraceSet
    from fib_rmsnorm.registry import Registry
    from fib_rmsnorm.registry.catalogue import Catalogue

_NAMED = 5
"""The most Solutions to name in a command."""

Traces = Annotated[
    list[Path] | None,
    typer.Argument(
        metavar="[TRACES]...", help="Trace files (.json, .jsonl), registries or folders; default: the registry."
    ),
]


class Versions(Enum):
    """The versions of a Definition whose Traces are read."""

    REGISTRY = auto()
    """The registry's alone: something is chosen by them."""
    ONE = auto()
    """The registry's, or where no Trace is of it, the newest that was seen: they are shown."""
    ALL = auto()
    """They are told apart later."""


def read_traces(
    sources: list[Path] | None,
    root: Path | None,
    definitions: str | None = None,
    solutions: str | None = None,
    batch_sizes: str | None = None,
    *,
    newest: bool = False,
    versions: Versions = Versions.REGISTRY,
) -> TraceSet:
    """Load Traces and keep the chosen ones; print a line on stderr for each file that cannot be read completely.

    With `newest`, only the newest of each evaluation, which `sections.split` keeps: of many Traces they are few.
    Of those of other `versions` of their Definition than the registry's, a line on stderr says how many there are;
    another names Solutions of whose version today none is.
    Raises InputError if nothing is left, or if a choice matches nothing.
    """
    chosen = choose_traces(sources, root, definitions, solutions, batch_sizes, versions=versions)
    found = complete(chosen.read_newest() if newest else chosen.read())
    return found if versions is Versions.ALL else find_todays(found)


def choose_traces(
    sources: list[Path] | None,
    root: Path | None,
    definitions: str | None = None,
    solutions: str | None = None,
    batch_sizes: str | None = None,
    *,
    versions: Versions = Versions.REGISTRY,
) -> DecodedTraces:
    """The same before they are records, which are to be made `complete`."""
    sizes = split_sizes(batch_sizes)
    from fib_rmsnorm.analysis.loading import decode_traces
    from fib_rmsnorm.registry.layout import find_root

    wanted = split_names(definitions) if sources else split_definitions(definitions, find_root(root), solutions)
    named = split_names(solutions)
    decoded = decode_traces(sources or [], root, warn=warn)
    if not decoded.traces:
        where = ", ".join(map(str, sources or decoded.roots))
        raise InputError(f"no Traces in {where}; create them with: {_command_for(decoded.roots, wanted, named)}")
    if wanted or named or sizes:
        decoded.keep(_choose(decoded, wanted, named, sizes))
    if versions is not Versions.ALL:
        _leave_out_outdated(decoded, alone=versions is Versions.ONE)
    return decoded


def _leave_out_outdated(decoded: DecodedTraces, *, alone: bool) -> None:
    from fib_rmsnorm.registry.selection import bench_command
    from fib_rmsnorm.reports.text.units import count

    found = decoded.leave_out_outdated(alone=alone)
    left_out = Counter[str]()
    for (name, _), traces in found.outdated.items():
        left_out[name] += traces
    for name, traces in left_out.items():
        warn(f"{count(traces, 'Trace')} of another version of Definition {name} (left out)")
    for name, traces in found.alone.items():
        warn(f"{count(traces, 'Trace')} of another version of Definition {name} than the registry's")
    if not decoded.traces:
        raise InputError(f"no Trace is left; measure again: {bench_command(left_out)}")


def complete(found: TraceSet) -> TraceSet:
    """Fill in what Traces of other tools leave out."""
    from fib_rmsnorm.analysis.traffic import count_bytes

    gc.freeze()  # a million objects that live to the end: do not scan them again and again
    count_bytes(found.records, found.roots)
    return found


def find_todays(found: TraceSet) -> TraceSet:
    """Fill in what the Solutions are today, and say for each device which were measured as something else."""
    from shlex import join

    from fib_rmsnorm.analysis.solution_sources import SolutionFacts
    from fib_rmsnorm.analysis.versions import find_changed, read_todays
    from fib_rmsnorm.reports.text.units import count
    from fib_rmsnorm.schema import digest

    measured = {record.solution for record in found.records}
    todays = {name: each for name, each in read_todays(found.roots).items() if name in measured}
    found.digests = {name: digest(each) for name, each in todays.items()}
    found.solutions |= {name: SolutionFacts.of(each) for name, each in todays.items()}
    definitions = sorted({record.definition for record in found.records})
    for hardware, changed in find_changed(found.records, found.digests).items():
        few = len(changed) <= _NAMED
        chosen = ["--solutions", ",".join(changed)] if few else ["--definitions", ",".join(definitions)]
        again = join(["fib-rmsnorm", "bench", *chosen])
        warn(f"{count(len(changed), 'Solution')} changed since the newest Trace on {hardware}; measure again: {again}")
    return found


def _command_for(roots: list[Path], definitions: tuple[str, ...], solutions: tuple[str, ...]) -> str:
    """The `bench` that makes the Traces asked for. Raises InputError for a name that it would refuse."""
    from shlex import join

    from fib_rmsnorm.registry.layout import list_definitions, list_solutions
    from fib_rmsnorm.registry.selection import bench_command, choose

    known = list_definitions(roots)
    if known:  # not so for files of Traces outside a registry
        served = choose("Definition", known, str, definitions)
        choose("Solution", list_solutions(roots, served), str, solutions)
    if not solutions:
        return bench_command(definitions or known)
    chosen = ["--definitions", ",".join(definitions)] if definitions else []
    return join(["fib-rmsnorm", "bench", *chosen, "--solutions", ",".join(solutions)])


def _choose(
    decoded: DecodedTraces, definitions: tuple[str, ...], solutions: tuple[str, ...], sizes: tuple[int, ...]
) -> list[TraceFacts]:
    """The kinds of Traces that are asked for. Raises InputError for a choice that matches nothing.

    A name that is right and has no Traces is an error of its own: to list those that have some would hide that.
    """
    from fib_rmsnorm.registry.layout import list_definitions, list_solutions
    from fib_rmsnorm.registry.selection import choose

    kinds = decoded.facts()
    for name in definitions:
        if name in list_definitions(decoded.roots) and all(kind.definition != name for kind in kinds):
            command = _command_for(decoded.roots, (name,), solutions)
            raise InputError(f"no Traces of Definition {name!r}; create them with: {command}")
    for name in solutions:
        if name in list_solutions(decoded.roots) and all(kind.solution != name for kind in kinds):
            command = _command_for(decoded.roots, definitions, (name,))
            raise InputError(f"no Traces of Solution {name!r}; create them with: {command}")
    kinds = choose("Definition with Traces", kinds, lambda kind: kind.definition, definitions)
    kinds = choose("Solution with Traces", kinds, lambda kind: kind.solution, solutions)
    return _choose_batches(kinds, decoded.roots, sizes) if sizes else kinds


def _choose_batches(kinds: list[TraceFacts], roots: list[Path], sizes: tuple[int, ...]) -> list[TraceFacts]:
    """Keep those of these batch sizes. Raises InputError for a size that none has."""
    from fib_rmsnorm.analysis.traffic import read_definitions
    from fib_rmsnorm.registry.selection import row_axis, row_size

    definitions = read_definitions({kind.definition for kind in kinds}, roots)
    axes = {name: row_axis(definition) for name, definition in definitions.items()}

    def size_of(kind: TraceFacts) -> int | None:
        """By the Definition's row axis; of an unknown Definition, by the first axis that the Trace names."""
        axis = axes.get(kind.definition)
        return kind.axes.get(axis) if axis else row_size(kind.axes)

    found = {size for kind in kinds if (size := size_of(kind)) is not None}
    for size in sizes:
        if size not in found:
            available = ", ".join(map(str, sorted(found))) or "none"
            raise InputError(f"no Trace has batch size {size} (available: {available})")
    return [kind for kind in kinds if size_of(kind) in sizes]


def read_catalogue(
    registry: Registry,
    definitions: str | None,
    solutions: str | None,
    languages: str | None = None,
    authors: str | None = None,
) -> Catalogue:
    """Read a registry and keep the chosen records.

    Raises InputError for a choice that matches nothing, or nothing but sources that cannot be packed.
    """
    from fib_rmsnorm.cli.progress import ProgressBar
    from fib_rmsnorm.registry.catalogue import Catalogue
    from fib_rmsnorm.registry.sources.packing import check_languages, require_packed

    with ProgressBar(doing="reading"):
        everything = Catalogue.read(registry)
    names = split_names(solutions)
    require_packed(everything.faulty, names, everything.solutions)
    return everything.select(
        definitions=split_names(definitions),
        solutions=names,
        languages=check_languages(split_names(languages)),
        authors=split_names(authors),
    )
