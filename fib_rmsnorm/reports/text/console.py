"""Consoles that are plain when piped, respect NO_COLOR and show control characters; lines that fold on a terminal."""

import sys
from collections.abc import Iterable
from functools import cache

from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.segment import Segment
from rich.text import Text

from fib_rmsnorm.reports.text.control_characters import harmless

# Rich wraps at 80 columns when it prints to a pipe; what reads a pipe wants whole lines, however long.
_PIPE_WIDTH = 1_000_000


class HarmlessConsole(Console):
    """Sends the control sequences of rich, and none that the text to print contains."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Render as rich does, with the control characters of all text shown."""
        for text, style, control in super().render(renderable, options):
            yield Segment(text if control else harmless(text), style, control)


@cache
def stdout() -> Console:
    """For results."""
    return _console(stderr=False)


@cache
def stderr() -> Console:
    """For progress and notes."""
    return _console(stderr=True)


def echo(text: str, *, end: str = "\n") -> None:
    """Write text to stdout as it is, however long its lines are, but for its control characters: for JSON and files."""
    file = stdout().file
    file.write(harmless(text) + end)
    file.flush()


def _console(*, stderr: bool) -> Console:
    stream = sys.stderr if stderr else sys.stdout
    return HarmlessConsole(
        stderr=stderr,
        highlight=False,
        markup=False,
        emoji=False,  # it would turn `:heart:` of a log into a picture
        soft_wrap=True,
        width=None if stream.isatty() else _PIPE_WIDTH,
    )


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
            if line.cell_len <= options.max_width:
                yield line
                continue
            folded = line.wrap(console, options.max_width - indent)
            for number, part in enumerate(folded):
                yield Text(" " * indent if number else "") + part
