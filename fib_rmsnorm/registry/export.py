"""Write records as a dataset of their own, in flashinfer-bench's layout: records and tensors, no sources."""

from __future__ import annotations

import shutil
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

from fib_rmsnorm.errors import InputError
from fib_rmsnorm.registry.catalogue import Catalogue
from fib_rmsnorm.registry.registry import Registry
from fib_rmsnorm.registry.staging import staged_registry
from fib_rmsnorm.registry.store import append_lines
from fib_rmsnorm.schema import SafetensorsInput, Trace

_NO_AUTHOR = "unknown"
"""Under whose name Traces lie whose Solution is not there."""


def export(catalogue: Catalogue, blobs: dict[str, Path], target: Path) -> None:
    """Write a dataset to `target`, a folder that is empty or not there: all of it or nothing.

    Names and paths from the records never lead out of it. Raises InputError if it cannot be written, or if a
    record belongs to a Definition that is not there.
    """
    with staged_registry(target) as staging:
        add_records(Registry(staging), catalogue, catalogue)
        for path, source in blobs.items():
            (staging / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, staging / path)


def add_records(registry: Registry, new: Catalogue, known: Catalogue) -> None:
    """Add records to a registry that has none of them; `known` are the Definitions and Solutions that they name."""
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
        append_lines(path, records)


def check_references(known: Catalogue, new: Catalogue) -> None:
    """Raise InputError for a record whose Definition is unknown: nobody could say where it belongs."""
    named: list[tuple[str, str]] = [(f"Solution {each.name}", each.definition) for each in new.solutions.values()]
    named += [("a Workload", each.definition) for each in new.workloads]
    named += [(f"a Trace of {each.solution}", each.definition) for each in new.traces]
    for what, definition in named:
        if definition not in known.definitions:
            raise InputError(
                f"{what} belongs to {definition!r}, which is no Definition there; see: fib-rmsnorm validate"
            )


def find_blobs(registry: Registry, workloads: Iterable[Trace]) -> dict[str, Path]:
    """The files of tensors that Workloads read, by their paths in the dataset.

    Raises InputError for a path that leads out of it, or to no file of tensors.
    """
    root = registry.root.resolve()
    found = {}
    for record in workloads:
        for given in record.workload.inputs.values():
            if not isinstance(given, SafetensorsInput):
                continue
            path = (root / given.path).resolve()
            if not path.is_relative_to(root):
                raise InputError(f"workload {record.workload.uuid}: {given.path!r} leads out of {root}")
            if not path.is_file():
                raise InputError(f"workload {record.workload.uuid}: no such file: {path}")
            if path.suffix != ".safetensors":  # among the records it would be read as one
                raise InputError(f"workload {record.workload.uuid}: {given.path!r} is no .safetensors file")
            found[path.relative_to(root).as_posix()] = path
    return found
