"""Record Traces as they come: in the registry, and in the file that the user named."""

from __future__ import annotations

from pathlib import Path

from fib_rmsnorm.errors import InputError
from fib_rmsnorm.evaluation.bench_records import BenchRecords
from fib_rmsnorm.evaluation.scheduler import Evaluated, Resumed
from fib_rmsnorm.registry import Registry
from fib_rmsnorm.registry.output import OutputLock, check_output
from fib_rmsnorm.registry.store import append_line, write_atomic
from fib_rmsnorm.schema import Trace


class OutputFile:
    """The traces of one run: a JSON array in a `.json` file, or lines in a `.jsonl` file.

    The first Trace replaces a `.jsonl` file. A `.json` file is written when this is closed; until then its Traces are
    lines of `NAME.json.unfinished.jsonl` beside it, which a killed run leaves. No other run may write the file until
    this is closed. Raises InputError at once, rather than after hours, if the file cannot be written.
    """

    def __init__(self, path: Path) -> None:
        if path.suffix not in (".json", ".jsonl"):
            raise InputError(f"--output {path}: the name must end in .json or .jsonl")
        check_output(path)
        self._lock = OutputLock(path)
        self.path = path
        self._lines = path.with_name(f"{path.name}.unfinished.jsonl") if path.suffix == ".json" else path
        self._is_empty = True

    def __enter__(self) -> OutputFile:
        return self

    def __exit__(self, *_: object) -> None:
        try:
            if self._lines != self.path and not self._is_empty:
                records = self._lines.read_text(encoding="utf-8").rstrip("\n").replace("\n", ",\n")
                write_atomic(self.path, f"[\n{records}\n]\n")
                self._lines.unlink()
        finally:
            self._lock.release()

    def add(self, trace: Trace) -> None:
        """Add a Trace. It is on disk when this returns."""
        record = trace.model_dump_json()
        if self._is_empty:
            write_atomic(self._lines, record + "\n")
            self._is_empty = False
        else:
            append_line(self._lines, record)


class Recorder:
    """Records events of the scheduler."""

    def __init__(self, registry: Registry, records: BenchRecords, output: OutputFile | None) -> None:
        self._registry = registry
        self._output = output
        self._records = records

    def __call__(self, event: Evaluated | Resumed) -> None:
        """Record a Trace; a resumed one is in the registry already."""
        trace = event.trace
        if isinstance(event, Evaluated) and trace.solution is not None:
            author = self._records.solutions[trace.solution].author
            self._registry.append_trace(trace, author, self._records.definitions[trace.definition].op_type)
        if self._output:
            self._output.add(trace)
