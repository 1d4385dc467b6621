"""The table that a tuned Solution reads, as a Python module or a C++ header.

A Solution calls `find_choice` with a batch and the constants of a shape. For a shape that was never measured it
returns nothing, and the Solution applies a rule of its own.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

_LINE_WIDTH = 110
_NO_BREAK = "\N{NO-BREAK SPACE}"


@dataclass(frozen=True)
class Rung:
    """One choice, and the largest batch that it applies to."""

    largest: int | None
    """The largest batch that it applies to; None for the last choice."""
    parameters: dict[str, int]
    evidence: str = ""


@dataclass(frozen=True)
class Entry:
    """The choices for one shape, by batch."""

    key: dict[str, int]
    rungs: tuple[Rung, ...]


@dataclass(frozen=True)
class Provenance:
    """The measurement that the choices come from."""

    hardware: str
    multiprocessors: int
    """The GPU's number of multiprocessors; 0 on a CPU."""
    date: str
    timer: str
    combinations: int


@dataclass(frozen=True)
class Columns:
    """The names in a table: its file, Solution, key and parameters."""

    path: str
    """The table's file, whose suffix decides the language."""
    solution: str
    key: tuple[str, ...]
    parameters: tuple[str, ...]


def render_table(columns: Columns, entries: Sequence[Entry], provenance: Provenance | None = None) -> str:
    """Render the text of the file; without provenance it says that nothing was measured."""
    told = list(_tell(columns.solution, provenance))
    multiprocessors = provenance.multiprocessors if provenance else 0
    render = _python if PurePosixPath(columns.path).suffix == ".py" else _header
    return "\n".join(render(columns, told, entries, multiprocessors)) + "\n"


def in_order_of(text: str, entries: Sequence[Entry]) -> list[Entry]:
    """Sort entries as in the previous text of the table, new ones last.

    Another order would change the Solution's digest, and its Traces would no longer belong to it.
    """

    def place(entry: Entry) -> int:
        numbers = ", ".join(map(str, entry.key.values()))
        found = re.search(rf"[({{]{numbers}[,)]", text)
        return found.start() if found else len(text)

    return sorted(entries, key=place)


def _tell(name: str, provenance: Provenance | None) -> Iterator[str]:
    yield f"How {name} launches, by shape. Made by `fib-rmsnorm tune`: do not edit."
    yield ""
    if provenance is None:
        yield "Nothing was measured."
        return
    yield f"{provenance.hardware}, {provenance.date}, timer {provenance.timer}, {provenance.combinations} combinations:"
    yield "each choice is the fastest at the batches beside it, or within 1% of it."


def _python(columns: Columns, told: list[str], entries: Sequence[Entry], multiprocessors: int) -> Iterator[str]:
    yield f'"""{told[0]}'
    yield from told[1:]
    yield '"""'
    yield ""
    yield f"MULTIPROCESSORS = {multiprocessors}  # of the device it was measured on"
    yield ""
    yield f"# ({', '.join(columns.key)}): (the largest batch, its choice), ..."
    if entries:
        yield "CHOICES = {"
        for entry in entries:
            yield f"    {tuple(entry.key.values())!r}: ["
            for rung in entry.rungs:
                yield from _comment("        # ", rung.evidence)
                yield f"        ({rung.largest}, {_dict(rung.parameters)}),"
            yield "    ],"
        yield "}"
    else:
        yield "CHOICES = {}"
    yield ""
    yield ""
    yield f"def find_choice(batch, {', '.join(columns.key)}):"
    yield '    """The choice for a shape, or None for one that was never measured."""'
    yield f"    for largest, choice in CHOICES.get(({', '.join(columns.key)}), ()):"
    yield "        if largest is None or batch <= largest:"
    yield "            return choice"
    yield "    return None"


def _comment(prefix: str, text: str) -> list[str]:
    """Render the evidence of a choice; lines break only between batches."""
    whole = text.replace(" ", _NO_BREAK).replace(f",{_NO_BREAK}", ", ")
    lines = textwrap.wrap(whole, _LINE_WIDTH, initial_indent=prefix, subsequent_indent=prefix)
    return [line.replace(_NO_BREAK, " ") for line in lines]


def _dict(parameters: dict[str, int]) -> str:
    return "{" + ", ".join(f'"{name}": {value}' for name, value in parameters.items()) + "}"


def _header(columns: Columns, told: list[str], entries: Sequence[Entry], multiprocessors: int) -> Iterator[str]:
    yield from (f"// {line}".rstrip() for line in told)
    yield "#pragma once"
    yield ""
    yield "#include <cstdint>"
    yield ""
    yield "namespace {"
    yield ""
    yield "struct Choice {"
    yield from (f"  int {name};" for name in columns.parameters)
    yield "};"
    yield ""
    yield "// Of the device it was measured on."
    yield f"constexpr int TUNED_MULTIPROCESSORS = {multiprocessors};"
    yield ""
    arguments = ", ".join(f"int64_t {key}" for key in columns.key)
    yield "// The choice for a shape, or nullptr for one that was never measured."
    yield f"inline const Choice* find_choice(int64_t batch, {arguments}) {{"
    if entries:
        yield from _lookup(columns.key, entries)
    else:
        yield from (f"  (void){name};" for name in ("batch", *columns.key))
    yield "  return nullptr;"
    yield "}"
    yield ""
    yield "}  // namespace"


def _lookup(keys: Sequence[str], entries: Sequence[Entry]) -> Iterator[str]:
    yield "  struct Row {"
    yield f"    int64_t {', '.join(keys)}, largest_batch;"
    yield "    Choice choice;"
    yield "  };"
    yield "  static constexpr Row ROWS[] = {"
    for entry in entries:
        for rung in entry.rungs:
            largest = "INT64_MAX" if rung.largest is None else str(rung.largest)
            numbers = ", ".join([*map(str, entry.key.values()), largest])
            yield from _comment("      // ", rung.evidence)
            yield f"      {{{numbers}, {{{', '.join(map(str, rung.parameters.values()))}}}}},"
    yield "  };"
    yield "  for (const Row& row : ROWS) {"
    same = " && ".join(f"row.{key} == {key}" for key in keys)
    yield f"    if ({same} && batch <= row.largest_batch) return &row.choice;"
    yield "  }"
