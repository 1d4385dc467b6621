"""Characters that a terminal obeys instead of showing them: names, logs and sources come from strangers."""

from __future__ import annotations

import re

_COLOR = re.compile(r"\x1b\[[\d;]*m")
# The controls of ASCII except tab and newline, those of ISO 8859, those that change the direction of text, and the line
# separators of Unicode. JSON escapes the first kind itself, and may escape the others.
_OBEYED = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")
_BREAK = re.compile(r"[\n\t]")


def harmless(text: str) -> str:
    r"""Text whose control characters are shown, as in `\u001b`; the colors of compiler logs are removed.

    JSON keeps its meaning: such an escape stands for the same character there.
    """
    if text.isascii() and text.isprintable():
        return text
    return _OBEYED.sub(_escape, _COLOR.sub("", text).replace("\r\n", "\n"))


def one_line(text: str) -> str:
    """Like `harmless`, with line breaks and tabs shown too: for a cell or a line, which must not become two."""
    return _BREAK.sub(_escape, harmless(text))


def _escape(match: re.Match[str]) -> str:
    return f"\\u{ord(match[0]):04x}"
