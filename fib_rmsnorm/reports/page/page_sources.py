"""The kernels' sources, highlighted."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import TextLexer, get_lexer_for_filename
from pygments.util import ClassNotFound

from fib_rmsnorm.analysis.solution_sources import SolutionFacts, SourceText
from fib_rmsnorm.reports.text.languages import LANGUAGE_TITLES

_LIGHT, _DARK = "default", "github-dark"
_ALIASES = {".cuh": ".cu", ".h": ".cpp"}


def highlighting_css() -> str:
    """The colours of code, for light and for dark."""
    light = HtmlFormatter(style=_LIGHT).get_style_defs(".code")
    dark = HtmlFormatter(style=_DARK).get_style_defs(".code")
    return f"\n{light}\n@media (prefers-color-scheme: dark) {{\n{dark}\n}}\n"


def sources_html(solutions: Sequence[SolutionFacts]) -> str:
    """A folded part for each Solution."""
    if not solutions:
        return ""
    parts = [
        f"<details><summary><strong>{escape(each.name)}</strong>"
        f" {escape(LANGUAGE_TITLES.get(each.language, each.language))}, by {escape(each.author)}</summary>"
        f"<p>{escape(each.description or '')}</p>{''.join(map(_source_html, each.sources))}</details>"
        for each in solutions
    ]
    return f'<section id="sources"><h2>Sources</h2>{"".join(parts)}</section>'


def _source_html(source: SourceText) -> str:
    stem, dot, suffix = source.path.rpartition(".")
    name = stem + _ALIASES.get(f".{suffix}", f".{suffix}") if dot else source.path
    try:
        lexer = get_lexer_for_filename(name)
    except ClassNotFound:
        lexer = TextLexer()
    code = highlight(source.content, lexer, HtmlFormatter(nowrap=True))
    return f'<h4>{escape(source.path)}</h4><pre class="code wide"><code>{code}</code></pre>'
