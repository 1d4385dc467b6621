"""Find and choose records, for the commands that read Traces or whole registries."""

from __future__ import annotations

import gc
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fib_rmsnorm.cli.options import split_batch_sizes, split_names
from fib_rmsnorm.errors import InputError

if TYPE_CHECKING:
    from fib_rmsnorm.analysis.loading import TraceSet
    from fib_rmsnorm.analysis.trace_record import TraceRecord
    from fib_rmsnorm.registry import Registry
    from fib_rmsnorm.registry.catalogue import Catalogue

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
) -> TraceSet:
    """Load Traces and keep the chosen ones; print a line on stderr for each file that cannot be read completely.

    Raises InputError if nothing is left, or if a choice matches nothing.
    """
    sizes = split_batch_sizes(batch_sizes)
    from fib_rmsnorm.analysis.loading import load_traces
    from fib_rmsnorm.analysis.traffic import count_bytes
    from fib_rmsnorm.registry.layout import list_definitions
    from fib_rmsnorm.registry.selection import bench_command, choose
    from fib_rmsnorm.reports.text.console import stderr
    from fib_rmsnorm.reports.text.control_characters import one_line

    found = load_traces(sources or [], root, warn=lambda line: stderr().print(f"fib-rmsnorm: {one_line(line)}"))
    gc.freeze()  # a million objects that live to the end: do not scan them again and again
    if not found.records:
        where = ", ".join(map(str, sources or found.roots))
        wanted = list(split_names(definitions)) or list_definitions(found.roots)
        raise InputError(f"no Traces in {where}; create them with: {bench_command(wanted)}")
    found.records = choose("Definition with Traces", found.records, lambda r: r.definition, split_names(definitions))
    found.records = choose("Solution with Traces", found.records, lambda r: r.solution, split_names(solutions))
    found.records = _choose_batches(found, sizes)
    count_bytes(found.records, found.roots)
    return found


def _choose_batches(found: TraceSet, sizes: tuple[int, ...]) -> list[TraceRecord]:
    """Keep the records of these batch sizes; no sizes keep all. Raises InputError for a size without records."""
    if not sizes:
        return found.records
    from fib_rmsnorm.analysis.traffic import read_definitions
    from fib_rmsnorm.registry.selection import row_axis, row_size

    definitions = read_definitions({record.definition for record in found.records}, found.roots)
    axes = {name: row_axis(definition) for name, definition in definitions.items()}

    def size_of(record: TraceRecord) -> int | None:
        """By the Definition's row axis; of an unknown Definition, by the first axis that the Trace names."""
        axis = axes.get(record.definition)
        return record.axes.get(axis) if axis else row_size(record.axes)

    there = {size for record in found.records if (size := size_of(record)) is not None}
    for size in sizes:
        if size not in there:
            raise InputError(
                f"no Trace has batch size {size} (available: {', '.join(map(str, sorted(there))) or 'none'})"
            )
    return [record for record in found.records if size_of(record) in sizes]


def read_catalogue(
    registry: Registry, definitions: str | None, solutions: str | None, languages: str | None, authors: str | None
) -> Catalogue:
    """Read a registry and keep the chosen records. Raises InputError for a choice that matches nothing."""
    from fib_rmsnorm.cli.progress import ProgressBar
    from fib_rmsnorm.registry.catalogue import Catalogue
    from fib_rmsnorm.registry.sources.packing import check_languages

    with ProgressBar(doing="reading"):
        everything = Catalogue.read(registry)
    return everything.select(
        definitions=split_names(definitions),
        solutions=split_names(solutions),
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
