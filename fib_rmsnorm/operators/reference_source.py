"""Read the source of a reference without running it."""

from __future__ import annotations

import ast
import threading

# CPython before 3.11.8 raises SystemError when two threads parse at once.
_parsing = threading.Lock()

_HUGE = 1e30  # integers can be too large for a float


def is_same_code(source: str, other: str) -> bool:
    """Whether two sources are the same code, apart from comments, docstrings and names of arguments and variables."""
    try:
        return _dump_without_names(source) == _dump_without_names(other)
    except RecursionError:  # somebody else's source can be nested deeply; no operator's own is
        return False


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


def _dump_without_names(source: str) -> str:
    """The tree as text, where each argument and variable has the number of its first place for a name."""
    tree = _parse(source)
    named = [node for node in ast.walk(tree) if isinstance(node, (ast.arg, ast.Name))]
    set_here = [each for each in named if isinstance(each, ast.arg) or isinstance(each.ctx, ast.Store)]
    own = {each.arg if isinstance(each, ast.arg) else each.id for each in set_here}
    numbers: dict[str, str] = {}
    for node in named:
        field = "arg" if isinstance(node, ast.arg) else "id"
        name = getattr(node, field)
        if name in own:
            setattr(node, field, numbers.setdefault(name, str(len(numbers))))
    return ast.dump(tree)
