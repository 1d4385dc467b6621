"""Definition: what a kernel computes."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import ModelWrapValidatorHandler, ValidatorFunctionWrapHandler, WrapValidator, model_validator

from fib_rmsnorm.schema import upstream


class Definition(upstream.Definition, use_attribute_docstrings=False):
    """A Definition that is refused, and does not crash its reader, if its source is too much for Python's parser."""

    @model_validator(mode="wrap")
    @classmethod
    def _refuse_what_cannot_be_parsed(cls, data: Any, handler: ModelWrapValidatorHandler[Definition]) -> Definition:
        try:
            return handler(data)
        except (RecursionError, MemoryError):  # which of them, differs between versions of Python
            raise ValueError("Reference and constraints must be valid Python: too deeply nested for Python") from None


def _check_unless_checked(value: Any, check: ValidatorFunctionWrapHandler) -> Any:
    return value if isinstance(value, Definition) else check(value)


CheckedDefinition = Annotated[Definition, WrapValidator(_check_unless_checked)]
"""A Definition that is checked when it is read, and not again when a thread puts it into a request.

The check parses the reference, and CPython before 3.11.8 raises SystemError when two threads parse at once.
"""
