"""Merge registries and files of Traces: find new, equal and conflicting records."""

from __future__ import annotations

import filecmp
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, TypeVar

from pydantic import BaseModel, TypeAdapter, ValidationError

from fib_rmsnorm.errors import InputError
from fib_rmsnorm.registry.catalogue import Catalogue
from fib_rmsnorm.registry.export import check_references, export, find_blobs, write_records
from fib_rmsnorm.registry.files.regular_files import MOST_ARRAY
from fib_rmsnorm.registry.registry import Registry
from fib_rmsnorm.registry.store import copy_file, describe, read_jsonl, read_text
from fib_rmsnorm.registry.workload_titles import axes_name
from fib_rmsnorm.schema import Trace, trace_id

Keep = Literal["ours", "theirs"]
Item = TypeVar("Item", bound=BaseModel)
Key = TypeVar("Key")
_REMEDIES = {
    "definition": "create it with: fib-rmsnorm define",
    "solution": "add its sources under solutions/, and run: fib-rmsnorm solve --definitions '*'",
    "workload": "add them with: fib-rmsnorm workload",
}


@dataclass(frozen=True)
class Conflict:
    """Two records, or two tensor files, with the same name and different content."""

    kind: Literal["definition", "solution", "workload", "trace", "file"]
    name: str
    ours: Path
    theirs: Path
    """The root of the registry, or the file, that holds the other record."""
    differs: tuple[str, ...]
    """The fields that differ."""


@dataclass(frozen=True)
class Unknown:
    """Records of a kind that Traces name and a registry lacks, or has otherwise."""

    kind: Literal["definition", "solution", "workload"]
    names: tuple[str, ...]
    traces: int
    """The number of Traces that name them."""
    remedy: str
    """What to do."""


@dataclass
class Merger:
    """Merges registries into a first one, record by record; changes nothing on disk until `write`."""

    ours: Registry
    keep: Keep | None = None
    """Which of two conflicting records to keep."""
    conflicts: list[Conflict] = field(default_factory=list)
    added: Counter[str] = field(default_factory=Counter)
    same: Counter[str] = field(default_factory=Counter)
    """The number of records of each kind that the first registry already has."""
    unknown: list[Unknown] = field(default_factory=list)
    """What Traces of a file name and no registry has; then nothing may be written."""

    def __post_init__(self) -> None:
        self._all = _read(self.ours)
        self._new = Catalogue({}, {}, [], [])
        self._blobs = find_blobs(self.ours, self._all.workloads)
        self._new_blobs: dict[str, Path] = {}
        self._traces = {_identity(trace): trace for trace in self._all.traces}
        self._workloads = {(each.definition, each.workload.uuid): each for each in self._all.workloads}

    def add(self, theirs: Registry) -> None:
        """Compare another registry with the records so far. Raises InputError for a record that cannot be read."""
        other = _read(theirs)
        self._add("definition", theirs.root, other.definitions.items(), self._all.definitions, self._new.definitions)
        self._add("solution", theirs.root, other.solutions.items(), self._all.solutions, self._new.solutions)
        workloads = (((each.definition, each.workload.uuid), each) for each in other.workloads)
        fresh: dict[tuple[str, str], Trace] = {}
        self._add("workload", theirs.root, workloads, self._workloads, fresh)
        self._new.workloads.extend(fresh.values())
        self._add_traces(theirs.root, other.traces)
        self._add_blobs(theirs, find_blobs(theirs, other.workloads))

    def add_files(self, paths: Iterable[Path]) -> None:
        """Compare the Traces of files with the records so far. Raises InputError for what is not a Trace."""
        found = {path: _read_trace_file(path) for path in paths}
        different = {_identity(trace): trace for traces in found.values() for trace in traces}
        known = Catalogue(self._all.definitions, self._all.solutions, [*self._workloads.values()], [])
        self.unknown += _find_unknown(different.values(), known)  # of all files at once: what they share is told once
        for path, traces in found.items():
            self._add_traces(path, traces)

    def _add_traces(self, place: Path, traces: Iterable[Trace]) -> None:
        found: dict[tuple[str, ...], Trace] = {}
        self._add("trace", place, ((_identity(each), each) for each in traces), self._traces, found)
        self._new.traces.extend(found.values())

    def _add(
        self,
        kind: Literal["definition", "solution", "workload", "trace"],
        place: Path,
        items: Iterable[tuple[Key, Item]],
        known: dict[Key, Item],
        new: dict[Key, Item],
    ) -> None:
        for key, item in items:
            mine = known.get(key)
            if mine is None:
                known[key] = new[key] = item
                self.added[kind] += 1
            elif differs := _differences(mine, item):
                self.conflicts.append(Conflict(kind, _name(item), self.ours.root, place, differs))
                if self.keep == "theirs":
                    known[key] = item
            else:
                self.same[kind] += 1

    def _add_blobs(self, theirs: Registry, blobs: dict[str, Path]) -> None:
        for path, source in blobs.items():
            there = self.ours.root / path
            mine = self._blobs.get(path) or (there if there.exists() else None)
            if mine is None:
                self._blobs[path] = self._new_blobs[path] = source
                self.added["file"] += 1
            elif not filecmp.cmp(mine, source, shallow=False):
                self.conflicts.append(Conflict("file", path, self.ours.root, theirs.root, ("content",)))
                if self.keep == "theirs":
                    self._blobs[path] = source
            else:
                self.same["file"] += 1

    def write(self, into: Path | None = None) -> None:
        """Add the new records to the first registry, or write all records to `into`, a new folder.

        The first registry only gains records. Its files are complete at any time, and merging again after a crash
        adds the missing records. The new folder is written completely or not at all.
        """
        if into is not None:
            whole = Catalogue(
                self._all.definitions, self._all.solutions, [*self._workloads.values()], [*self._traces.values()]
            )
            export(whole, self._blobs, into)
            return
        root = self.ours.root
        try:
            for path, source in self._new_blobs.items():
                copy_file(source, root / path, root)
            write_records(self.ours, self._new, self._all)
        except InputError as error:
            raise InputError(f"{error}; what was written before stays: to add the rest, merge again") from None


def _read(registry: Registry) -> Catalogue:
    """Read a registry whole. Raises InputError for sources that cannot be packed, and for an unknown Definition."""
    found = Catalogue.read(registry)
    for sources in found.faulty:
        raise sources.error
    check_references(found, found)
    return found


def _read_trace_file(path: Path) -> list[Trace]:
    """Read a .json array or a .jsonl file. Raises InputError for what is not a Trace, and for a file without any."""
    if path.suffix == ".jsonl":
        traces = read_jsonl(path, Trace)
    elif path.suffix == ".json":
        try:
            text = read_text(path, most=MOST_ARRAY)
            traces = TypeAdapter(list[Trace]).validate_json(text) if text.strip() else []
        except ValidationError as error:
            raise InputError(f"{path}: {describe(error)}") from None
    else:
        raise InputError(f"{path} is neither a registry nor a .json or .jsonl file of Traces")
    if not traces:
        raise InputError(f"no Traces in {path}")
    workloads = sum(trace.evaluation is None or trace.solution is None for trace in traces)
    if workloads:
        raise InputError(
            f"{path}: {workloads} of {len(traces)} records are not Traces: they lack a solution or an evaluation;"
            " to merge Workloads, name the registry that holds them"
        )
    return traces


def _find_unknown(traces: Iterable[Trace], known: Catalogue) -> Iterator[Unknown]:
    """What Traces name and a registry does not know, a line's worth for each kind."""
    workloads = {(each.definition, each.workload.uuid): each.workload for each in known.workloads}
    lacking: dict[Literal["definition", "solution", "workload"], list[str]] = {}
    for trace in traces:
        if trace.definition not in known.definitions:
            lacking.setdefault("definition", []).append(trace.definition)
            continue
        solution = known.solutions.get(trace.solution or "")
        if solution is None or solution.definition != trace.definition:
            lacking.setdefault("solution", []).append(trace.solution or "")
        if workloads.get((trace.definition, trace.workload.uuid)) != trace.workload:
            named = f"{trace.workload.uuid[:8]} of {trace.definition} ({axes_name(trace)})"
            lacking.setdefault("workload", []).append(named)
    for kind, names in lacking.items():
        remedy = f"{_REMEDIES[kind]}; or merge the registry that has it"
        yield Unknown(kind, tuple(dict.fromkeys(names)), len(names), remedy)


def _identity(trace: Trace) -> tuple[str, ...]:
    """The key by which two Traces are the same: the id of the evaluation, or the whole record without one."""
    return (trace_id(trace),) if trace.evaluation else (trace.model_dump_json(),)


def _name(item: BaseModel) -> str:
    if isinstance(item, Trace):
        return trace_id(item) if item.evaluation else f"{item.definition}, {item.workload.uuid}"
    return str(getattr(item, "name", ""))


def _differences(mine: BaseModel, theirs: BaseModel) -> tuple[str, ...]:
    """The fields that differ; for sources, the files that differ. Descriptions are ignored."""
    ours, others = (one.model_dump(mode="json", exclude={"description"}) for one in (mine, theirs))
    return tuple(_walk("", ours, others))


def _walk(where: str, mine: object, theirs: object) -> Iterable[str]:
    if mine == theirs or repr(mine) == repr(theirs):  # repr: NaN is not equal to itself
        return
    if isinstance(mine, dict) and isinstance(theirs, dict):
        for key in dict.fromkeys([*mine, *theirs]):
            yield from _walk(f"{where}.{key}" if where else str(key), mine.get(key), theirs.get(key))
    elif where == "sources" and isinstance(mine, list) and isinstance(theirs, list):
        files = [{source["path"]: source["content"] for source in each} for each in (mine, theirs)]
        yield from (path for path in dict.fromkeys([*files[0], *files[1]]) if files[0].get(path) != files[1].get(path))
    else:
        yield where
