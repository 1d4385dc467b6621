"""Find and choose records, for the commands that read Traces or whole registries."""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Callable
from enum import Enum, auto
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fib_rmsnorm.cli.options import split_batch_sizes, split_definitions, split_names
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
    sizes = split_batch_sizes(batch_sizes)
    from fib_rmsnorm.analysis.loading import decode_traces
    from fib_rmsnorm.registry.layout import find_root
    from fib_rmsnorm.reports.text.console import stderr
    from fib_rmsnorm.reports.text.control_characters import one_line

    def warn(line: str) -> None:
        stderr().print(f"fib-rmsnorm: {one_line(line)}")

    chosen = split_names(definitions) if sources else split_definitions(definitions, find_root(root), solutions)
    decoded = decode_traces(sources or [], root, warn=warn)
    if not decoded.traces:
        where = ", ".join(map(str, sources or decoded.roots))
        command = _command_for(decoded.roots, chosen, split_names(solutions))
        raise InputError(f"no Traces in {where}; create them with: {command}")
    if chosen or solutions or sizes:
        decoded.keep(_choose(decoded, chosen, split_names(solutions), sizes))
    if versions is not Versions.ALL:
        _leave_out_outdated(decoded, warn, alone=versions is Versions.ONE)
    return decoded


def _leave_out_outdated(decoded: DecodedTraces, warn: Callable[[str], None], *, alone: bool) -> None:
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
    from fib_rmsnorm.reports.text.console import stderr
    from fib_rmsnorm.reports.text.control_characters import one_line
    from fib_rmsnorm.reports.text.units import count
    from fib_rmsnorm.schema import digest

    measured = {record.solution for record in found.records}
    todays = {name: each for name, each in read_todays(found.roots).items() if name in measured}
    found.digests = {name: digest(each) for name, each in todays.items()}
    found.solutions |= {name: SolutionFacts.of(each) for name, each in todays.items()}
    definitions = sorted({record.definition for record in found.records})
    for hardware, changed in find_changed(found.records, found.digests).items():
        again = join(["fib-rmsnorm", "bench", "--definitions", ",".join(definitions)])
        if len(changed) <= _NAMED:
            again = f"fib-rmsnorm bench --solutions {','.join(changed)}"
        told = f"{count(len(changed), 'Solution')} changed since the newest Trace on {hardware}; measure again: {again}"
        stderr().print(f"fib-rmsnorm: {one_line(told)}")
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


def _refuse_unmeasured(
    decoded: DecodedTraces, kinds: list[TraceFacts], definitions: tuple[str, ...], solutions: tuple[str, ...]
) -> None:
    """Raise InputError for a name that is right and has no Traces: to list those that have some would hide that."""
    from fib_rmsnorm.registry.layout import list_definitions, list_solutions

    for name in _without_traces(definitions, list_definitions(decoded.roots), {kind.definition for kind in kinds}):
        command = _command_for(decoded.roots, (name,), solutions)
        raise InputError(f"no Traces of Definition {name!r}; create them with: {command}")
    for name in _without_traces(solutions, list_solutions(decoded.roots), {kind.solution for kind in kinds}):
        command = _command_for(decoded.roots, definitions, (name,))
        raise InputError(f"no Traces of Solution {name!r}; create them with: {command}")


def _without_traces(names: tuple[str, ...], known: list[str], measured: set[str]) -> list[str]:
    return [name for name in names if name in known and name not in measured]


def _choose(
    decoded: DecodedTraces, definitions: tuple[str, ...], solutions: tuple[str, ...], sizes: tuple[int, ...]
) -> list[TraceFacts]:
    """The kinds of Traces that are asked for. Raises InputError for a choice that matches nothing."""
    from fib_rmsnorm.registry.selection import choose

    kinds = decoded.facts()
    _refuse_unmeasured(decoded, kinds, definitions, solutions)
    kinds = choose("Definition with Traces", kinds, lambda kind: kind.definition, definitions)
    kinds = choose("Solution with Traces", kinds, lambda kind: kind.solution, solutions)
    return _choose_batches(kinds, decoded.roots, sizes)


def _choose_batches(kinds: list[TraceFacts], roots: list[Path], sizes: tuple[int, ...]) -> list[TraceFacts]:
    """Keep those of these batch sizes; no sizes keep all. Raises InputError for a size that none has."""
    if not sizes:
        return kinds
    from fib_rmsnorm.analysis.traffic import read_definitions
    from fib_rmsnorm.registry.selection import row_axis, row_size

    definitions = read_definitions({kind.definition for kind in kinds}, roots)
    axes = {name: row_axis(definition) for name, definition in definitions.items()}

    def size_of(kind: TraceFacts) -> int | None:
        """By the Definition's row axis; of an unknown Definition, by the first axis that the Trace names."""
        axis = axes.get(kind.definition)
        return kind.axes.get(axis) if axis else row_size(kind.axes)

    there = {size for kind in kinds if (size := size_of(kind)) is not None}
    for size in sizes:
        if size not in there:
            raise InputError(
                f"no Trace has batch size {size} (available: {', '.join(map(str, sorted(there))) or 'none'})"
            )
    return [kind for kind in kinds if size_of(kind) in sizes]


def read_catalogue(
    registry: Registry, definitions: str | None, solutions: str | None, languages: str | None, authors: str | None
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


def wants_markdown(output: Path | None, *, as_json: bool) -> bool:
    """Whether the output's name asks for Markdown. Raises InputError if `--json` asks for something else."""
    is_markdown = output is not None and output.suffix.lower() == ".md"
    if as_json and is_markdown:
        raise InputError(f"--json conflicts with --output {output}: .md asks for Markdown")
    return is_markdown


def write_or_print(text: str, output: Path | None) -> None:
    """Print `text`, or write it to a file atomically. Raises InputError if it cannot be written."""
    from fib_rmsnorm.reports.text.console import echo, stderr
    from fib_rmsnorm.reports.text.control_characters import harmless

    if output is None:
        echo(text, end="")
        return
    from fib_rmsnorm.registry.store import write_atomic

    write_atomic(output, harmless(text))
    stderr().print(f"Wrote {output}")
