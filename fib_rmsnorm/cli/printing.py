"""Print and write the output of commands: lines, notes, JSON, and a report in the requested format."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING

from fib_rmsnorm.errors import InputError

if TYPE_CHECKING:
    from rich.console import RenderableType

    from fib_rmsnorm.reports.text.document import Part


def say(*parts: RenderableType) -> None:
    """Print results, each from the beginning of a line."""
    from fib_rmsnorm.reports.text.console import stdout

    for part in parts:
        stdout().print(part)


def note(text: str) -> None:
    """Print on stderr what is not a result; a terminal without room for it gets it in several lines."""
    from fib_rmsnorm.reports.text.console import Folded, stderr

    stderr().print(Folded(text, 2))


def warn(line: str) -> None:
    """Print a note that begins as errors do."""
    from fib_rmsnorm.reports.text.control_characters import one_line

    note(f"fib-rmsnorm: {one_line(line)}")


def print_json(record: object) -> None:
    """Print a record of strings, numbers, paths, lists, dicts and dataclasses as JSON."""
    from fib_rmsnorm.reports.text.console import echo
    from fib_rmsnorm.reports.text.units import json_text

    echo(json_text(record), end="")


class Format(str, Enum):
    """The format of a report."""

    TABLE = "table"
    MARKDOWN = "markdown"
    JSON = "json"
    HTML = "html"


_FORMAT_OF_SUFFIX = {
    "": Format.TABLE,
    ".txt": Format.TABLE,
    ".md": Format.MARKDOWN,
    ".json": Format.JSON,
    ".html": Format.HTML,
}


def choose_format(format_: Format | None, output: Path | None, *, is_json: bool) -> Format:
    """The format to write: that of --json or --format, else of the suffix of --output.

    Raises InputError if the options conflict, or for a suffix that says nothing.
    """
    if is_json and format_ not in (None, Format.JSON):
        raise InputError(f"--json conflicts with --format {format_.value}")
    asked = Format.JSON if is_json else format_
    suffix = output.suffix.lower() if output else ""
    told = _FORMAT_OF_SUFFIX.get(suffix)
    if asked is None and told is None:
        known = ", ".join(filter(None, _FORMAT_OF_SUFFIX))
        raise InputError(f"--output {output}: unknown suffix {suffix}; use {known}, or give --format")
    if asked is not None and told not in (None, Format.TABLE, asked):  # a .txt file may hold any text
        option = "--json" if is_json else f"--format {asked.value}"
        raise InputError(f"{option} conflicts with the suffix of --output {output}")
    return asked or told or Format.TABLE


def write_report(
    describe: Callable[..., Iterable[Part]],
    record: Callable[..., object],
    *found: object,
    chosen: Format,
    output: Path | None = None,
) -> None:
    """Write a report of what was found, but for HTML, to a file, or print it: its parts, or its record as JSON.

    A table has the terminal's width.
    """
    from fib_rmsnorm.reports.text.console import stdout
    from fib_rmsnorm.reports.text.document import as_markdown, as_text, print_parts
    from fib_rmsnorm.reports.text.units import json_text

    if chosen is Format.JSON:
        write_or_print(json_text(record(*found)), output)
        return
    listed = list(describe(*found))
    if chosen is Format.TABLE and output is None and stdout().is_terminal:
        print_parts(listed, stdout())
    else:
        write_or_print(as_markdown(listed) if chosen is Format.MARKDOWN else as_text(listed), output)


def write_or_print(text: str, output: Path | None) -> None:
    """Print `text`, or write it to a file atomically. Raises InputError if it cannot be written."""
    from fib_rmsnorm.reports.text.console import echo
    from fib_rmsnorm.reports.text.control_characters import harmless

    if output is None:
        echo(text, end="")
        return
    from fib_rmsnorm.registry.store import write_atomic

    write_atomic(output, harmless(text))
    note(f"Wrote {output}")
