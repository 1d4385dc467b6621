"""Which Traces are of another version of their Definition than today's: their numbers are of another computation."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from fib_rmsnorm.analysis.trace_files.kinds import DefinitionVersion, SeenVersion
from fib_rmsnorm.analysis.traffic import read_definitions


class OtherVersions(NamedTuple):
    """The Traces that are not of the registry's version of their Definition, by number."""

    outdated: dict[DefinitionVersion, int]
    """Those to be left out: others are of the version that stays."""
    alone: dict[str, int]
    """By Definition, those of the newest version that was seen, where none is of the registry's."""


def find_other_versions(seen: Iterable[SeenVersion], roots: Iterable[Path], *, alone: bool) -> OtherVersions:
    """What to leave out, so that Traces of one version of each Definition stay.

    Of a Definition that the registries have, theirs stays; of one of which no Trace is so, the newest that was seen
    if `alone` says so; of one that no registry has, the newest.
    """
    counts = Counter[DefinitionVersion]()
    newest: dict[str, tuple[str, str]] = {}
    for (name, sha256), traces, timestamp in seen:
        counts[DefinitionVersion(name, sha256)] += traces
        newest[name] = max(newest.get(name, ("", "")), (timestamp, sha256))
    kept = {name: DefinitionVersion(name, sha256) for name, (_, sha256) in newest.items()}
    found: dict[str, int] = {}
    if kept:
        from fib_rmsnorm.schema import digest

        for name, definition in read_definitions(kept, roots).items():
            of_registry = DefinitionVersion(name, digest(definition))
            if alone and of_registry not in counts:
                found[name] = counts[kept[name]]
            else:
                kept[name] = of_registry
    return OtherVersions(
        {version: count for version, count in counts.items() if version != kept[version.definition]}, found
    )
