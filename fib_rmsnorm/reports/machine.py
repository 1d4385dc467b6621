"""What this machine has and keeps: devices, tools, and the folder of builds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import groupby

from rich.console import RenderableType

from fib_rmsnorm.languages import ABILITIES
from fib_rmsnorm.machine.capabilities import DeviceReport, FoundTool, MachineReport
from fib_rmsnorm.reports.text.document import plain_table
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
