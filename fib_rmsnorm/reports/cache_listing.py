"""The cache as tables and as JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fib_rmsnorm.building.cache_contents import CachedBuilds
from fib_rmsnorm.reports.text.document import Heading, Part
from fib_rmsnorm.reports.text.tables import Grid
from fib_rmsnorm.reports.text.units import format_bytes

Names = Mapping[str, Sequence[str]]
"""The Solutions that share a folder of builds, by its key."""


@dataclass(frozen=True)
class CacheContents:
    """What the cache holds."""

    folder: Path
    solutions: Sequence[CachedBuilds]
    copies: Sequence[CachedBuilds]
    """Builds of the copy that `bench` compares with."""

    @property
    def everything(self) -> list[CachedBuilds]:
        """All of it."""
        return [*self.solutions, *self.copies]


def describe_cache(cache: CacheContents, names: Names) -> Iterator[Part]:
    """Where the cache is, and how much each Solution and each kind of build takes."""
    yield Heading(f"Cache {cache.folder}: {format_bytes(_sum(cache.everything))}")
    if cache.solutions:
        rows = [_row(each, names.get(each.key, ())) for each in cache.solutions]
        yield Grid(("solutions", ">size", "of which"), rows)
    if cache.everything:
        yield Grid(
            ("kind", ">size"),
            [(kind, format_bytes(size)) for kind, size in _by_kind(cache.solutions).most_common()]
            + ([("the copy that bench compares with", format_bytes(_sum(cache.copies)))] if cache.copies else []),
        )
    yield "$FIB_RMSNORM_CACHE names another folder. To delete it: fib-rmsnorm cache clear [--solutions NAME,...]"


def _row(builds: CachedBuilds, names: Sequence[str]) -> tuple[str, str, str]:
    kinds = ", ".join(f"{kind} {format_bytes(size)}" for kind, size in builds.sizes.items())
    return (", ".join(names) or f"{builds.key[:8]} (none of this registry)", format_bytes(builds.size), kinds)


def _by_kind(solutions: Sequence[CachedBuilds]) -> Counter[str]:
    total: Counter[str] = Counter()
    for each in solutions:
        total.update(each.sizes)
    return total


def _sum(builds: Iterable[CachedBuilds]) -> int:
    return sum(each.size for each in builds)


def cache_record(cache: CacheContents, names: Names) -> dict[str, Any]:
    """The same as numbers: bytes."""
    return {
        "folder": str(cache.folder),
        "bytes": _sum(cache.everything),
        "copy_bytes": _sum(cache.copies),
        "kinds": dict(_by_kind(cache.solutions).most_common()),
        "solutions": [
            {"key": each.key, "names": list(names.get(each.key, ())), "bytes": each.size, "kinds": each.sizes}
            for each in cache.solutions
        ],
    }
