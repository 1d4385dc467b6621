"""The ceiling: an empty kernel and the fastest copy, against which kernels are measured. One module for each copier."""

from __future__ import annotations

from pathlib import Path

from fib_rmsnorm.building import BuildError
from fib_rmsnorm.evaluation.ceiling.copier import Copier, CopyVariant

__all__ = ["Copier", "CopyVariant", "choose_copier"]


def choose_copier(device: str, cache: Path) -> tuple[Copier, str | None]:
    """The best copier that can be built here, and why no better one can be; None if it is the best."""
    from fib_rmsnorm.evaluation.ceiling.torch_copy import TorchCopy

    reasons: list[str] = []
    for make in (_cpp,) if device == "cpu" else (_cuda, _triton):
        try:
            return make(device, cache), "; ".join(reasons) or None
        except (BuildError, ImportError) as error:  # noqa: PERF203 - once or twice
            reasons.append(str(error).strip().partition("\n")[0])
    return TorchCopy(device), "; ".join(reasons)


def _cpp(_: str, cache: Path) -> Copier:
    from fib_rmsnorm.evaluation.ceiling.cpp_copy import CppCopy

    return CppCopy(cache)


def _cuda(device: str, cache: Path) -> Copier:
    from fib_rmsnorm.evaluation.ceiling.cuda_copy import CudaCopy

    return CudaCopy(device, cache)


def _triton(_: str, __: Path) -> Copier:
    from fib_rmsnorm.evaluation.ceiling.triton_copy import TritonCopy

    return TritonCopy()
