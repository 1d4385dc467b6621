"""The contents of a registry as tables; and this machine's devices and tools."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import groupby

from rich.console import RenderableType

from fib_rmsnorm.analysis.holdings import Row
from fib_rmsnorm.languages import ABILITIES
from fib_rmsnorm.machine.capabilities import DeviceReport, MachineReport, Readiness
from fib_rmsnorm.reports.text.document import Grid
from fib_rmsnorm.reports.text.units import assignments, count, format_bytes

_SHORT_UUID = 8


def _axes_text(row: Row) -> str:
    return ", ".join(axis if value is None else f"{axis}={value}" for axis, value in row["axes"].items())


_TABLES: dict[str, dict[str, str | Callable[[Row], str]]] = {
    "definitions": {
        "definition": "name",
        "op_type": "op_type",
        "axes": _axes_text,
        **{f">{name}": name for name in ("solutions", "workloads", "traces")},
    },
    "solutions": {
        "solution": "name",
        **{name: name for name in ("language", "author", "definition")},
        **{f">{name}": name for name in ("traces", "passed", "earlier")},
        "here": lambda row: _here_word(row["here"]),
        "why": lambda row: row["here"].note,
    },
    "workloads": {
        "workload": lambda row: row["uuid"][:_SHORT_UUID],
        "definition": "definition",
        "axes": _axes_text,
        "scalars": lambda row: assignments(row["scalars"]),
        ">bytes moved": lambda row: format_bytes(row["bytes_moved"]),
        ">traces": "traces",
    },
    "traces": {
        **{name: name for name in ("solution", "definition", "hardware")},
        **{f">{name}": name for name in ("traces", "workloads")},
        "newest": lambda row: row["newest"][:10],
        "status": lambda row: with_earlier(
            ", ".join(f"{number} {status}" for status, number in row["statuses"].items()), row["earlier"]
        ),
    },
}
"""The columns of each table: a name in the rows, or what makes text of a row."""


def table_of(kind: str, rows: Sequence[Row]) -> Grid:
    """Rows of one kind as a table."""
    columns = dict(_TABLES[kind])
    if kind == "solutions" and not any(row["earlier"] for row in rows):
        del columns[">earlier"]  # few registries have any, and the table is wide without
    cells = ([what(row) if callable(what) else str(row[what]) for what in columns.values()] for row in rows)
    return Grid(tuple(columns), cells)


def with_earlier(told: str, earlier: int) -> str:
    """A summary of the Traces of today's contents, and the number of earlier ones, if any."""
    if not earlier:
        return told
    return f"{told} (and {earlier} of earlier contents)" if told else f"{earlier} of earlier contents"


def here_line(rows: Iterable[Row]) -> str:
    """How many Solutions can do what on this machine."""
    abilities = Counter(row["here"].ability for row in rows)
    words = {"run": "run", "interpret": "are interpreted", "compile": "only compile", "no": "cannot run"}
    told = [f"{abilities[ability]} {word}" for ability, word in words.items() if abilities[ability]]
    return f"Solutions on this machine: {', '.join(told) or 'none'}"


def here_text(here: Readiness) -> str:
    """The ability of a Solution on this machine: `run on cuda`, `no: triton is missing; ...`."""
    return ": ".join(filter(None, (_here_word(here), here.note)))


def _here_word(here: Readiness) -> str:
    word = ABILITIES[here.ability]
    return f"{word} on {', '.join(here.devices)}" if here.ability in ("run", "interpret") else word


def describe_machine(machine: MachineReport) -> Iterator[RenderableType]:
    """Show devices, languages, tools, libraries and the folder of builds."""
    groups = list(_group(machine.devices))
    yield Grid(
        ("name", "device", ">memory", "timer", ""),
        (
            (name, device.hardware, format_bytes(device.memory_bytes), device.timer, device.timer_note)
            for name, device in groups
        ),
        title="Devices",
    )
    yield from machine.notes
    yield ""
    yield Grid(
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
    yield Grid(
        ("tool", "version", ""),
        (
            (tool.name, tool.version or ("unknown" if tool.path else "missing"), tool.path or tool.note)
            for tool in machine.tools
        ),
        title="Tools",
    )
    yield ""
    yield Grid(
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
