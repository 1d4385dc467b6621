"""Print and write the output of commands: lines, notes, JSON, and reports."""

from __future__ import annotations

from collections.abc import Callable, Iterable
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
    """Print a record of strings, numbers, paths, lists, dicts, dataclasses and models as JSON."""
    from fib_rmsnorm.reports.text.console import echo
    from fib_rmsnorm.reports.text.units import json_text

    echo(json_text(record), end="")


def answer(record: object, lines: Iterable[RenderableType], *, is_json: bool) -> None:
    """Print a record as JSON, or else the lines that say the same."""
    if is_json:
        print_json(record)
    else:
        say(*lines)


def write_report(
    describe: Callable[..., Iterable[Part]],
    record: Callable[..., object],
    *found: object,
    is_json: bool,
    output: Path | None = None,
) -> None:
    """Print a report of what was found, or write it to a file: its parts, or its record as JSON.

    `is_json` or the suffix .json asks for JSON, .md for Markdown; else it is a table, which has the terminal's width.
    """
    from fib_rmsnorm.reports.text.console import stdout
    from fib_rmsnorm.reports.text.document import as_markdown, as_text, print_parts
    from fib_rmsnorm.reports.text.units import json_text

    suffix = suffix_of(output)
    if is_json or suffix == ".json":
        write_or_print(json_text(record(*found)), output)
    elif suffix == ".md":
        write_or_print(as_markdown(describe(*found)), output)
    elif output is None and stdout().is_terminal:
        print_parts(describe(*found), stdout())
    else:
        write_or_print(as_text(describe(*found)), output)


_SUFFIXES = (".txt", ".md", ".json", ".html")


def suffix_of(output: Path | None) -> str:
    """The lower-case suffix of a file, which decides the format of a report; empty without a file.

    Raises InputError for a suffix that names no format.
    """
    suffix = output.suffix.lower() if output else ""
    if suffix not in ("", *_SUFFIXES):
        raise InputError(f"{output}: unknown suffix {suffix}; use {', '.join(_SUFFIXES)}")
    return suffix


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
