"""Merge the records of registries, of flashinfer-bench's datasets and of files of Traces."""

import filecmp
import hashlib
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel

from fib_rmsnorm.errors import InputError
from fib_rmsnorm.registry.catalogue import Catalogue
from fib_rmsnorm.registry.files.tensor_files import find_tensor_file
from fib_rmsnorm.registry.registry import Registry
from fib_rmsnorm.registry.selection import NamedWorkload
from fib_rmsnorm.registry.store import append_lines, copy_file, read_jsonl
from fib_rmsnorm.schema import SafetensorsInput, Solution, Trace

_NO_AUTHOR = "unknown"
"""The author of Traces whose Solution is missing."""


Kind = Literal["definition", "solution", "workload", "trace", "file"]
Keyed = dict[Kind, dict[Any, Any]]
"""By kind and by key: records, and the paths of files of tensors."""


@dataclass(frozen=True)
class Conflict:
    """Two records, or two tensor files, with the same name and different content."""

    kind: Kind
    name: str
    ours: Path
    theirs: Path
    """The root of the registry, or the file, that holds the other record."""
    differs: tuple[str, ...]
    """The fields that differ."""


class Merger:
    """Merges others into a first registry, record by record; changes nothing on disk until `write`."""

    def __init__(self, ours: Registry) -> None:
        self.ours = ours
        self.conflicts: list[Conflict] = []
        self.added: Counter[str] = Counter()
        self.same: Counter[str] = Counter()
        """The number of records of each kind that the first registry already has."""
        self._all = _read(ours)
        self._new: Keyed = {kind: {} for kind in self._all}

    def add(self, theirs: Registry) -> None:
        """Compare another registry with the records so far. Raises InputError for a record that cannot be read."""
        self._add(theirs.root, _read(theirs))

    def add_file(self, path: Path) -> None:
        """Compare the Traces of a file, an array or lines, with the records so far.

        Raises InputError for what is not a Trace, for no Traces, and for Traces that name what no registry has.
        """
        traces = read_jsonl(path, Trace)
        if not traces:
            raise InputError(f"no Traces in {path}")
        if workloads := sum(trace.evaluation is None or trace.solution is None for trace in traces):
            raise InputError(
                f"{path}: {workloads} of {len(traces)} records are not Traces: they lack a solution or an evaluation;"
                " to merge Workloads, name the registry that holds them"
            )
        for trace in traces:
            solution = self._all["solution"].get(trace.solution)
            workload = self._all["workload"].get((trace.definition, trace.workload.uuid))
            if trace.definition not in self._all["definition"]:
                what = f"Definition {trace.definition}"
            elif solution is None or solution.definition != trace.definition:
                what = f"Solution {trace.solution}"
            elif workload is None or workload.workload != trace.workload:
                title = NamedWorkload.of(trace.workload).title()
                what = f"Workload {trace.workload.uuid[:8]} of {trace.definition} ({title})"
            else:
                continue
            lack = "which the registries lack; merge the registry that has it; nothing was written"
            raise InputError(f"{path}: a Trace names {what}, {lack}")
        self._add(path, {"trace": _keyed_traces(traces)})

    def _add(self, place: Path, records: Keyed) -> None:
        for kind, items in records.items():
            for key, item in items.items():
                mine = self._all[kind].get(key)
                if mine is None and kind == "file" and (self.ours.root / key).exists():
                    mine = self.ours.root / key
                if mine is None:
                    self._all[kind][key] = self._new[kind][key] = item
                    self.added[kind] += 1
                elif differs := _differences(mine, item):
                    self.conflicts.append(Conflict(kind, str(key), self.ours.root, place, differs))
                else:
                    self.same[kind] += 1

    def write(self) -> None:
        """Add the new records to the first registry.

        Its files are complete at any time, and merging again after a crash adds the missing records.
        """
        try:
            self._write()
        except InputError as error:
            raise InputError(f"{error}; what was written before stays: to add the rest, merge again") from None

    def _write(self) -> None:
        root, layout = self.ours.root, self.ours.layout
        op_types = {name: definition.op_type for name, definition in self._all["definition"].items()}
        for path, source in self._new["file"].items():
            copy_file(source, root / path, root)
        for definition in self._new["definition"].values():
            self.ours.write_definition(definition)
        for solution in self._new["solution"].values():
            self.ours.write_solution(solution, op_types[solution.definition])
        lines: dict[Path, list[str]] = defaultdict(list)
        for record in self._new["workload"].values():
            path = layout.workload_file(op_types[record.definition], record.definition)
            lines[path].append(record.model_dump_json())
        for trace in self._new["trace"].values():
            solution = self._all["solution"].get(trace.solution)
            author = solution.author if solution else _NO_AUTHOR
            path = layout.trace_file(author, op_types[trace.definition], trace.definition)
            lines[path].append(trace.model_dump_json())
        for path, records in lines.items():
            append_lines(path, records, root)


def _read(registry: Registry) -> Keyed:
    """Read a registry whole. Raises InputError for sources that cannot be packed, and for an unknown Definition."""
    found = Catalogue.read(Registry(registry.root, is_strict=True))
    for sources in found.faulty:
        raise sources.error
    records: list[Solution | Trace] = [*found.solutions.values(), *found.workloads, *found.traces]
    for record in records:
        if record.definition not in found.definitions:  # so its place in the dataset is unknown too
            of = f" of {record.solution}" if isinstance(record, Trace) and record.solution else ""
            raise InputError(
                f"a {type(record).__name__}{of} belongs to the unknown Definition {record.definition!r}; for details,"
                " run: fib-rmsnorm validate"
            )
    return {
        "definition": found.definitions,
        "solution": found.solutions,
        "workload": {(each.definition, each.workload.uuid): each for each in found.workloads},
        "trace": _keyed_traces(found.traces),
        "file": dict(_find_tensor_files(registry.root.resolve(), found.workloads)),
    }


def _find_tensor_files(root: Path, workloads: Iterable[Trace]) -> Iterator[tuple[str, Path]]:
    """The safetensors files that Workloads read, with their paths in the dataset. Raises InputError for any other."""
    for record in workloads:
        for given in record.workload.inputs.values():
            if not isinstance(given, SafetensorsInput):
                continue
            try:
                path = find_tensor_file(given, root)
            except InputError as error:
                raise InputError(f"Workload {record.workload.uuid}: {error}") from None
            if path.suffix != ".safetensors":  # among the records, another suffix could be read as a record
                raise InputError(f"Workload {record.workload.uuid}: {given.path!r} is not a .safetensors file")
            yield path.relative_to(root).as_posix(), path


def _keyed_traces(traces: Iterable[Trace]) -> dict[str, Trace]:
    """By 8 hex digits of what was evaluated, where and when; by the whole record without an evaluation.

    These stay the same when the schema gains fields.
    """
    keyed = {}
    for trace in traces:
        identity = [trace.definition, trace.solution or "", trace.workload.uuid, trace.hardware, trace.timestamp]
        key = hashlib.sha256("\n".join(identity).encode()).hexdigest()[:8]
        keyed[key if trace.evaluation else trace.model_dump_json()] = trace
    return keyed


def _differences(mine: BaseModel | Path, theirs: BaseModel | Path) -> tuple[str, ...]:
    """The fields that differ. Descriptions are ignored."""
    if isinstance(mine, Path) or isinstance(theirs, Path):
        return () if filecmp.cmp(str(mine), str(theirs), shallow=False) else ("content",)
    ours, others = (one.model_dump(mode="json", exclude={"description"}) for one in (mine, theirs))
    return tuple(key for key in ours if repr(ours[key]) != repr(others[key]))  # repr: NaN is not equal to itself
