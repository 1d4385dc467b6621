"""Find and choose records, for the commands that read Traces or whole registries."""

from __future__ import annotations

import gc
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


def read_traces(
    sources: list[Path] | None,
    root: Path | None,
    definitions: str | None = None,
    solutions: str | None = None,
    batch_sizes: str | None = None,
    *,
    newest: bool = False,
    all_versions: bool = False,
    shows_outdated: bool = False,
) -> TraceSet:
    """Load Traces and keep the chosen ones; print a line on stderr for each file that cannot be read completely.

    With `newest`, only the newest of each evaluation, which `sections.split` keeps: of many Traces they are few.
    Those of other versions of their Definition than the registry's are left out, unless `all_versions` are told apart
    later, or where there are no others and nothing is chosen by them (`shows_outdated`). A line on stderr says how many
    they are, and another names Solutions of whose version today none is.
    Raises InputError if nothing is left, or if a choice matches nothing.
    """
    chosen = choose_traces(
        sources, root, definitions, solutions, batch_sizes, all_versions=all_versions, shows_outdated=shows_outdated
    )
    found = complete(chosen.read_newest() if newest else chosen.read())
    return found if all_versions else find_todays(found)


def choose_traces(
    sources: list[Path] | None,
    root: Path | None,
    definitions: str | None = None,
    solutions: str | None = None,
    batch_sizes: str | None = None,
    *,
    all_versions: bool = False,
    shows_outdated: bool = False,
) -> DecodedTraces:
    """The same before they are records, which are to be made `complete`."""
    sizes = split_sizes(batch_sizes)
    from fib_rmsnorm.analysis.loading import decode_traces
    from fib_rmsnorm.registry.layout import find_root, list_definitions
    from fib_rmsnorm.registry.selection import bench_command
    from fib_rmsnorm.reports.text.units import count

    wanted = split_names(definitions) if sources else split_definitions(definitions, find_root(root), solutions)
    named = split_names(solutions)
    decoded = decode_traces(sources or [], root, warn=warn)
    if not decoded.traces:
        where = ", ".join(map(str, sources or decoded.roots))
        bench = bench_command(wanted or list_definitions(decoded.roots))
        raise InputError(f"no Traces in {where}; create them with: {bench}")
    if wanted or named or sizes:
        decoded.keep(_choose(decoded, wanted, named, sizes))
    if not all_versions:
        everything = decoded.traces
        left_out = decoded.leave_out_outdated()
        is_one_version = len({(each.facts.definition, each.facts.definition_sha256) for each in everything}) == 1
        if shows_outdated and not decoded.traces and is_one_version:
            decoded.traces = everything
            (name,) = left_out
            warn(f"{count(len(everything), 'Trace')} of another version of Definition {name} than the registry's")
            return decoded
        for name, traces in left_out.items():
            warn(f"{count(traces, 'Trace')} of another version of Definition {name} (left out)")
        if not decoded.traces:
            raise InputError(f"no Trace is left; measure again: {bench_command(left_out)}")
    return decoded


def complete(found: TraceSet) -> TraceSet:
    """Fill in what Traces of other tools leave out."""
    from fib_rmsnorm.analysis.traffic import count_bytes

    gc.freeze()  # a million objects that live to the end: do not scan them again and again
    count_bytes(found.records, found.roots)
    return found


def find_todays(found: TraceSet) -> TraceSet:
    """Fill in what the Solutions are today, and say for each device which were measured as something else."""
    from shlex import join

    from fib_rmsnorm.analysis.versions import find_changed
    from fib_rmsnorm.reports.text.units import count

    found.read_solutions()
    definitions = sorted({record.definition for record in found.records})
    for hardware, changed in find_changed(found.records, found.digests).items():
        few = len(changed) <= _NAMED
        chosen = ["--solutions", ",".join(changed)] if few else ["--definitions", ",".join(definitions)]
        again = join(["fib-rmsnorm", "bench", *chosen])
        warn(f"{count(len(changed), 'Solution')} changed since the newest Trace on {hardware}; measure again: {again}")
    return found


def _choose(
    decoded: DecodedTraces, definitions: tuple[str, ...], solutions: tuple[str, ...], sizes: tuple[int, ...]
) -> list[TraceFacts]:
    """The kinds of Traces that are asked for. Raises InputError for a choice that matches nothing."""
    from fib_rmsnorm.registry.selection import choose

    kinds = decoded.facts()
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
