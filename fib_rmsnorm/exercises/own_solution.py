"""A student's Solution: whether it is made of the file as it is, and its passed Traces."""

from __future__ import annotations

from pathlib import Path

from fib_rmsnorm.analysis.trace_record import TraceRecord
from fib_rmsnorm.registry import Registry
from fib_rmsnorm.registry.sources.packing import read_current
from fib_rmsnorm.registry.store import read_text
from fib_rmsnorm.schema import Solution, digest


def find_own(registry: Registry, definition: str, file: Path, register: str) -> tuple[Solution | None, str]:
    """Find the Solution that was made of a file, and say who made it; None and what to do if there is none.

    `register` is the command that makes it. Raises InputError if the file cannot be read.
    """
    own = [
        each
        for each in read_current(registry).by_name.values()
        if each.definition == definition and any(source.path == file.name for source in each.sources)
    ]
    text = read_text(file)
    for each in own:
        if any(source.path == file.name and source.content == text for source in each.sources):
            return each, f"{each.name} by {each.author}"
    if own:
        return None, f"{own[0].name} holds another version of {file.name}: copy it to its folder in solutions/"
    return None, f"no Solution is made of {file.name}; run: {register}"


def read_passed(registry: Registry, file: Path, solution: Solution) -> list[TraceRecord]:
    """The passed Traces of the Solution as it is now, in the file of a bench; none without that file."""
    from fib_rmsnorm.analysis.loading import load_traces

    if not file.exists():
        return []
    known = digest(solution)
    found = load_traces([file], registry.root, warn=lambda _: None)
    return [
        record
        for record in found.records
        if record.passed and record.solution == solution.name and record.solution_sha256 == known
    ]
