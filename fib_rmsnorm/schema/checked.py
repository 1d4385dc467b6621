"""A field type for Definitions in requests to processes."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import ValidatorFunctionWrapHandler, WrapValidator

from fib_rmsnorm.schema.definition import Definition


class _CheckOnce:
    """Checks a Definition where it is read; not if it is one, or is read again: the judge reads one in each request."""

    def __init__(self) -> None:
        self._last: tuple[object, Definition] | None = None

    def __call__(self, value: Any, check: ValidatorFunctionWrapHandler) -> Any:
        if isinstance(value, Definition):
            return value
        last = self._last
        if last is None or last[0] != value:
            last = self._last = value, check(value)
        return last[1]


CheckedDefinition = Annotated[Definition, WrapValidator(_CheckOnce())]
"""A Definition that is checked when it is read, and not again when a thread puts it into a request.

The check parses the reference, and CPython before 3.11.8 raises SystemError when two threads parse at once.
"""
