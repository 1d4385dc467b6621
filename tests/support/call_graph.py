"""What each command's code may reach, read from the sources: which functions and constants name which others."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache

from support.paths import REPOSITORY

PACKAGE = "fib_rmsnorm"
Symbol = tuple[str, str]
"""A module, and the name of a function, class or constant at its top level."""


@cache
def modules() -> dict[str, ast.Module]:
    """The sources of the package by module."""
    found = {}
    for path in sorted((REPOSITORY / PACKAGE).rglob("*.py")):
        parts = path.relative_to(REPOSITORY).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = ast.parse(path.read_text())
    return found


@cache
def _definitions(module: str) -> dict[str, ast.stmt]:
    """The statements of a module by the names that they define."""
    found: dict[str, ast.stmt] = {}
    for node in modules()[module].body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found[node.name] = node
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            found.update((target.id, node) for target in targets if isinstance(target, ast.Name))
    return found


def _imports(node: ast.AST) -> Iterator[tuple[str, str, str]]:
    """(local name, module, name there) of each import below `node`."""
    for each in ast.walk(node):
        if isinstance(each, ast.ImportFrom) and each.module and each.module.startswith(PACKAGE):
            yield from ((alias.asname or alias.name, each.module, alias.name) for alias in each.names)


@cache
def _module_imports(module: str) -> dict[str, tuple[str, str]]:
    tops = (node for node in modules()[module].body if not isinstance(node, ast.FunctionDef | ast.ClassDef))
    return {local: (there, name) for top in tops for local, there, name in _imports(top)}


def _resolve(module: str, name: str) -> Symbol | str | None:
    """The symbol that a module's name means, or the module; follows what a package passes on."""
    if f"{module}.{name}" in modules():
        return f"{module}.{name}"
    if module not in modules():
        return None
    if name in _definitions(module):
        return module, name
    passed_on = _module_imports(module).get(name)
    return _resolve(*passed_on) if passed_on else None


@cache
def _named_by(symbol: Symbol) -> frozenset[Symbol]:
    """The symbols that a symbol's code names."""
    module, name = symbol
    node = _definitions(module)[name]
    local = {**_module_imports(module), **{each: (there, what) for each, there, what in _imports(node)}}
    found: set[Symbol] = set()
    for each in ast.walk(node):
        if isinstance(each, ast.Name):
            target = _resolve(*local[each.id]) if each.id in local else _resolve(module, each.id)
        elif isinstance(each, ast.Attribute) and isinstance(each.value, ast.Name) and each.value.id in local:
            owner = _resolve(*local[each.value.id])
            target = _resolve(owner, each.attr) if isinstance(owner, str) else None
        else:
            continue
        if isinstance(target, tuple):
            found.add(target)
    return frozenset(found)


def reach(start: Symbol) -> set[Symbol]:
    """Every symbol that the code of `start` may use, directly or through others."""
    found, waiting = {start}, [start]
    while waiting:
        for symbol in _named_by(waiting.pop()) - found:
            found.add(symbol)
            waiting.append(symbol)
    return found


@cache
def texts(symbol: Symbol) -> list[str]:
    """The string literals of a symbol's code, without docstrings; {} stands for what is filled in."""
    nodes, found = [*ast.walk(_definitions(symbol[0])[symbol[1]])], []
    silent = {id(part) for each in nodes for part in _unsaid(each)}
    for each in nodes:
        if isinstance(each, ast.JoinedStr):
            found.append("".join(str(part.value) if isinstance(part, ast.Constant) else "{}" for part in each.values))
        elif isinstance(each, ast.Constant) and isinstance(each.value, str) and id(each) not in silent:
            found.append(each.value)
    return found


def _unsaid(node: ast.AST) -> Iterator[ast.AST]:
    """What is read as a part of another text, or never shown: parts of f-strings, and docstrings."""
    if isinstance(node, ast.JoinedStr):
        yield from node.values
    elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
        yield node.value
