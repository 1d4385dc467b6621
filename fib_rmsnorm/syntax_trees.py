"""Parse Python, one thread at a time: before 3.11.8, CPython raises SystemError when two threads do so at once."""

import ast
import threading
from pathlib import Path

from fib_rmsnorm.errors import InputError

one_at_a_time = threading.Lock()
"""Held by whoever parses, or calls what does."""


def parse(source: str) -> ast.Module:
    """The tree of a module. Raises what `ast.parse` raises."""
    with one_at_a_time:
        return ast.parse(source)


def parse_file(path: Path, text: str) -> ast.Module:
    """The tree of what a file holds. Raises InputError with the line of a syntax error."""
    try:
        return parse(text)
    except SyntaxError as error:
        raise InputError(f"{path}:{error.lineno}: {error.msg}") from None
    except (RecursionError, MemoryError):  # Python versions differ in which one they raise
        raise InputError(f"{path}: too deeply nested for Python") from None


def parse_expression(source: str) -> ast.Expression:
    """The tree of an expression. Raises what `ast.parse` raises."""
    with one_at_a_time:
        return ast.parse(source, mode="eval")
