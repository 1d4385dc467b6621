"""Print and write the output of commands: lines, notes, JSON, and reports."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

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
    """Print a record of strings, numbers, paths, lists, dicts, dataclasses and models as JSON.

    Numbers for which JSON has no form are null.
    """
    from json import dumps

    from pydantic_core import from_json, to_json

    from fib_rmsnorm.reports.text.console import echo

    text = to_json(record, indent=2, by_alias=False, inf_nan_mode="null")
    # Any terminal can show ASCII. `dumps` takes five times as long.
    echo(text.decode() if text.isascii() else dumps(from_json(text), indent=2))


def answer(record: object, lines: Iterable[RenderableType], *, is_json: bool) -> None:
    """Print a record as JSON, or else the lines that say the same."""
    if is_json:
        print_json(record)
    else:
        say(*lines)


def print_report(
    describe: Callable[..., Iterable[Part]], record: Callable[..., object], *found: object, is_json: bool
) -> None:
    """Print a report of what was found: its record as JSON, or its parts."""
    from fib_rmsnorm.reports.text.console import stdout
    from fib_rmsnorm.reports.text.document import print_parts

    if is_json:
        print_json(record(*found))
    else:
        print_parts(describe(*found), stdout())
