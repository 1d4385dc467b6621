"""Write records and tensors, without sources, as a dataset in flashinfer-bench's layout."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

from fib_rmsnorm.errors import InputError
from fib_rmsnorm.registry.catalogue import Catalogue
from fib_rmsnorm.registry.files.tensor_files import find_tensor_file
from fib_rmsnorm.registry.registry import Registry
from fib_rmsnorm.registry.shipped import copy_new, staged_registry
from fib_rmsnorm.registry.store import append_lines
from fib_rmsnorm.schema import SafetensorsInput, Solution, Trace

_NO_AUTHOR = "unknown"
"""The author of Traces whose Solution is missing."""


def export(catalogue: Catalogue, blobs: dict[str, Path], target: Path) -> None:
    """Write a dataset to `target`, an empty or new folder: all of it or nothing.

    Names and paths in the records never lead outside `target`. Raises InputError if it cannot be written, or if a
    record's Definition is missing.
    """
    with staged_registry(target) as staging:
        write_records(Registry(staging), catalogue, catalogue)
        for path, source in blobs.items():
            (staging / path).parent.mkdir(parents=True, exist_ok=True)
            copy_new(source, staging / path)


def write_records(registry: Registry, new: Catalogue, known: Catalogue) -> None:
    """Add new records to a registry; `known` holds the Definitions and Solutions that they name.

    Raises InputError, before it writes any, for a record that names another Definition.
    """
    check_references(known, new)
    op_types = {name: definition.op_type for name, definition in known.definitions.items()}
    authors = {solution.name: solution.author for solution in known.solutions.values()}
    for definition in new.definitions.values():
        registry.write_definition(definition)
    for solution in new.solutions.values():
        registry.write_solution(solution, op_types[solution.definition])
    lines: dict[Path, list[str]] = defaultdict(list)
    for record in new.workloads:
        path = registry.layout.workload_file(op_types[record.definition], record.definition)
        lines[path].append(record.model_dump_json())
    for trace in new.traces:
        author = authors.get(trace.solution or "", _NO_AUTHOR)
        path = registry.layout.trace_file(author, op_types[trace.definition], trace.definition)
        lines[path].append(trace.model_dump_json())
    for path, records in lines.items():
        append_lines(path, records, registry.root)


def check_references(known: Catalogue, new: Catalogue) -> None:
    """Raise InputError for a record whose Definition is unknown: its place in the dataset would be unknown too."""
    records: list[Solution | Trace] = [*new.solutions.values(), *new.workloads, *new.traces]
    for record in records:
        if record.definition not in known.definitions:
            of = f" of {record.solution}" if isinstance(record, Trace) and record.solution else ""
            raise InputError(
                f"a {type(record).__name__}{of} belongs to the unknown Definition {record.definition!r}; for details,"
                " run: fib-rmsnorm validate"
            )


def find_blobs(registry: Registry, workloads: Iterable[Trace]) -> dict[str, Path]:
    """Return the safetensors files that Workloads read, by their paths in the dataset.

    Raises InputError for a path that leads outside the dataset or does not name a safetensors file.
    """
    root = registry.root.resolve()
    found = {}
    for record in workloads:
        for given in record.workload.inputs.values():
            if not isinstance(given, SafetensorsInput):
                continue
            path = find_tensor_file(given, root)
            if path is None:
                raise InputError(f"Workload {record.workload.uuid}: {given.path!r} leads outside {root}")
            if not path.is_file():
                raise InputError(f"Workload {record.workload.uuid}: no such file: {path}")
            if path.suffix != ".safetensors":  # among the records, another suffix could be read as a record
                raise InputError(f"Workload {record.workload.uuid}: {given.path!r} is not a .safetensors file")
            found[path.relative_to(root).as_posix()] = path
    return found
