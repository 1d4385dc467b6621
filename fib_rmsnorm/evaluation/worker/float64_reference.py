"""A Definition's reference, run in float64: how far its own outputs are from these tells how much it rounds."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from fib_rmsnorm.evaluation.worker.caller import normalize_outputs

_WIDENED = (torch.float16, torch.bfloat16, torch.float32)
"""The dtypes to which nothing is rounded. One that a reference quantizes to is none of these."""


class _Float64(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Inside, what would be cast to or made in one of the dtypes is in float64."""

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Whether torch wraps `__torch_dispatch__` to keep Dynamo out, whose import takes seconds at the first call."""
        return False

    def __torch_dispatch__(
        self, func: Callable[..., Any], types: Sequence[type], args: Sequence[Any] = (), kwargs: Any = None
    ) -> Any:
        wide = {"dtype": torch.float64} if (kwargs or {}).get("dtype") in _WIDENED else {}
        return func(*args, **{**(kwargs or {}), **wide})


def in_float64(run: Callable[..., Any], outputs: Mapping[str, str]) -> Callable[..., list[torch.Tensor]]:
    """The reference `run` on copies of its inputs in float64; its outputs have the given dtypes at last, by name."""

    def run_in_float64(*inputs: Any) -> list[torch.Tensor]:
        given = [each.to(torch.float64, copy=True) if _is_widened(each) else each for each in inputs]
        with _Float64():  # type: ignore[no-untyped-call]
            found = normalize_outputs(run(*given), list(outputs))
        return [each.to(getattr(torch, dtype)) for each, dtype in zip(found, outputs.values(), strict=True)]

    return run_in_float64


def _is_widened(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.dtype in _WIDENED
