"""Call a solution once to be judged, and turn what goes wrong into a refusal with the status that fits."""

from __future__ import annotations

from typing import Any

import torch

from fib_rmsnorm.building import is_compile_error
from fib_rmsnorm.building.build_errors import describe_exception, is_of_solution
from fib_rmsnorm.evaluation.tensors.output_buffers import OutputBuffers
from fib_rmsnorm.evaluation.tensors.returned_outputs import WrongOutputError
from fib_rmsnorm.evaluation.worker.caller import SolutionCaller
from fib_rmsnorm.sandbox.channel import RefusalError
from fib_rmsnorm.schema import Definition


def run_call(
    caller: SolutionCaller, inputs: dict[str, Any], outputs: OutputBuffers, *, settle: bool
) -> tuple[list[torch.Tensor], list[str]]:
    """Call once, as `SolutionCaller.run_checked` does. Raises RefusalError if the call fails."""
    try:
        return caller.run_checked(inputs, outputs, settle=settle)
    except WrongOutputError as error:
        raise RefusalError("RUNTIME_ERROR", str(error)) from None
    except Exception as error:
        if is_compile_error(error):
            raise RefusalError("COMPILE_ERROR", f"{type(error).__name__}: {error}") from None
        wrong_style = isinstance(error, TypeError) and not is_of_solution(error)
        hint = f"{caller.describe_style()}: " if wrong_style else ""
        raise RefusalError("RUNTIME_ERROR", f"{hint}{describe_exception(error)}", fatal=True) from None


def check_form(definition: Definition, found: list[torch.Tensor], outputs: list[torch.Tensor]) -> None:
    """Raise RefusalError if an output has another shape or dtype than the buffer that was made for it."""
    for name, actual, expected in zip(definition.outputs, found, outputs, strict=True):
        if actual.shape != expected.shape:
            raise RefusalError(
                "INCORRECT_SHAPE", f"{name}: shape {list(actual.shape)}, expected {list(expected.shape)}"
            )
        if actual.dtype != expected.dtype:
            raise RefusalError("INCORRECT_DTYPE", f"{name}: dtype {actual.dtype}, expected {expected.dtype}")
