"""Which recorded work belongs to which timed call."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from fib_rmsnorm.evaluation.timing.timer import MeasurementError, Sample


class Piece(NamedTuple):
    """A kernel, copy or fill: when it ran, in nanoseconds of the device's clock, and on which stream."""

    start: int
    end: int
    stream: int


@dataclass
class _Call:
    work: list[Piece] = field(default_factory=list)

    def to_sample(self, extra: int) -> Sample | None:
        """None if it has no work but the `extra` pieces at its end, which are ours."""
        own = self.work[: len(self.work) - extra]
        if not own:
            return None
        busy = sum(piece.end - piece.start for piece in own)
        return Sample((max(piece.end for piece in own) - own[0].start) / 1e6, busy / 1e6, len(own))


def attribute(pieces: Iterable[Piece], our_stream: int, extras: Sequence[int]) -> list[Sample]:
    """A sample for each call: of what ran between our work before it and our work before the next.

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
    found = [call.to_sample(extra) for call, extra in zip(calls, extras, strict=False)]
    samples = [sample for sample in found if sample is not None]
    if len(calls) > len(extras):
        raise MeasurementError("somebody else used the stream that marks timed calls", len(extras))
    if idle := len(extras) - len(samples):
        raise MeasurementError(f"CUPTI recorded no device work for {idle} of {len(extras)} timed calls", len(extras))
    return samples
