"""Outputs of one Solution, kept so that those of others on the same inputs are compared with them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch

from fib_rmsnorm.evaluation.judging.judge_messages import Compare, OutputVerdict
from fib_rmsnorm.evaluation.judging.output_comparison import compare
from fib_rmsnorm.evaluation.judging.ulp import measure_ulp
from fib_rmsnorm.evaluation.tensors.output_pair import OutputPair
from fib_rmsnorm.schema import Difference, Peer


class PeerOutputs:
    """The outputs of a peer on the cases of the current Workload."""

    def __init__(self) -> None:
        self._peer: Peer | None = None
        self._outputs: dict[tuple[int, bool], list[torch.Tensor]] = {}

    def clear(self) -> None:
        """Forget them: the judge was asked about another Workload."""
        self._peer = None
        self._outputs.clear()

    def compare(
        self, request: Compare, actuals: list[torch.Tensor], verdicts: list[OutputVerdict]
    ) -> tuple[list[OutputVerdict], Peer | None]:
        """Keep the outputs of a case if they are the peer's; else add to their verdicts how they differ from those.

        Returns the verdicts and the peer; None without its outputs of this case, as of every timed call.
        """
        if request.case is None:
            return verdicts, None
        key = (request.case, request.few_rows)
        if request.keep_as is not None:
            self._peer = request.keep_as
            self._outputs[key] = actuals
            return verdicts, None
        kept = self._outputs.get(key)
        if kept is None:
            return verdicts, None
        differences = _measure(actuals, kept)
        pairs = zip(verdicts, differences, strict=True)
        return [replace(verdict, against=difference) for verdict, difference in pairs], self._peer


def _measure(actuals: Sequence[torch.Tensor], kept: Sequence[torch.Tensor]) -> list[Difference]:
    return [measure_difference(actual, other) for actual, other in zip(actuals, kept, strict=True)]


def measure_difference(actual: torch.Tensor, other: torch.Tensor) -> Difference:
    """How far an output is from another of the same shape and dtype."""
    pair = OutputPair(actual, other)
    found = compare(pair, rtol=0.0, atol=0.0)
    return Difference(
        max_absolute=found.max_absolute_error,
        max_relative=found.max_relative_error,
        elements=found.elements,
        equal=found.elements - found.mismatched,
        ulp=measure_ulp(pair),
    )
