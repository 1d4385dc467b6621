"""The copy by torch, for machines where nothing can be compiled."""

from __future__ import annotations

import torch

from fib_rmsnorm.evaluation.ceiling.copier import CopyVariant
from fib_rmsnorm.evaluation.timing.timer import Call


class TorchCopy:
    """Uses copy_ for bytes that are both read and written. Surplus reads are folded, surplus writes filled."""

    cores = ()

    def __init__(self, device: str) -> None:
        self._device = device

    def empty(self) -> None:
        """Launch almost nothing: torch has no empty kernel."""
        if self._device != "cpu":
            torch.cuda._sleep(0)  # type: ignore[no-untyped-call]

    def variants(self, bytes_read: int, bytes_written: int) -> list[CopyVariant]:
        """The only variant."""

        def bind(source: torch.Tensor, destination: torch.Tensor) -> Call:
            both = min(bytes_read, bytes_written)
            read, written = source[:bytes_read], destination[:bytes_written]

            def call() -> None:
                if both:
                    written[:both].copy_(read[:both])
                if bytes_read > both:
                    read[both:].amax()
                if bytes_written > both:
                    written[both:].fill_(1)

            return call

        return [CopyVariant("torch", bind)]
