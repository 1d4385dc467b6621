"""Report phrases in the package's strings and comments that read as translated; part of `make check`.

The list is short on purpose: each phrase was used in many places, and none of them has a good use.
"""

from __future__ import annotations

import ast
import re
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path

PACKAGE = Path(__file__).resolve().parent.parent / "fib_rmsnorm"
PHRASES = {
    # "There is no registry" is English; "this is no registry" is not.
    r"(?<!\bthere )\b(?:is|are) no (?!longer\b|more than\b|different\b)\w+": 'write "is not a ..."',
    r"(?:^|\d) \w+s more\b(?! than)": 'write "3 more kernels", not "3 kernels more"',
    r"\bno end after\b": 'write "timed out after 120 s"',
    r"\band so no\b": "give the reason first: an error names what is wrong, where, and what to do",
    r"\b(?:do not|does not|never) compare\b(?! \w)": 'write "cannot be compared"',
    r"\(there: ": 'write "(available: ...)"',
}
# An attribute's docstring such as "Of a multiprocessor." needs the line above it.
FRAGMENT = re.compile(r"Of\b")


def find_phrases(path: Path) -> Iterator[tuple[int, str, str]]:
    """Yield the line, the phrase and the advice for each phrase in a file."""
    source = path.read_text(encoding="utf-8")
    for line, text in (*_comments(path), *_strings(source)):
        for phrase, advice in PHRASES.items():
            for found in re.finditer(phrase, text, re.IGNORECASE):
                yield line + text.count("\n", 0, found.start()), found[0].strip(), advice
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Expr(value=ast.Constant(value=str(text))) if FRAGMENT.match(text):
                yield node.lineno, text.partition("\n")[0], "start with the noun: a docstring stands alone"


def _comments(path: Path) -> Iterator[tuple[int, str]]:
    with path.open("rb") as file:
        for token in tokenize.tokenize(file.readline):
            if token.type == tokenize.COMMENT:
                yield token.start[0], token.string


def _strings(source: str) -> Iterator[tuple[int, str]]:
    """Yield docstrings, literals and the fixed parts of f-strings."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.lineno, node.value


def main() -> int:
    """Print a line for each phrase; return 1 if there is one."""
    found = False
    for path in sorted(PACKAGE.rglob("*.py")):
        for line, phrase, advice in sorted(set(find_phrases(path))):
            print(f"{path.relative_to(PACKAGE.parent)}:{line}: {phrase!r}: {advice}")
            found = True
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
