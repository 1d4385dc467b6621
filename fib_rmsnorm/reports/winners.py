"""The table of winners as text."""

from __future__ import annotations

from collections.abc import Iterator

from fib_rmsnorm.deployment.winner_table import MeasuredShape, WinnerTable


def describe_winners(table: WinnerTable) -> Iterator[str]:
    """A line for each operator and measured shape."""
    for operator, winners in table.operators.items():
        kinds = "; ".join(f"{kind}: {', '.join(names)}" for kind, names in winners.unmeasured.items())
        yield f"{operator}, where nothing was measured: {kinds or 'torch'}"
        for device, shapes in winners.measured.items():
            yield from (f"  {device}, {each.shape}: {_describe(each)}" for each in shapes)


def _describe(measured: MeasuredShape) -> str:
    first = measured.candidates[0]
    faster = f" (faster, by another author: {measured.faster_elsewhere})" if measured.faster_elsewhere else ""
    return f"{first.solution} {first.latency_us:.3g} us{faster}"
