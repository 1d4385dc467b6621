"""Read a whole dataset, even if parts of it are damaged."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from fnmatch import fnmatch
from functools import cached_property
from pathlib import Path
from typing import Generic, Literal

from pydantic import ValidationError

from fib_rmsnorm.errors import InputError
from fib_rmsnorm.registry.files.regular_files import find_files, open_regular, read_lines, read_text
from fib_rmsnorm.registry.layout import Layout
from fib_rmsnorm.registry.registry import Named
from fib_rmsnorm.registry.store import Model, describe, is_json
from fib_rmsnorm.schema import Definition, Solution, Trace

Level = Literal["error", "warning", "note"]


@dataclass(frozen=True)
class Finding:
    """An error, a warning or a note about a dataset. Only errors make it invalid."""

    level: Level
    path: str
    """The path relative to the dataset's root."""
    line: int | None
    message: str


@dataclass(frozen=True)
class Record(Generic[Model]):
    """A record and the place where it was read, which findings name."""

    model: Model
    path: Path
    root: Path
    line: int | None
    """The line in a `.jsonl` file; None for a record that has a file to itself."""

    @property
    def place(self) -> str:
        """The file, relative to the dataset's root."""
        return self.path.relative_to(self.root).as_posix()

    def error(self, message: str) -> Finding:
        """An error of this record."""
        return Finding("error", self.place, self.line, message)


@dataclass
class Dataset:
    """The readable records of a dataset, and the findings about the others."""

    layout: Layout
    definitions: list[Record[Definition]] = field(default_factory=list)
    solutions: list[Record[Solution]] = field(default_factory=list)
    workloads: list[Record[Trace]] = field(default_factory=list)
    traces: list[Record[Trace]] = field(default_factory=list)
    damaged: list[Path] = field(default_factory=list)
    """Files with an unreadable record: a record that they might hold is not reported as missing."""
    findings: list[Finding] = field(default_factory=list)

    @classmethod
    def read(cls, root: Path, *, published_only: bool = False) -> "Dataset":
        """Read every record under `root`, or of its Traces the published ones alone."""
        layout = Layout(root)
        dataset = cls(layout)
        traces = layout.published if published_only else layout.traces
        dataset.definitions += dataset._read(find_files(layout.definitions, "*.json"), Definition)
        dataset.solutions += dataset._read(layout.packed_files(), Solution)
        dataset.workloads += dataset._read(find_files(layout.workloads, "*.jsonl"), Trace)
        dataset.traces += dataset._read(find_files(traces, "*.jsonl"), Trace)
        return dataset

    def _read(self, paths: Iterable[Path], model: type[Model]) -> Iterator[Record[Model]]:
        root = self.layout.root
        for path in paths:
            try:
                for line, part in self._split(path) if path.suffix == ".jsonl" else [(None, read_text(path, root))]:
                    try:
                        yield Record(model.model_validate_json(part), path, root, line)
                    except ValidationError as error:  # noqa: PERF203 - of one line
                        self._add_damaged(path, describe(error), line)
            except InputError as error:  # noqa: PERF203 - of one file
                self._add_damaged(path, str(error).removeprefix(f"{path}:").strip())

    def _split(self, path: Path) -> Iterator[tuple[int, bytes]]:
        """The lines of a file, numbered, that are not empty or torn."""
        with open_regular(path, self.layout.root) as file:
            for number, line in read_lines(file, path):
                if not line.endswith(b"\n") and not is_json(line):
                    message = "torn last line: a writer was killed; the next append removes the line"
                    self.findings.append(self.finding("warning", path, message, number))
                    continue
                if len(line.decode(errors="replace").splitlines()) > 1:
                    message = "contains a Unicode line break, at which flashinfer-bench splits the record"
                    self.findings.append(self.finding("warning", path, message, number))
                yield number, line

    def _add_damaged(self, path: Path, message: str, line: int | None = None) -> None:
        self.damaged.append(path)
        self.findings.append(self.finding("error", path, message, line))

    def finding(self, level: Level, path: Path, message: str, line: int | None = None) -> Finding:
        """A finding about a whole file, or one line of it."""
        return Finding(level, path.relative_to(self.layout.root).as_posix(), line, message)

    def may_hold(self, folder: Path, name: str) -> bool:
        """Whether a record whose name matches `name` may be unread: `folder` is missing, or has a damaged file."""
        return not folder.is_dir() or any(p.is_relative_to(folder) and fnmatch(p.stem, name) for p in self.damaged)

    @cached_property
    def definition_of(self) -> dict[str, Definition]:
        """The readable Definitions by name."""
        return {record.model.name: record.model for record in reversed(self.definitions)}


def check_unique(records: list[Record[Named]]) -> Iterator[Finding]:
    """Report names that occur twice in the dataset."""
    first: dict[str, Record[Named]] = {}
    for record in records:
        name, kind = record.model.name, type(record.model).__name__
        if name in first:
            yield record.error(f"a {kind} named {name!r} already exists: {first[name].place}")
        first.setdefault(name, record)


def check_place(record: Record[Model], *expected: Callable[[], Path]) -> Iterator[Finding]:
    """Report a record that lies at none of the `expected` paths, and name the first of them.

    Equal findings about several records of a file count once, because they name no line.
    """
    try:
        paths = [path() for path in expected]
    except InputError as error:
        yield record.error(str(error))
        return
    if record.path not in paths:
        place = paths[0].relative_to(record.root).as_posix()
        yield Finding("error", record.place, None, f"its content belongs in {place}")
