"""A registry on disk: read and write Definitions, Solutions, Workloads and Traces."""

import os
from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from fib_rmsnorm.errors import InputError
from fib_rmsnorm.notices import notice, summarize_faults
from fib_rmsnorm.registry.files.locking import locked
from fib_rmsnorm.registry.files.regular_files import NotARecordError, find_files
from fib_rmsnorm.registry.layout import ROOT_VARIABLE, Layout, find_root
from fib_rmsnorm.registry.selection import find_main_definition, name_others
from fib_rmsnorm.registry.shipped import shipped_registry
from fib_rmsnorm.registry.store import Model, append_lines, read_json, read_jsonl, write_atomic
from fib_rmsnorm.schema import Definition, Solution, Trace, Workload

Named = TypeVar("Named", Definition, Solution)


class Registry:
    """The registry rooted at a folder. Every method reads from disk, under its lock, so processes may share a registry.

    What must not change between two calls is read or written under one lock: `locking.locked`. A record that cannot be
    read, such as another tool's, is skipped with a notice; with `is_strict`, it raises InputError.
    """

    def __init__(self, root: Path, *, is_strict: bool = False) -> None:
        self.layout = Layout(root)
        self._is_strict = is_strict

    @classmethod
    def find(cls, root: str | Path | None = None) -> "Registry":
        """Open the registry at `root`, or the one around the working folder. Raises InputError if there is none."""
        return cls(find_root(Path(root) if root else None))

    @classmethod
    def find_or_shipped(cls, root: Path | None = None) -> "Registry":
        """Like `find`, but fall back to the registry that ships with the package if no registry is named or around.

        The shipped registry is only for reading: the next installation replaces it.
        """
        try:
            return cls(find_root(root))
        except InputError:
            if root is not None or os.environ.get(ROOT_VARIABLE):
                raise
            return cls(shipped_registry())

    @property
    def root(self) -> Path:
        """The registry's root folder."""
        return self.layout.root

    @property
    def main_definition(self) -> str | None:
        """The name of the Definition that a command is about if it names none. Raises InputError for a faulty file."""
        return find_main_definition(self.root)

    def definitions(self) -> dict[str, Definition]:
        """All Definitions by name. Raises InputError for a link or a name used twice."""
        with locked(reading=[self.root]):
            return index_by_name(self._read(find_files(self.layout.definitions, "*.json"), Definition))

    def _read(self, paths: Iterable[Path], model: type[Model]) -> Iterator[tuple[Path, Model]]:
        """The records of files, with their paths."""
        for path in paths:
            faults: list[str] = []
            found: list[Model] = []
            try:
                if path.suffix == ".json":
                    found = [read_json(path, model, self.root)]
                else:
                    found = read_jsonl(path, model, self.root, None if self._is_strict else faults)
            except NotARecordError as error:
                if self._is_strict:
                    raise
                faults = [str(error)]
            if faults:
                notice(summarize_faults(faults))
            yield from ((path, each) for each in found)

    def find_definitions(self, names: Collection[str]) -> dict[str, Definition]:
        """The Definitions of these names. One that cannot be read counts as missing: `validate` reports it."""
        found: dict[str, Definition] = {}
        for path in find_files(self.layout.definitions, "*.json"):
            if path.stem in names and path.stem not in found:
                with suppress(InputError):
                    definition = read_json(path, Definition, self.root)
                    if definition.name == path.stem:
                        found[definition.name] = definition
        return found

    def definition(self, name: str | None) -> Definition:
        """Return the Definition called `name`, or the main one. Raises InputError with the known names."""
        definitions = self.definitions()
        if name is None and (name := self.main_definition) is None:
            raise InputError(f"{self.root} has no main Definition; name one ({name_others('', definitions)})")
        if name not in definitions:
            raise InputError(f"no Definition {name!r} in {self.root} ({name_others(name, definitions)})")
        return definitions[name]

    def packed_solutions(self) -> dict[str, Solution]:
        """All Solutions by name as their JSON holds them; `sources.packing.read_current` reads what they are now.

        Raises InputError for a link or a name used twice.
        """
        with locked(reading=[self.root]):
            return index_by_name(self._read(self.layout.packed_files(), Solution))

    def workloads(self, definition: str) -> list[Workload]:
        """The Workloads of a Definition, in file order."""
        with locked(reading=[self.root]):
            records = self._read(self._workload_files(definition), Trace)
            return [record.workload for _, record in records if record.definition == definition]

    def _workload_files(self, definition: str) -> list[Path]:
        """The files that may hold Workloads of a Definition: one, unless datasets were mixed by hand."""
        paths = find_files(self.layout.workloads, "*.jsonl")
        return [path for path in paths if path.stem == definition or path.is_dir()]  # a link to a folder is refused

    def traces(self, definition: str = "*") -> list[Trace]:
        """All Traces, or those in the files of a Definition, oldest first."""
        with locked(reading=[self.root]):
            paths = find_files(self.layout.traces, f"{definition}.jsonl")
            found = [trace for _, trace in self._read(paths, Trace)]
        return sorted(found, key=lambda trace: trace.evaluation.timestamp if trace.evaluation else "")

    def write_definition(self, definition: Definition) -> Path:
        """Write a Definition and return its path. Raises InputError where there is a file that holds none."""
        path = self.layout.definition(definition.op_type, definition.name)
        if path.exists():
            read_json(path, Definition, self.root)
        write_atomic(path, definition.model_dump_json(indent=2, exclude_none=False) + "\n", self.root)
        return path

    def write_solution(self, solution: Solution, op_type: str) -> Path:
        """Write a packed Solution and return its path."""
        path = self.layout.solution(solution.author, op_type, solution.definition, solution.name)
        write_atomic(path, solution.model_dump_json(indent=2) + "\n", self.root)
        return path

    def write_workloads(self, definition: Definition, workloads: list[Workload]) -> Path:
        """Replace a Definition's Workloads, and return the path of the file in which they lie.

        Raises InputError if that file holds something else, which would be lost.
        """
        records = (Trace(definition=definition.name, workload=workload) for workload in workloads)
        with locked(writing=[self.root]):
            usual = self.layout.workload_file(definition.op_type, definition.name)
            path = next(iter(self._workload_files(definition.name)), usual)
            if path.exists():
                read_jsonl(path, Trace, self.root)
            write_atomic(path, "".join(f"{record.model_dump_json()}\n" for record in records), self.root)
        return path

    def append_trace(self, trace: Trace, author: str, op_type: str) -> Path:
        """Append a Trace; it is on disk when this returns."""
        path = self.layout.trace_file(author, op_type, trace.definition)
        append_lines(path, [trace.model_dump_json()], self.root)
        return path


def index_by_name(records: Iterable[tuple[Path, Named]]) -> dict[str, Named]:
    """Records by name. Raises InputError for a name used twice: only the author of both files knows which is wrong."""
    found: dict[str, tuple[Path, Named]] = {}
    for path, record in records:
        if record.name in found:
            what = f"{found[record.name][0]} and {path} both hold a {type(record).__name__} named {record.name!r}"
            raise InputError(f"{what}; rename one of them")
        found[record.name] = path, record
    return {name: record for name, (_, record) in found.items()}
