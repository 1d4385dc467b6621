"""What this machine has and keeps: devices, tools, and the cache of builds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path
from typing import Any

from rich.console import RenderableType

from fib_rmsnorm.building.cache_contents import CachedBuilds
from fib_rmsnorm.languages import ABILITIES
from fib_rmsnorm.machine.inventory import DeviceReport, FoundTool, MachineReport
from fib_rmsnorm.reports.text.document import Heading, Part
from fib_rmsnorm.reports.text.tables import Grid, plain_table
from fib_rmsnorm.reports.text.units import count, format_bytes


def describe_machine(machine: MachineReport) -> Iterator[RenderableType]:
    """Show devices, languages, tools, libraries and the folder of builds."""
    groups = list(_group(machine.devices))
    yield plain_table(
        ("name", "device", ">memory", "timer", ""),
        (
            (name, device.hardware, format_bytes(device.memory_bytes), device.timer, device.timer_note)
            for name, device in groups
        ),
        title="Devices",
    )
    yield from machine.notes
    yield ""
    yield plain_table(
        ("language", "on", "can", ""),
        (
            (language, name, ABILITIES[found.ability], found.note)
            for language in groups[0][1].languages
            for name, device in groups
            for found in [device.languages[language]]
        ),
        title="Languages",
    )
    yield ""
    yield plain_table(("tool", "version", ""), map(_tool_row, machine.tools), title="Tools")
    yield ""
    yield plain_table(
        ("library", "version"),
        ((name, version or "missing") for name, version in machine.libraries.items()),
        title="Libraries",
    )
    yield ""
    cache = machine.cache
    yield f"Python: {machine.python}"
    yield f"Builds: {cache.folder} ({count(cache.files, 'file')}, {format_bytes(cache.size_bytes)})"


def _group(devices: Sequence[DeviceReport]) -> Iterator[tuple[str, DeviceReport]]:
    """Equal devices as one: `cuda:0-7`."""
    for _, equal in groupby(devices, key=lambda device: replace(device, name="")):
        members = list(equal)
        first, last = members[0].name, members[-1].name
        yield first if len(members) == 1 else f"{first}-{last.rpartition(':')[2]}", members[0]


def _tool_row(tool: FoundTool) -> tuple[str, str, str]:
    if tool.path is None and tool.version is None:
        return (tool.name, "missing", tool.note)
    return (tool.name, tool.version or "unknown", tool.path or "")


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
    rows = [
        (
            ", ".join(names.get(each.key, ())) or f"{each.key[:8]} (none of this registry)",
            format_bytes(each.size),
            ", ".join(f"{kind} {format_bytes(size)}" for kind, size in each.sizes.items()),
        )
        for each in cache.solutions
    ]
    rows += [("the copy that bench compares with", format_bytes(_sum(cache.copies)), "")] if cache.copies else []
    if rows:
        yield Grid(("solutions", ">size", "of which"), rows)
    yield "$FIB_RMSNORM_CACHE names another folder. To delete it: fib-rmsnorm cache clear [--solutions NAME,...]"


def _sum(builds: Iterable[CachedBuilds]) -> int:
    return sum(each.size for each in builds)


def cache_record(cache: CacheContents, names: Names) -> dict[str, Any]:
    """The same as numbers: bytes."""
    kinds: Counter[str] = Counter()
    for each in cache.solutions:
        kinds.update(each.sizes)
    return {
        "folder": cache.folder,
        "bytes": _sum(cache.everything),
        "copy_bytes": _sum(cache.copies),
        "kinds": dict(kinds.most_common()),
        "solutions": [
            {"key": each.key, "names": names.get(each.key, ()), "bytes": each.size, "kinds": each.sizes}
            for each in cache.solutions
        ],
    }
