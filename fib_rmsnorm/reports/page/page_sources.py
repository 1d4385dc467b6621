"""The kernels' sources, highlighted."""

from __future__ import annotations

from dataclasses import dataclass

from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import TextLexer, get_lexer_for_filename
from pygments.util import ClassNotFound

from fib_rmsnorm.analysis.solution_sources import SolutionFacts, SourceText
from fib_rmsnorm.languages import title_of

_LIGHT, _DARK = "default", "github-dark"
_ALIASES = {".cuh": ".cu", ".h": ".cpp", ".inc": ".cpp"}


@dataclass(frozen=True)
class HighlightedFile:
    """A source file as HTML."""

    path: str
    highlighted: str


@dataclass(frozen=True)
class ShownSolution:
    """What the page says of a Solution."""

    name: str
    language: str
    author: str
    description: str
    files: list[HighlightedFile]


def highlighting_css() -> str:
    """The colours of code, for light and for dark."""
    light = HtmlFormatter(style=_LIGHT).get_style_defs(".code")
    dark = HtmlFormatter(style=_DARK).get_style_defs(".code")
    return f"\n{light}\n@media (prefers-color-scheme: dark) {{\n{dark}\n}}\n"


def show_solution(solution: SolutionFacts) -> ShownSolution:
    """The Solution with its files highlighted."""
    return ShownSolution(
        name=solution.name,
        language=title_of(solution.language),
        author=solution.author,
        description=solution.description or "",
        files=[HighlightedFile(source.path, _highlight(source)) for source in solution.sources],
    )


def _highlight(source: SourceText) -> str:
    stem, dot, suffix = source.path.rpartition(".")
    name = stem + _ALIASES.get(f".{suffix}", f".{suffix}") if dot else source.path
    try:
        lexer = get_lexer_for_filename(name)
    except ClassNotFound:
        lexer = TextLexer()
    return str(highlight(source.content, lexer, HtmlFormatter(nowrap=True)))
