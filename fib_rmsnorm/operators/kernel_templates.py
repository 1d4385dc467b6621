"""The text of a kernel to start from: a template for a language, filled in for an operator and broken into lines.

`templates/{family}_{language}.jinja` is the kernel of a family of operators. An operator says what it computes beyond
that: its epilogue, which is written by `templates/words_{language}.jinja`.
"""

from __future__ import annotations

import textwrap
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jinja2 import Environment, Template

_TEMPLATES = Path(__file__).parent / "templates"
_WIDTH = 120


def fill_in(family: str, language: str, **values: Any) -> str | None:
    """The kernel of a family in a language; None if there is no template of it.

    Templates have two filters of their own: `["x", "out"] | each("float {}")` is `float x, float out`, and
    `["x", "gate", "out"] | words` is `x, gate and out`. Lines that become too long are broken as formatters would.
    """
    template = _find_template(f"{family}_{language}")
    if template is None:
        return None
    text = template.render(**values)
    is_python = text.startswith('"""')
    return "".join(f"{_break(line, is_python=is_python)}\n" for line in text.splitlines())


@cache
def find_words(language: str) -> Any:
    """The macros of `templates/words_{language}.jinja`: how a language writes an element; None without that file."""
    template = _find_template("words_cpp" if language == "cuda" else f"words_{language}")
    return template and template.module


def _find_template(name: str) -> Template | None:
    file = f"{name}.jinja"
    return _environment().get_template(file) if (_TEMPLATES / file).exists() else None


@cache
def _environment() -> Environment:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        autoescape=False,  # what is written is not HTML
        loader=FileSystemLoader(_TEMPLATES),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters["each"] = lambda parts, form: ", ".join(form.format(part) for part in parts)
    environment.filters["words"] = lambda parts: " and ".join(filter(None, [", ".join(parts[:-1]), parts[-1]]))
    return environment


def _break(line: str, *, is_python: bool) -> str:
    """Break a line that is too long: a comment, a docstring, or code at its last call."""
    indent = " " * (len(line) - len(line.lstrip()))
    if len(line) <= _WIDTH or line.startswith("// "):
        return textwrap.fill(line, _WIDTH, subsequent_indent="// ") if len(line) > _WIDTH else line
    if line.startswith('"""'):
        return line.replace(". ", ".\n\n", 1).removesuffix('"""') + '\n"""'
    if line.lstrip().startswith("if (") and ") return " in line:
        return line.replace(") return ", f")\n{indent}  return ", 1)
    start = end = line.rindex(")")  # of the arguments of the last call, at its brackets
    while line[start - 1 : end].count("(") <= line[start:end].count(")"):
        start -= 1
    if not is_python and ", " not in line:  # an expression
        start = line.index(" = ") + 3
        fits = len(line) - start + len(indent) + 4 <= _WIDTH
        return line.replace(" = ", f" =\n{indent}    ", 1) if fits else line.replace(" + ", f" +\n{' ' * start}", 1)
    if not is_python:  # as many arguments in a line as fit, one below the other
        glued = ", ".join(part.replace(" ", "\0") for part in line.split(", "))
        return textwrap.fill(glued, _WIDTH, subsequent_indent=" " * start).replace("\0", " ")
    arguments = line[start:end]
    inner = f"{indent}    {arguments}"
    if len(inner) > _WIDTH:
        inner = "\n".join(f"{indent}    {argument}," for argument in arguments.split(", "))
    return f"{line[:start]}\n{inner}\n{indent}{line[end:]}"
