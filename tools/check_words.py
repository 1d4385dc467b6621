"""Report phrases that read as translated, in the package, the pages and the tests' names; part of `make check`.

The lists are short on purpose: each phrase was used in several places, and none of them has a good use.
"""

from __future__ import annotations

import ast
import re
import sys
import tokenize
from collections.abc import Iterator, Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PHRASES = {
    # "There is no registry" is English; "this is no registry" is not.
    r"(?<!\bthere )\b(?:is|are) no (?!longer\b|more than\b|different\b)\w+": 'write "is not a ..."',
    r"(?:^|\d) (?!us\b)\w+s more\b(?! than)": 'write "3 more kernels", not "3 kernels more"',
    r"\bno end after\b": 'write "timed out after 120 s"',
    r"\band so no\b": "give the reason first: an error names what is wrong, where, and what to do",
    r"\b(?:do not|does not|never) compare\b(?! \w)": 'write "cannot be compared"',
    r"\(there: ": 'write "(available: ...)"',
}
# In pages, and in the names of tests.
MORE_PHRASES = {
    r"\b(?:is|are|be|was|were) (?:told|said)\b(?! apart\b)": 'write "is reported", or let the tool print it',
    r"\bright (?:kernel|answer|output|result|verdict)s?\b": 'write "correct"',
    r"\bwithout number\b": 'write "unlimited" or "too many"',
    r"\bbeneath\b": 'write "under"',
    # A sentence, not a question: "What was refused is seen from outside."
    r"(?:^(?:- |\| )?|(?<=[.:;] ))\*{0,2}(?-i:What|Who|That of|Those of) (?:[^.?!|\n]|\n(?!\n))*\.(?=\W|$)": (
        "begin with the noun: it names the subject"
    ),
}
# An attribute's docstring such as "Of a multiprocessor." needs the line above it, and "What it costs" a subject.
FRAGMENT = re.compile(r"(?:Of|What|Who|Whom|Those|That|Which|Where)\b")
CODE = re.compile(r"^ *```.*?^ *```|`[^`\n]*`", re.MULTILINE | re.DOTALL)
TEST = re.compile(r"^ *def (test_\w+)", re.MULTILINE)

Finding = tuple[int, str, str]


def find_in_module(path: Path) -> Iterator[Finding]:
    """Yield the line, the phrase and the advice for each phrase in a module's strings and comments."""
    source = path.read_text(encoding="utf-8")
    for line, text in (*_comments(path), *_strings(source)):
        yield from _search(text, line, PHRASES)
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Expr(value=ast.Constant(value=str(text))) if FRAGMENT.match(text):
                yield node.lineno, text.partition("\n")[0], "start with the noun: a docstring stands alone"


def find_in_page(path: Path) -> Iterator[Finding]:
    """Yield the same for a page, without its code and what commands print."""
    text = CODE.sub(lambda code: "`" + "\n" * code[0].count("\n"), path.read_text(encoding="utf-8"))
    return _search(text, 1, PHRASES | MORE_PHRASES)


def find_in_names(path: Path) -> Iterator[Finding]:
    """Yield the same for the names of a module's tests."""
    source = path.read_text(encoding="utf-8")
    for name in TEST.finditer(source):
        yield from _search(name[1].replace("_", " "), 1 + source.count("\n", 0, name.start(1)), PHRASES | MORE_PHRASES)


def _search(text: str, line: int, phrases: Mapping[str, str]) -> Iterator[Finding]:
    for phrase, advice in phrases.items():
        for found in re.finditer(phrase, text, re.IGNORECASE | re.MULTILINE):
            yield line + text.count("\n", 0, found.start()), found[0].strip().partition("\n")[0], advice


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
    pages = (
        *ROOT.glob("*.md"),
        *(page for name in ("docs", "changes", "experiments") for page in (ROOT / name).rglob("*.md")),
    )
    found = False
    for find, paths in (
        (find_in_module, (ROOT / "fib_rmsnorm").rglob("*.py")),
        (find_in_page, pages),
        (find_in_names, (ROOT / "tests").rglob("test_*.py")),
    ):
        for path in sorted(paths):
            for line, phrase, advice in sorted(set(find(path))):
                print(f"{path.relative_to(ROOT)}:{line}: {phrase!r}: {advice}")
                found = True
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
