"""Source code as people read it: highlighted on a terminal, as it is elsewhere."""

from __future__ import annotations

from rich.console import Console
from rich.style import Style
from rich.text import Text

from fib_rmsnorm.reports.text.control_characters import harmless


def source_text(path: str, content: str, console: Console) -> Text:
    """A source file, to be printed as it is: no line is cut, padded or numbered, so it can be copied."""
    content = content.rstrip("\n")
    if not console.is_terminal:
        return Text(content)
    content = harmless(content)
    if console.no_color or console.color_system is None:
        return Text(content)
    from rich.syntax import ANSISyntaxTheme, Syntax

    lexer = Syntax.guess_lexer(path, content)
    highlighted = Syntax(content, lexer, theme=ANSISyntaxTheme(_make_styles()), background_color="default").highlight(
        content
    )
    highlighted.rstrip()
    return highlighted


def _make_styles() -> dict[tuple[str, ...], Style]:
    """Colours that a terminal's own palette makes readable on light and on dark: none is bright, and none is blue."""
    from pygments.token import Comment, Keyword, Name, Number, Operator, String

    return {
        Comment: Style(dim=True),
        Comment.Preproc: Style(color="magenta"),
        Keyword: Style(color="magenta"),
        Keyword.Type: Style(color="cyan"),
        Operator.Word: Style(color="magenta"),
        Name.Builtin: Style(color="cyan"),
        Name.Class: Style(bold=True),
        Name.Decorator: Style(color="cyan"),
        Name.Function: Style(bold=True),
        Number: Style(color="cyan"),
        String: Style(color="green"),
    }
