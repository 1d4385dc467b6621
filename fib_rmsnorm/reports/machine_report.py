"""What this machine has, in words."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from typing import Any

from rich.console import RenderableType

from fib_rmsnorm.reports.records.listing import ABILITIES
from fib_rmsnorm.reports.text.tables import plain_table
from fib_rmsnorm.reports.text.units import count, format_bytes

Record = dict[str, Any]


def describe_environment(survey: Record) -> Iterator[RenderableType]:
    """Say what `fib-rmsnorm env --json` prints: devices, languages, tools, libraries, cache."""
    groups = list(_group(survey["devices"]))
    yield plain_table(
        ("name", "device", ">memory", "timer", ""),
        (
            (name, each["hardware"], format_bytes(each["memory_bytes"]), each["timer"], each["timer_note"])
            for name, each in groups
        ),
        title="Devices",
    )
    yield from survey["notes"]
    yield ""
    yield plain_table(
        ("language", "on", "can", ""),
        (
            (language, name, ABILITIES[found["ability"]], found["note"])
            for language in groups[0][1]["languages"]
            for name, each in groups
            for found in [each["languages"][language]]
        ),
        title="Languages",
    )
    yield ""
    yield plain_table(("tool", "version", ""), map(_tool_row, survey["tools"]), title="Tools")
    yield ""
    yield plain_table(
        ("library", "version"),
        ((name, version or "missing") for name, version in survey["libraries"].items()),
        title="Libraries",
    )
    yield ""
    cache = survey["cache"]
    yield f"Python: {survey['python']}"
    yield f"Builds: {cache['folder']} ({count(cache['files'], 'file')}, {format_bytes(cache['size_bytes'])})"


def _group(devices: list[Record]) -> Iterator[tuple[str, Record]]:
    """Equal devices as one: `cuda:0-7`."""
    for _, equal in groupby(devices, key=lambda device: {**device, "name": None}):
        members = list(equal)
        first, last = members[0]["name"], members[-1]["name"]
        yield first if len(members) == 1 else f"{first}-{last.rpartition(':')[2]}", members[0]


def _tool_row(tool: Record) -> tuple[str, str, str]:
    if tool["path"] is None and tool["version"] is None:
        return (tool["name"], "missing", tool["note"])
    return (tool["name"], tool["version"] or "unknown", tool["path"] or "")
