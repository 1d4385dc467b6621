"""The cache as tables and as JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from fib_rmsnorm.building.cache_contents import CachedBuilds
from fib_rmsnorm.reports.text.document import Heading, Part
from fib_rmsnorm.reports.text.tables import Grid
from fib_rmsnorm.reports.text.units import format_bytes

Names = Mapping[str, Sequence[str]]
"""The Solutions that share a folder of builds, by its key."""


def describe_cache(
    folder: Path, solutions: Sequence[CachedBuilds], copies: Sequence[CachedBuilds], names: Names
) -> Iterator[Part]:
    """Where the cache is, and how much each Solution and each kind of build takes."""
    everything = [*solutions, *copies]
    yield Heading(f"Cache {folder}: {format_bytes(sum(each.size for each in everything))}")
    if solutions:
        yield Grid(("solutions", ">size", "of which"), [_row(each, names.get(each.key, ())) for each in solutions])
    if everything:
        yield Grid(
            ("kind", ">size"),
            [(kind, format_bytes(size)) for kind, size in _by_kind(solutions).most_common()]
            + (
                [("the copy that bench compares with", format_bytes(sum(each.size for each in copies)))]
                if copies
                else []
            ),
        )
    yield "$FIB_RMSNORM_CACHE names another folder. To delete builds: fib-rmsnorm cache clear [--solutions NAME,...]"


def _row(builds: CachedBuilds, names: Sequence[str]) -> tuple[str, str, str]:
    kinds = ", ".join(f"{kind} {format_bytes(size)}" for kind, size in builds.sizes.items())
    return (", ".join(names) or f"{builds.key[:8]} (none of this registry)", format_bytes(builds.size), kinds)


def _by_kind(solutions: Sequence[CachedBuilds]) -> Counter[str]:
    total: Counter[str] = Counter()
    for each in solutions:
        total.update(each.sizes)
    return total


def cache_record(
    folder: Path, solutions: Sequence[CachedBuilds], copies: Sequence[CachedBuilds], names: Names
) -> dict[str, Any]:
    """The same as numbers: bytes."""
    copied = sum(each.size for each in copies)
    return {
        "folder": str(folder),
        "bytes": sum(each.size for each in solutions) + copied,
        "copy_bytes": copied,
        "kinds": dict(_by_kind(solutions).most_common()),
        "solutions": [
            {"key": each.key, "names": list(names.get(each.key, ())), "bytes": each.size, "kinds": each.sizes}
            for each in solutions
        ],
    }
