"""Characters that a terminal obeys instead of showing them: names, logs and sources come from strangers."""

import re

_COLOR = re.compile(r"\x1b\[[\d;]*m")
# The controls of ASCII except tab and newline, those of ISO 8859, those that change the direction of text, and the line
# separators of Unicode. JSON escapes the first kind itself, and may escape the others. The second line is of characters
# that nobody sees: with one, a name looks like another's.
_OBEYED = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069"
    r"\xad\u034f\u115f\u1160\u17b4\u17b5\u180e\u200b-\u200d\u2060-\u2065\u206a-\u206f\u3164\ufeff\uffa0\ufff0-\ufffb"
    r"\U000e0000-\U000e007f]"
)
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


def marked(log: str) -> str:
    """A log with `| ` before each line, so that no line that a kernel printed looks like one of ours."""
    return "\n".join(f"| {line}" for line in harmless(log).strip("\n").split("\n"))


def _escape(match: re.Match[str]) -> str:
    halves = match[0].encode("utf-16-be")  # as JSON escapes what needs two
    return "".join(f"\\u{int.from_bytes(halves[at : at + 2], 'big'):04x}" for at in range(0, len(halves), 2))
