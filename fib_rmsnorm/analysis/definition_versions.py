"""Which Traces are of another version of their Definition than today's: their numbers are of another computation."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from fib_rmsnorm.analysis.trace_files.kinds import DefinitionVersion, SeenVersion
from fib_rmsnorm.analysis.traffic import read_definitions


def find_outdated(seen: Iterable[SeenVersion], roots: Iterable[Path]) -> dict[DefinitionVersion, int]:
    """The versions that are not today's, and how many Traces are of each.

    Today's is the registry's; of a Definition that no registry has, that of the newest Trace.
    """
    counts = Counter[DefinitionVersion]()
    newest: dict[str, tuple[str, str]] = {}
    for (name, sha256), traces, timestamp in seen:
        counts[DefinitionVersion(name, sha256)] += traces
        newest[name] = max(newest.get(name, ("", "")), (timestamp, sha256))
    today = {name: sha256 for name, (_, sha256) in newest.items()}
    if today:
        from fib_rmsnorm.schema import digest

        today |= {name: digest(definition) for name, definition in read_definitions(today, roots).items()}
    return {
        version: count for version, count in counts.items() if version.definition_sha256 != today[version.definition]
    }
