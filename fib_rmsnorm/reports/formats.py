"""A report in each format it can be written in."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence

from rich.console import Console

from fib_rmsnorm.analysis.results import SectionResults
from fib_rmsnorm.reports.report import result_rows, section_notes, section_title, superseded_note, workload_grids


def as_text(sections: Sequence[SectionResults], superseded: int) -> str:
    """Plain text, for a pipe or a file."""
    parts = []
    for section in sections:
        parts += [section_title(section), *(grid.as_text() for grid in workload_grids(section))]
        parts.append("\n".join(section_notes(section)))
    return "\n\n".join(filter(None, [*parts, superseded_note(superseded)])) + "\n"


def print_tables(sections: Sequence[SectionResults], superseded: int, console: Console) -> None:
    """The same on a terminal, in its width."""
    for section in sections:
        console.print(section_title(section), style="bold")
        for grid in workload_grids(section):
            console.print()
            console.print(grid.as_table(), soft_wrap=False)
        console.print()
        for note in section_notes(section):
            console.print(note, style="yellow" if note.startswith("SUSPECT") else "dim")
        console.print()
    if note := superseded_note(superseded):
        console.print(note, style="dim")


def as_markdown(sections: Sequence[SectionResults], superseded: int) -> str:
    """Markdown, with a heading for each section and Workload."""
    parts = []
    for section in sections:
        parts.append(f"## {section_title(section)}")
        for grid in workload_grids(section):
            parts += [f"### {grid.title}", grid.as_markdown()]
        parts.append("\n".join(f"- {note}" for note in section_notes(section)))
    return "\n\n".join(filter(None, [*parts, superseded_note(superseded)])) + "\n"


def as_csv(sections: Sequence[SectionResults], superseded: int) -> str:
    """A row for each result, numbers as they are."""
    rows = result_rows(sections)
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def as_json(sections: Sequence[SectionResults], superseded: int) -> str:
    """The rows of the CSV, and what was left out."""
    return json.dumps({"superseded": superseded, "results": result_rows(sections)}, indent=2) + "\n"
