"""Read the source of a reference without running it."""

from __future__ import annotations

import ast
import threading
from collections.abc import Iterable, Iterator
from itertools import zip_longest

# CPython before 3.11.8 raises SystemError when two threads parse at once.
_parsing = threading.Lock()

_HUGE = 1e30  # integers can be too large for a float


def is_same_code(source: str, other: str) -> bool:
    """Whether two sources are the same code, apart from comments, docstrings and names of arguments and variables."""
    trees = [_parse(each) for each in (source, other)]
    own = [{*_list_own_names(tree)} for tree in trees]
    renamed: dict[str, str] = {}
    # Without recursion: somebody else's source can be nested deeply.
    for a, b in zip_longest(*map(ast.walk, trees)):
        if type(a) is not type(b) or _shape_of(a) != _shape_of(b):
            return False
        for name, other_name in zip(_names_in(a), _names_in(b), strict=True):
            if name in own[0] and other_name in own[1]:
                if renamed.setdefault(name, other_name) != other_name:
                    return False
            elif name != other_name or name in own[0] or other_name in own[1]:
                return False
    return len(set(renamed.values())) == len(renamed)


def list_literals(source: str) -> list[float]:
    """The numbers in a source, each once, in order."""
    values = (node.value for node in ast.walk(_parse(source)) if isinstance(node, ast.Constant))
    numbers = (value for value in values if isinstance(value, (int, float)) and not isinstance(value, bool))
    return list(dict.fromkeys(float(number) for number in numbers if abs(number) < _HUGE))


def _parse(source: str) -> ast.Module:
    with _parsing:
        tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, (ast.Module, ast.FunctionDef)) and ast.get_docstring(node, clean=False) is not None:
            del node.body[0]
    return tree


def _list_own_names(tree: ast.Module) -> Iterator[str]:
    """Names of arguments and variables."""
    for node in ast.walk(tree):
        if isinstance(node, ast.arg):
            yield node.arg
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id


def _names_in(node: ast.AST) -> Iterable[str]:
    return [node.id] if isinstance(node, ast.Name) else [node.arg] if isinstance(node, ast.arg) else []


def _shape_of(node: ast.AST) -> list[object]:
    """Everything in a node but its children and the names that `_names_in` lists: its other values by their reprs."""
    found: list[object] = []
    for name, value in ast.iter_fields(node):
        if isinstance(value, ast.AST):
            found.append((name, "node"))
        elif isinstance(value, list):
            found.append((name, [None if isinstance(item, ast.AST) else repr(item) for item in value]))
        elif not (isinstance(node, (ast.Name, ast.arg)) and name in ("id", "arg")):
            found.append((name, repr(value)))
    return found
