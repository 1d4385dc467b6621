"""Long lines on a terminal, whose edge would cut through words."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Console, ConsoleOptions, RenderResult
from rich.text import Text


class Folded:
    """A line that goes on below, indented, where a terminal has no room for it; elsewhere it stays a line, for grep.

    Not for sources, nor for commands to be copied: a terminal joins again only what it broke itself.
    """

    def __init__(self, text: Text | str, indent: int = 0) -> None:
        self.text = Text(text) if isinstance(text, str) else text
        self._indent = indent

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        if not console.is_terminal:
            yield self.text
            return
        indent = min(self._indent, options.max_width // 3)
        for line in self.text.split("\n", allow_blank=True):
            for number, (start, end) in enumerate(_fold(line.plain, options.max_width, indent)):
                yield Text(" " * indent if number else "") + line[start:end]


def _fold(line: str, width: int, indent: int) -> Iterator[tuple[int, int]]:
    """Where each part of the line starts and ends."""
    start, room = 0, width
    while len(line) - start > room:
        end = _find_end(line, start, start + room)
        yield start, end
        start = end + len(line[end:]) - len(line[end:].lstrip(" "))
        room = width - indent
    yield start, len(line)


def _find_end(line: str, start: int, limit: int) -> int:
    """Between two cells, else between two words, unless that wastes half the room; after a word that has none."""
    for gap in ("  ", " "):
        found = line.rfind(gap, start, limit + len(gap))
        end = start + len(line[start:found].rstrip(" "))
        if found >= 0 and end > (start + limit) // 2:
            return end
    after = line.find(" ", limit)
    return after if after >= 0 else len(line)
