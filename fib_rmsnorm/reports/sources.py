"""Source code as people read it: highlighted on a terminal, as it is elsewhere."""

from __future__ import annotations

import re

from rich.console import Console
from rich.text import Text

# What a terminal would obey rather than show; sources and logs come from strangers.
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def source_text(path: str, content: str, console: Console) -> Text:
    """A source file, to be printed as it is: no line is cut, padded or numbered, so it can be copied."""
    content = content.rstrip("\n")
    if not console.is_terminal:
        return Text(content)
    content = harmless(content)
    if console.no_color or console.color_system is None:
        return Text(content)
    from rich.syntax import Syntax

    lexer = Syntax.guess_lexer(path, content)
    highlighted = Syntax(content, lexer, theme="ansi_dark", background_color="default").highlight(content)
    highlighted.rstrip()
    return highlighted


def harmless(text: str) -> str:
    """Text whose control characters are shown rather than obeyed; colours of compilers' logs are left out."""
    return _CONTROL.sub("\N{REPLACEMENT CHARACTER}", re.sub(r"\x1b\[[\d;]*m", "", text).replace("\r\n", "\n"))
