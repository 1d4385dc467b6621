"""Long lines on a terminal, whose edge would cut through words."""

from __future__ import annotations

from rich.console import Console, ConsoleOptions, RenderResult
from rich.text import Text


class Folded:
    """A line that goes on below, indented, where a terminal has no room for it; elsewhere it stays a line, for grep.

    `piped` is what is shown elsewhere, where it differs.

    Not for sources, nor for commands to be copied: a terminal joins again only what it broke itself.
    """

    def __init__(self, text: Text | str, indent: int = 0, *, piped: Text | None = None) -> None:
        self.text = Text(text) if isinstance(text, str) else text
        self._piped = piped or self.text
        self._indent = indent

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        if not console.is_terminal:
            yield self._piped
            return
        indent = min(self._indent, options.max_width // 3)
        for line in self.text.split("\n", allow_blank=True):
            if line.cell_len <= options.max_width:
                yield line
                continue
            folded = line.wrap(console, options.max_width - indent)
            for number, part in enumerate(folded):
                yield Text(" " * indent if number else "") + part
