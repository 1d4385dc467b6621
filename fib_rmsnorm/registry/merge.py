"""Merge registries and files of Traces: find new, equal and conflicting records."""

from __future__ import annotations

import filecmp
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

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
    """Merges registries into a first one, record by record; changes nothing on disk until `write`."""

    def __init__(self, ours: Registry, keep: Keep | None = None) -> None:
        self.ours = ours
        self.keep = keep
        """Which of two conflicting records to keep."""
        self.conflicts: list[Conflict] = []
        self.added: Counter[str] = Counter()
        self.same: Counter[str] = Counter()
        """The number of records of each kind that the first registry already has."""
        self._all = _read(ours)
        self._new: Keyed = {kind: {} for kind in self._all}

    def add(self, theirs: Registry) -> None:
        """Compare another registry with the records so far. Raises InputError for a record that cannot be read."""
        self._add(theirs.root, _read(theirs))

    def add_files(self, paths: Iterable[Path]) -> None:
        """Compare the Traces of files with the records so far.

        Raises InputError for what is not a Trace, and for Traces that name what no registry has.
        """
        for path in paths:
            traces = _read_trace_file(path)
            for trace in traces:
                self._require_known(path, trace)
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
                    self.conflicts.append(Conflict(kind, _name(key, item), self.ours.root, place, differs))
                    if self.keep == "theirs":
                        self._all[kind][key] = item
                else:
                    self.same[kind] += 1

    def _require_known(self, path: Path, trace: Trace) -> None:
        """Raise InputError for a Trace of a file that names what the registries lack, or have otherwise."""
        solution = self._all["solution"].get(trace.solution)
        workload = self._all["workload"].get((trace.definition, trace.workload.uuid))
        if trace.definition not in self._all["definition"]:
            what, remedy = f"Definition {trace.definition}", "create it by: fib-rmsnorm define"
        elif solution is None or solution.definition != trace.definition:
            what, remedy = f"Solution {trace.solution}", "add its sources, and run: fib-rmsnorm solve --definitions '*'"
        elif workload is None or workload.workload != trace.workload:
            what = f"Workload {trace.workload.uuid[:8]} of {trace.definition} ({axes_name(trace)})"
            remedy = "add it by: fib-rmsnorm workload"
        else:
            return
        raise InputError(
            f"{path}: a Trace names {what}, which the registries lack; {remedy}, or merge the registry that has it;"
            " nothing was written"
        )

    def write(self, into: Path | None = None) -> None:
        """Add the new records to the first registry, or write all records to `into`, a new folder.

        The first registry only gains records. Its files are complete at any time, and merging again after a crash
        adds the missing records. The new folder is written completely or not at all.
        """
        everything = _make_catalogue(self._all)
        if into is not None:
            export(everything, self._all["file"], into)
            return
        root = self.ours.root
        try:
            for path, source in self._new["file"].items():
                copy_file(source, root / path, root)
            write_records(self.ours, _make_catalogue(self._new), everything)
        except InputError as error:
            raise InputError(f"{error}; what was written before stays: to add the rest, merge again") from None


def _read(registry: Registry) -> Keyed:
    """Read a registry whole. Raises InputError for sources that cannot be packed, and for an unknown Definition."""
    found = Catalogue.read(registry)
    for sources in found.faulty:
        raise sources.error
    check_references(found, found)
    return {
        "definition": found.definitions,
        "solution": found.solutions,
        "workload": {(each.definition, each.workload.uuid): each for each in found.workloads},
        "trace": _keyed_traces(found.traces),
        "file": find_blobs(registry, found.workloads),
    }


def _keyed_traces(traces: Iterable[Trace]) -> dict[str, Trace]:
    """By the id of the evaluation, or by the whole record without one."""
    return {trace_id(trace) if trace.evaluation else trace.model_dump_json(): trace for trace in traces}


def _make_catalogue(records: Keyed) -> Catalogue:
    workloads, traces = ([*records[kind].values()] for kind in ("workload", "trace"))
    return Catalogue(records["definition"], records["solution"], workloads, traces)


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


def _name(key: Any, item: BaseModel | Path) -> str:
    if isinstance(item, Trace) and not item.evaluation:
        return f"{item.definition}, {item.workload.uuid}"
    return str(key)


def _differences(mine: BaseModel | Path, theirs: BaseModel | Path) -> tuple[str, ...]:
    """The fields that differ; for sources, the files that differ. Descriptions are ignored."""
    if isinstance(mine, Path) or isinstance(theirs, Path):
        return () if filecmp.cmp(str(mine), str(theirs), shallow=False) else ("content",)
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
