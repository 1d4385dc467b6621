"""Attribute recorded work on a GPU to timed calls."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import NamedTuple

from fib_rmsnorm.evaluation.timing.kernel_records import read_launch
from fib_rmsnorm.evaluation.timing.timer import MAX_LAUNCHES, MeasurementError, Sample
from fib_rmsnorm.schema import KernelLaunch


class Piece(NamedTuple):
    """A kernel, copy or fill: its start and end in nanoseconds of the device's clock, and its stream."""

    start: int
    end: int
    stream: int
    kernel: bytes = b""
    """A copy of the kernel's record; empty for a copy or fill."""


@dataclass
class _Call:
    work: list[Piece] = field(default_factory=list)

    def to_sample(self, extra: int, *, with_launches: bool) -> Sample | None:
        """The sample of a call; None if it has no work other than the `extra` pieces at its end, which are ours."""
        own = self.work[: len(self.work) - extra]
        if not own:
            return None
        busy = sum(piece.end - piece.start for piece in own)
        launches = _read_launches(own) if with_launches else None
        return Sample((max(piece.end for piece in own) - own[0].start) / 1e6, busy / 1e6, len(own), launches)


def _read_launches(pieces: Iterable[Piece]) -> tuple[KernelLaunch, ...]:
    kernels = islice((piece.kernel for piece in pieces if piece.kernel), MAX_LAUNCHES)
    return tuple(launch for kernel in kernels if (launch := read_launch(kernel)))


def attribute(pieces: Iterable[Piece], our_stream: int, extras: Sequence[int]) -> list[Sample]:
    """Make a sample for each call, from the work that ran between our marker before it and the marker before the next.

    The last sample also has the call's launches. Markers are our own work on our stream. Only the order on the device
    counts, not the host's clock: CUPTI's conversion between the two can be off by more than a call takes. `extras` is
    the number of pieces at the end of each call that are ours too, on the call's stream. Raises MeasurementError if a
    marker or a call's work is missing, or if other work ran amid a marker: deferred by a call, or on our stream.
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
        raise MeasurementError(
            "device work ran amid the marker of a timed call: it was deferred, or used the marker's stream", len(extras)
        )
    if idle := len(extras) - len(samples):
        raise MeasurementError(
            f"CUPTI recorded no device work for {idle} of {len(extras)} timed calls: it was deferred, or missing",
            len(extras),
        )
    return samples
