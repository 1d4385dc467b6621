"""Which recorded work belongs to which timed call."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import NamedTuple

from fib_rmsnorm.evaluation.timing.kernel_records import read_launch
from fib_rmsnorm.evaluation.timing.timer import MOST_LAUNCHES, MeasurementError, Sample
from fib_rmsnorm.schema import KernelLaunch


class Piece(NamedTuple):
    """A kernel, copy or fill: when it ran, in nanoseconds of the device's clock, and on which stream."""

    start: int
    end: int
    stream: int
    kernel: bytes = b""
    """A copy of the kernel's record; empty for a copy or fill."""


@dataclass
class _Call:
    work: list[Piece] = field(default_factory=list)

    def to_sample(self, extra: int, *, with_launches: bool) -> Sample | None:
        """None if it has no work but the `extra` pieces at its end, which are ours."""
        own = self.work[: len(self.work) - extra]
        if not own:
            return None
        busy = sum(piece.end - piece.start for piece in own)
        launches = _read_launches(own) if with_launches else None
        return Sample((max(piece.end for piece in own) - own[0].start) / 1e6, busy / 1e6, len(own), launches)


def _read_launches(pieces: Iterable[Piece]) -> tuple[KernelLaunch, ...]:
    kernels = islice((piece.kernel for piece in pieces if piece.kernel), MOST_LAUNCHES)
    return tuple(launch for kernel in kernels if (launch := read_launch(kernel)))


def attribute(pieces: Iterable[Piece], our_stream: int, extras: Sequence[int]) -> list[Sample]:
    """A sample for each call: of what ran between our work before it and our work before the next.

    The last one tells what was launched, too.

    The order on the device alone decides. Host clocks do not come into it: CUPTI converts the device's times to the
    host's, and was seen to be off by more than a call takes. `extras` says for each call how many pieces at its end
    are ours too, on its own stream. Raises MeasurementError if our work before a call or its own is missing, or
    somebody else used our stream.
    """
    calls: list[_Call] = []
    ours_before = False
    for piece in sorted(pieces):
        ours = piece.stream == our_stream
        if ours and not ours_before:
            calls.append(_Call())
        elif not ours and calls:
            calls[-1].work.append(piece)
        ours_before = ours
    last = len(extras) - 1
    found = [
        call.to_sample(extra, with_launches=index == last)
        for index, (call, extra) in enumerate(zip(calls, extras, strict=False))
    ]
    samples = [sample for sample in found if sample is not None]
    if len(calls) > len(extras):
        raise MeasurementError("somebody else used the stream that marks timed calls", len(extras))
    if idle := len(extras) - len(samples):
        raise MeasurementError(f"CUPTI recorded no device work for {idle} of {len(extras)} timed calls", len(extras))
    return samples
