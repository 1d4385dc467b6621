"""A text of headings, paragraphs and tables, as plain text, as Markdown or on a terminal."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from textwrap import fill
from typing import TypeAlias

from rich.console import Console

from fib_rmsnorm.reports.text.control_characters import harmless, one_line
from fib_rmsnorm.reports.text.tables import Grid, escape_markdown

# Prose is read, so it is folded; rows of tables and warnings are also searched, so they are not.
_PROSE_WIDTH = 110


@dataclass(frozen=True)
class Heading:
    """The title of what follows; level 1 is the highest."""

    text: str
    level: int = 1


@dataclass(frozen=True)
class Doubt:
    """A paragraph that warns."""

    text: str


Part: TypeAlias = Heading | Grid | Doubt | str
"""A string is a paragraph."""


def as_text(parts: Iterable[Part]) -> str:
    """Plain text, for a pipe or a file."""
    listed = list(parts)
    gaps = ["" if is_close else "\n" for is_close in map(_are_close, listed, listed[1:])]
    return "".join(f"{_text(part)}\n{gap}" for part, gap in zip(listed, [*gaps, ""], strict=True))


def _are_close(before: Part | None, after: Part) -> bool:
    """Whether no blank line parts them: warnings are often many, and each a line."""
    return isinstance(before, Doubt) and isinstance(after, Doubt)


def _text(part: Part) -> str:
    if isinstance(part, Grid):
        return part.as_text()
    return fill(one_line(part), _PROSE_WIDTH) if isinstance(part, str) else one_line(part.text)


def as_markdown(parts: Iterable[Part]) -> str:
    """Markdown; the highest heading has two `#`, because a page has its own title."""
    return "\n\n".join(_markdown(part) for part in parts) + "\n"


def _markdown(part: Part) -> str:
    if isinstance(part, Grid):
        return f"{f'**{escape_markdown(part.title)}**' if part.title else ''}\n\n{part.as_markdown()}".strip()
    if isinstance(part, Heading):
        return f"{'#' * (part.level + 1)} {escape_markdown(one_line(part.text))}"
    return escape_markdown(one_line(part if isinstance(part, str) else part.text))


def print_parts(parts: Iterable[Part], console: Console) -> None:
    """On a terminal in its width, elsewhere as plain text."""
    if not console.is_terminal:
        console.file.write(harmless(as_text(parts)))
        return
    before: Part | None = None
    for part in parts:
        if before is not None and not _are_close(before, part):
            console.print()
        before = part
        if isinstance(part, Grid):
            console.print(part.as_table())
        elif isinstance(part, Heading):
            console.print(one_line(part.text), style="bold underline" if part.level == 1 else "bold", soft_wrap=False)
        elif isinstance(part, Doubt):
            console.print(one_line(part.text), style="yellow", soft_wrap=False)
        else:
            console.print(one_line(part), soft_wrap=False)
