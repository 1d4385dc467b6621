"""Evaluate a Definition's constraints without executing them, because datasets are not trusted."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping
from typing import Any

_BINARY: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Div: operator.truediv,
    ast.Mod: operator.mod,
}
_COMPARE: dict[type[ast.cmpop], Callable[[Any, Any], bool]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}


class _UnknownError(Exception):
    """The expression needs more than arithmetic on the axes, such as a tensor's content."""


def holds(constraint: str, axes: Mapping[str, int]) -> bool | None:
    """Whether a constraint holds; None if it depends on more than `axes`."""
    try:
        return bool(_evaluate(ast.parse(constraint, mode="eval").body, axes))
    except (_UnknownError, SyntaxError, RecursionError, OverflowError):
        return None
    except ZeroDivisionError:
        return False


def _evaluate(node: ast.expr, axes: Mapping[str, int]) -> Any:  # noqa: PLR0911 - one return per form
    match node:
        case ast.Constant(value=bool() | int() | float()):
            return node.value
        case ast.Name(id=name) if name in axes:
            return axes[name]
        case ast.UnaryOp(op=ast.Not()):
            return not _evaluate(node.operand, axes)
        case ast.UnaryOp(op=ast.USub()):
            return -_evaluate(node.operand, axes)
        case ast.BinOp() if type(node.op) in _BINARY:
            return _BINARY[type(node.op)](_evaluate(node.left, axes), _evaluate(node.right, axes))
        case ast.BoolOp():
            values = [_evaluate(value, axes) for value in node.values]
            return all(values) if isinstance(node.op, ast.And) else any(values)
        case ast.Compare() if all(type(op) in _COMPARE for op in node.ops):
            values = [_evaluate(value, axes) for value in (node.left, *node.comparators)]
            pairs = zip(node.ops, values, values[1:], strict=False)
            return all(_COMPARE[type(op)](left, right) for op, left, right in pairs)
    raise _UnknownError


def names_in(constraint: str) -> set[str]:
    """The names that occur in a constraint."""
    return {node.id for node in ast.walk(ast.parse(constraint, mode="eval")) if isinstance(node, ast.Name)}
