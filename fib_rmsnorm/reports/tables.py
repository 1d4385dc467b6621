"""Tables without rules: a header, aligned columns, nothing that gets in the way of grep."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from typing import cast

from rich.console import Console, ConsoleOptions, RenderResult
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

_STYLES = {
    "SUSPECT": "yellow",
    "suspect": "yellow",
    "interpreted": "yellow",
    "faster": "green",
    "slower": "bold red",
    "now fails": "bold red",
}
_PROSE_SPACES = 3
"""A cell with as many may be folded; names, and numbers with their units, may not."""
_GAP = 2
_ANY_WIDTH = 10_000


class WordTable(Table):
    """Folds between the words of its prose. Where there is no room for that, its lines are as long as they are.

    The terminal breaks such a line at its edge, all of them in the same place; a table of parts of words nobody reads.
    To be printed without cropping.
    """

    least_width = 0

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        if self.least_width > options.max_width:
            options = options.update(width=_ANY_WIDTH)
        rendered = cast("Iterable[Segment]", super().__rich_console__(console, options))
        for line in Segment.split_lines(rendered):
            yield from _strip_end(line)
            yield Segment.line()


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
    cells = list(rows)
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
        self.columns = [self.columns[index] for index in kept]
        self.rows = [[row[index] for index in kept] for row in self.rows]

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
        return "\n".join(f"| {' | '.join(cells)} |" for cells in (names, rules, *self.rows))

    def as_html(self) -> str:
        """An HTML table in a box that scrolls where the screen is narrow."""
        classes = ["number" if column.startswith(">") else "" for column in self.columns]
        head = "".join(
            f'<th class="{kind}">{escape(column.removeprefix(">"))}</th>'
            for column, kind in zip(self.columns, classes, strict=True)
        )
        body = "".join(
            "<tr>"
            + "".join(f'<td class="{kind}">{escape(cell)}</td>' for cell, kind in zip(row, classes, strict=True))
            + "</tr>"
            for row in self.rows
        )
        title = f"<caption>{escape(self.title)}</caption>" if self.title else ""
        return f'<div class="wide"><table>{title}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'
