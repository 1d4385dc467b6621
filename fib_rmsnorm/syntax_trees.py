"""Parse Python, one thread at a time: before 3.11.8, CPython raises SystemError when two threads do so at once."""

import ast
import threading

one_at_a_time = threading.Lock()
"""Held by whoever parses, or calls what does."""


def parse(source: str) -> ast.Module:
    """The tree of a module. Raises what `ast.parse` raises."""
    with one_at_a_time:
        return ast.parse(source)


def parse_expression(source: str) -> ast.Expression:
    """The tree of an expression. Raises what `ast.parse` raises."""
    with one_at_a_time:
        return ast.parse(source, mode="eval")
