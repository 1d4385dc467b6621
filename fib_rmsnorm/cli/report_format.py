"""The format of a report: asked for by --format, --json or the suffix of --output."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING

from fib_rmsnorm.cli.reading import write_or_print
from fib_rmsnorm.errors import InputError

if TYPE_CHECKING:
    from fib_rmsnorm.reports.text.document import Part


class Format(str, Enum):
    """The format of a report."""

    TABLE = "table"
    MARKDOWN = "markdown"
    CSV = "csv"
    JSON = "json"
    HTML = "html"


_FORMAT_OF_SUFFIX = {
    "": Format.TABLE,
    ".txt": Format.TABLE,
    ".md": Format.MARKDOWN,
    ".csv": Format.CSV,
    ".json": Format.JSON,
    ".html": Format.HTML,
}


def choose_format(format_: Format | None, output: Path | None, *, is_json: bool) -> Format:
    """The format to write. Raises InputError if the options conflict, or for a suffix that says nothing."""
    return _asked(format_, output, is_json=is_json) or _of_suffix(output)


def _asked(format_: Format | None, output: Path | None, *, is_json: bool) -> Format | None:
    """The format that --json or --format asks for. Raises InputError if they conflict with each other or --output."""
    if is_json and format_ not in (None, Format.JSON):
        raise InputError(f"--json conflicts with --format {format_.value}")
    asked = Format.JSON if is_json else format_
    told = _FORMAT_OF_SUFFIX.get(output.suffix.lower()) if output else None
    if asked is not None and told not in (None, Format.TABLE, asked):  # a .txt file may hold any text
        option = "--json" if is_json else f"--format {asked.value}"
        raise InputError(f"{option} conflicts with the suffix of --output {output}")
    return asked


def _of_suffix(output: Path | None) -> Format:
    suffix = output.suffix.lower() if output else ""
    if suffix not in _FORMAT_OF_SUFFIX:
        known = ", ".join(filter(None, _FORMAT_OF_SUFFIX))
        raise InputError(f"--output {output}: unknown suffix {suffix}; use {known}, or give --format")
    return _FORMAT_OF_SUFFIX[suffix]


def write_parts(parts: list[Part], chosen: Format, output: Path | None) -> None:
    """Write text or Markdown; print a table in the terminal's width."""
    from fib_rmsnorm.reports.text.console import stdout
    from fib_rmsnorm.reports.text.document import as_markdown, as_text, print_parts

    if chosen is Format.TABLE and output is None:
        print_parts(parts, stdout())
    else:
        write_or_print((as_markdown if chosen is Format.MARKDOWN else as_text)(parts), output)
