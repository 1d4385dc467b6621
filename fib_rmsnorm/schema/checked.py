"""A field type for Definitions in requests to processes."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import ValidatorFunctionWrapHandler, WrapValidator

from fib_rmsnorm.schema.definition import Definition


def _check_once(value: Any, check: ValidatorFunctionWrapHandler) -> Any:
    return value if isinstance(value, Definition) else check(value)


CheckedDefinition = Annotated[Definition, WrapValidator(_check_once)]
"""A Definition that is checked when it is read, and not again when a thread puts it into a request.

The check parses the reference, and CPython before 3.11.8 raises SystemError when two threads parse at once.
"""
