"""Which Traces are of another version of their Definition than today's, or of another of their Solution.

The first are numbers of another computation, the second of another kernel.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from fib_rmsnorm.analysis.decoding import DecodedTrace
from fib_rmsnorm.analysis.trace_record import TraceRecord
from fib_rmsnorm.analysis.traffic import read_definitions
from fib_rmsnorm.errors import InputError

if TYPE_CHECKING:
    from fib_rmsnorm.schema import Solution


DefinitionVersion = tuple[str, str]
"""A Definition's name and its digest."""


def find_other_versions(traces: Iterable[DecodedTrace], roots: Iterable[Path]) -> dict[DefinitionVersion, int]:
    """The versions to leave out, with the number of their Traces, so that one of each Definition stays.

    That is the registries' version; of a Definition that no registry has, the newest.
    """
    counts = Counter[DefinitionVersion]()
    newest: dict[str, tuple[str, str]] = {}
    for trace in traces:
        name, sha256 = trace.facts.definition, trace.facts.definition_sha256
        if sha256:
            counts[name, sha256] += 1
            newest[name] = max(newest.get(name, ("", "")), (trace.timestamp, sha256))
    kept = {name: sha256 for name, (_, sha256) in newest.items()}
    if kept:
        from fib_rmsnorm.schema import digest

        kept |= {name: digest(definition) for name, definition in read_definitions(kept, roots).items()}
    return {version: number for version, number in counts.items() if version[1] != kept[version[0]]}


def is_changed(record: TraceRecord, digests: Mapping[str, str]) -> bool:
    """Whether its Solution is another today, where both are known: flashinfer-bench records no digest."""
    return record.solution_sha256 not in (None, digests.get(record.solution, record.solution_sha256))


def find_changed(records: Iterable[TraceRecord], digests: Mapping[str, str]) -> dict[str, list[str]]:
    """By device, the Solutions of which no Trace there is of today's version."""
    outdated: dict[tuple[str, str], bool] = {}
    for record in records:
        key = record.hardware, record.solution
        outdated[key] = outdated.get(key, True) and is_changed(record, digests)
    found = defaultdict[str, list[str]](list)
    for hardware, solution in sorted(key for key, is_outdated in outdated.items() if is_outdated):
        found[hardware].append(solution)
    return found


def read_todays(roots: Iterable[Path]) -> dict[str, Solution]:
    """The Solutions of registries as their sources are now, by name; of two, that of the first registry.

    Any dataset may lie there: one that cannot be read has none, and `validate` says why.
    """
    from fib_rmsnorm.registry import Registry
    from fib_rmsnorm.registry.sources.packing import read_current

    found: dict[str, Solution] = {}
    for root in roots:
        with suppress(InputError):
            found = {**read_current(Registry(root)).by_name, **found}
    return found
