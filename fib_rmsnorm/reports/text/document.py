"""A text of headings, paragraphs and tables, as plain text or on a terminal.

A table has no rules: a header, aligned columns, nothing that gets in the way of grep. A pipe gets all of it. On a
terminal a row is one line: columns that have no room are left out, and names are cut.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby, zip_longest
from operator import itemgetter
from textwrap import fill, wrap
from typing import TypeAlias

from rich.console import Console, ConsoleOptions, RenderResult
from rich.segment import Segment
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
    "failed": "red",
}
_SPARE = (
    *("why", "tied with", "runs", "interval", "timer", "author", "op_type", "hidden", "dtype"),
    *("peer latency", "fastest peer", "bytes moved", "barriers", "loops", "blocks/SM", "global stores"),
    *("load requests/row", "limited by", "memory", "host", "of peak", "dependent", "bandwidth", "language", "scalars"),
    *("workloads", "definition", "hardware"),
    *("evaluated", "newest", "vs torch", "vs baseline", "in a graph", "shared bytes", "sources", "apart", "old"),
)
"""The columns that a narrow terminal leaves out, the least important first; the first column of a table stays."""
_NAME_WIDTH = 32
"""Longer names are cut before a column is left out."""
LEAST_WIDTH = 14
"""Names are not cut further."""
_PROSE_SPACES = 5
"""A column with a cell of as many is folded between words; names, and numbers with their units, are cut."""
_GAP = 2


@dataclass
class Grid:
    """A table of text that can be printed, or written in several formats. Columns without any content are left out."""

    columns: Sequence[str]
    """Their names; `>` before one aligns it to the right."""
    rows: Iterable[Sequence[str]]
    title: str = ""
    is_grouped: bool = False
    """Whether a terminal without room for a row gets a table for each value of the first column."""

    def __post_init__(self) -> None:
        cells = list(zip(*self.rows, strict=True))
        kept = [index for index, column in enumerate(cells) if any(column)]
        self.columns = [one_line(self.columns[index]) for index in kept]
        names = (column.removeprefix(">") for column in self.columns)
        self._cells = [[name, *map(one_line, cells[index])] for name, index in zip(names, kept, strict=True)]
        self.rows = list(zip(*(column[1:] for column in self._cells), strict=True))
        self.title = one_line(self.title)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        if self.title:
            yield Text(self.title, "bold")
        if self.is_grouped and _sum(self._widths()) > options.max_width:
            for number, (name, rows) in enumerate(groupby(self.rows, itemgetter(0))):
                yield from [Text()] * bool(number)
                yield Grid(self.columns[1:], [row[1:] for row in rows], title=name)
            return
        for number, widths in enumerate(self._fit(options.max_width)):
            if number:
                yield Text()
            for is_row, line in enumerate(self._lines(widths)):
                styles = [_STYLES.get(cell.strip(), "") for cell in line]
                if is_row and not any(styles):
                    yield Segment((" " * _GAP).join(line).rstrip())
                    yield Segment.line()
                    continue
                text = Text(" " * _GAP).join(map(Text, line, styles))
                text.rstrip()
                if not is_row:
                    text.stylize("dim")
                yield text

    def _widths(self) -> dict[int, int]:
        """The width of each column, by its number."""
        return {number: max(map(len, cells)) for number, cells in enumerate(self._cells)}

    def _is_prose(self, number: int) -> bool:
        return any(cell.count(" ") >= _PROSE_SPACES for cell in self._cells[number])

    def _fit(self, room: int) -> list[dict[int, int]]:
        """The widths of columns that fit side by side; those that never do go on in a further table."""
        widths = self._widths()
        if _sum(widths) <= room:
            return [widths]
        names = [number for number in widths if not self.columns[number].startswith(">")]
        for number in [n for name in _SPARE for n in widths if n and self._cells[n][0] == name]:
            cut = {
                each: min(width, _NAME_WIDTH) if each in names and not self._is_prose(each) else width
                for each, width in widths.items()
            }
            if _sum(cut) > room:
                del widths[number]
        while _sum(widths) > room:
            widest = max((number for number in widths if number in names), key=widths.__getitem__, default=0)
            if widths[widest] <= LEAST_WIDTH:
                break
            widths[widest] -= 1
        tables: list[dict[int, int]] = [{}]
        for number, width in widths.items():
            if len(tables[-1]) > 1 and _sum(tables[-1]) + _GAP + width > room:
                tables.append({0: widths[0]})
            tables[-1][number] = width
        return tables

    def _lines(self, widths: Mapping[int, int]) -> Iterator[Sequence[str]]:
        """The header and the rows, with the cells of a line padded to the same width; a row of prose has several."""
        columns = []
        for number, width in widths.items():
            is_prose = self._is_prose(number)
            folded = [
                wrap(cell, width) if is_prose and len(cell) > width else [cut_name(cell, width)]
                for cell in self._cells[number]
            ]
            widest = max(len(part) for parts in folded for part in parts)
            pad = str.rjust if self.columns[number].startswith(">") else str.ljust
            columns.append([[pad(part, widest) for part in parts] for parts in folded])
        blanks = [" " * len(column[0][0]) for column in columns]
        for row in zip(*columns, strict=True):
            for parts in zip_longest(*row):
                yield [blank if part is None else part for part, blank in zip(parts, blanks, strict=True)]


def _sum(widths: Mapping[int, int]) -> int:
    return sum(widths.values()) + _GAP * (len(widths) - 1)


def cut_name(text: str, width: int) -> str:
    """The end of a name, which tells it from others, from the beginning of a word: `…cuda_vec16_v1`."""
    if len(text) <= width:
        return text
    end = text[1 - width :]
    word = re.search(r"[_ ](?=.)", end)
    return f"…{end[word.end() :] if word else end}"


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


def print_parts(parts: Iterable[Part], console: Console) -> None:
    """Print on a terminal in its width, elsewhere prose in lines of 110 columns and the rest as long as it is."""
    before: Part | None = None
    for part in parts:
        # Warnings are often many, and each a line.
        if before is not None and not (isinstance(before, Doubt) and isinstance(part, Doubt)):
            console.print()
        before = part
        if isinstance(part, Grid):
            console.print(part)
        elif isinstance(part, Heading):
            console.print(one_line(part.text), style="bold underline" if part.level == 1 else "bold", soft_wrap=False)
        elif isinstance(part, Doubt):
            console.print(one_line(part.text), style="yellow", soft_wrap=False)
        else:
            text = one_line(part)
            console.print(text if console.is_terminal else fill(text, _PROSE_WIDTH), soft_wrap=False)
