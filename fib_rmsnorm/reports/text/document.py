"""A text of headings, paragraphs and tables, as plain text, as Markdown or on a terminal.

A table has no rules: a header, aligned columns, nothing that gets in the way of grep.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from textwrap import fill
from typing import TypeAlias, cast

from rich.console import Console, ConsoleOptions, RenderResult
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from fib_rmsnorm.reports.text.control_characters import one_line

# Prose is read, so it is folded; rows of tables and warnings are also searched, so they are not.
_PROSE_WIDTH = 110
_STYLES = {
    "noisy": "yellow",
    "correct": "green",
    "faster": "green",
    "slower": "bold red",
    "now fails": "bold red",
}
_PROSE_SPACES = 3
"""A cell with as many may be folded; names, and numbers with their units, may not."""
_GAP = 2
_MARKDOWN = re.compile(r"[\\`|\[\]]")
_ANY_WIDTH = 10_000
_INDENT = " " * 4


class WordTable(Table):
    """Folds between the words of its prose. Where there is no room for that, its rows go on in a line below.

    All of them do so before the same column: the terminal's edge would cut through numbers and names. A line below
    that is too long is folded between words. To be printed without cropping.
    """

    least_width = 0
    widths: Sequence[int] = ()
    """The widths of the columns, unfolded."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        cuts: list[int] = []
        room = options.max_width - len(_INDENT)
        if self.least_width > options.max_width:
            cuts = self._find_cuts(options.max_width)
            options = options.update(width=_ANY_WIDTH)
        rendered = cast("Iterable[Segment]", super().__rich_console__(console, options))
        for number, line in enumerate(Segment.split_lines(rendered)):
            is_title = number == 0 and self.title is not None
            first, *others = map(_strip_end, [line] if is_title else Segment.divide(line, [*cuts, _ANY_WIDTH]))
            yield from first
            yield Segment.line()
            for below in filter(None, others):
                for part in _fold_line(console, below, room):
                    yield Segment(_INDENT)
                    yield from part
                    yield Segment.line()

    def _find_cuts(self, width: int) -> list[int]:
        """Where the columns begin that have no room beside those before them."""
        cuts: list[int] = []
        start, end = 0, width
        for index, column in enumerate(self.widths):
            is_last_below = bool(cuts) and index == len(self.widths) - 1  # a line below is folded between its words
            if start + column > end and start and not is_last_below:
                cuts.append(start)
                end = start + width - len(_INDENT)
            start += column + _GAP
        return cuts


def _fold_line(console: Console, line: list[Segment], width: int) -> Iterator[Iterable[Segment]]:
    """The line in parts of at most `width`, divided between its words."""
    text = Text.assemble(*((segment.text, segment.style or "") for segment in line), end="")
    for part in text.wrap(console, width):
        part.rstrip()
        yield part.render(console)


def _strip_end(line: list[Segment]) -> list[Segment]:
    """The line without the spaces that fill its last cells: in a file they are noise, and differ with the widths."""
    kept = list(line)
    while kept and not kept[-1].text.rstrip():
        kept.pop()
    if kept:
        last = kept.pop()
        kept.append(Segment(last.text.rstrip(), last.style, last.control))
    return kept


def plain_table(columns: Sequence[str], rows: Iterable[Sequence[str]], *, title: str | None = None) -> WordTable:
    """A table of `rows`; a column whose name begins with `>` is aligned to the right. Verdicts have their colours."""
    table = WordTable(
        title=title, title_justify="left", title_style="bold", box=None, header_style="dim", pad_edge=False
    )
    columns = [one_line(column) for column in columns]
    cells = [[one_line(cell) for cell in row] for row in rows]
    table.widths = [max(map(len, texts)) for texts in zip((c.removeprefix(">") for c in columns), *cells, strict=True)]
    for index, column in enumerate(columns):
        is_right = column.startswith(">")
        name = column.removeprefix(">")
        texts = [name, *(row[index] for row in cells)]
        is_prose = not is_right and any(text.count(" ") >= _PROSE_SPACES for text in texts)
        words = [word for text in texts for word in (text.split() if is_prose else [text])]
        least = max(map(len, words), default=0)
        table.least_width += least + (_GAP if index else 0)
        table.add_column(
            name, justify="right" if is_right else "left", overflow="fold", no_wrap=not is_prose, min_width=least
        )
    for row in cells:
        table.add_row(*(Text(cell, _STYLES[cell]) if cell in _STYLES else cell for cell in row))
    return table


@dataclass
class Grid:
    """A table of text that can be written in several formats. Columns without any content are left out."""

    columns: Sequence[str]
    """Their names; `>` before one aligns it to the right."""
    rows: Sequence[Sequence[str]]
    title: str = ""

    def __post_init__(self) -> None:
        kept = [index for index in range(len(self.columns)) if any(row[index] for row in self.rows)]
        self.columns = [one_line(self.columns[index]) for index in kept]
        self.rows = [[one_line(row[index]) for index in kept] for row in self.rows]
        self.title = one_line(self.title)

    def as_table(self) -> WordTable:
        """For a terminal, whose width it respects."""
        return plain_table(self.columns, self.rows, title=self.title or None)

    def as_text(self) -> str:
        """For a pipe, in lines as long as they are: made for a hundred thousand rows."""
        names = [column.removeprefix(">") for column in self.columns]
        widths = [max(map(len, cells)) for cells in zip(names, *self.rows, strict=True)]
        aligned = "  ".join(
            f"{{:{'>' if column.startswith('>') else '<'}{width}}}"
            for column, width in zip(self.columns, widths, strict=True)
        )
        lines = [aligned.format(*row).rstrip() for row in (names, *self.rows)]
        return "\n".join([*filter(None, [self.title]), *lines])

    def as_markdown(self) -> str:
        """A Markdown table."""
        names = [column.removeprefix(">") for column in self.columns]
        rules = ["---:" if column.startswith(">") else "---" for column in self.columns]
        rows = [map(escape_markdown, row) for row in (names, *self.rows)]
        return "\n".join(f"| {' | '.join(cells)} |" for cells in (rows[0], rules, *rows[1:]))


def escape_markdown(text: str) -> str:
    """Text that Markdown shows as it is: no HTML, no link or picture, and no further column."""
    return _MARKDOWN.sub(r"\\\g<0>", text).replace("<", "&lt;")


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
    """On a terminal, in its width."""
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
