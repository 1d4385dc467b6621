"""What a call costs in a CUDA graph: the columns beside the latency, and what to know about them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from fib_rmsnorm.analysis.estimate import recorded
from fib_rmsnorm.analysis.trace_record import TraceRecord
from fib_rmsnorm.reports.text.control_characters import harmless
from fib_rmsnorm.reports.text.document import Doubt
from fib_rmsnorm.reports.text.units import format_either_side, format_latency

CHAIN_COLUMNS = (">in a graph", ">dependent")


def has_chains(records: Iterable[TraceRecord]) -> bool:
    """Whether any Trace tells what a call costs in a graph, or why it does not."""
    return any(record.chained_latency_ms is not None or record.chain_refused for record in records)


def chain_cells(record: TraceRecord) -> Sequence[str]:
    """A cell for each of `CHAIN_COLUMNS`, with its ± where that is over 2%."""
    if record.chain_refused:
        return ("not captured", "")
    return (
        _cell(record.chained_latency_ms, record.chained_low_ms, record.chained_high_ms),
        _cell(record.dependent_latency_ms, record.dependent_low_ms, record.dependent_high_ms),
    )


def _cell(latency_ms: float | None, low_ms: float | None, high_ms: float | None) -> str:
    if latency_ms is None:
        return ""
    return f"{format_latency(latency_ms)} {format_either_side(recorded(latency_ms, low_ms, high_ms))}".rstrip()


def chain_doubts(record: TraceRecord, name: str) -> Iterator[Doubt]:
    """A line for what the intervals of the costs cannot tell, and for calls that cannot be captured."""
    if record.chain_refused:
        yield Doubt(f"Not captured in a graph: {name}: {harmless(record.chain_refused)}")
    if record.chain_noisy:
        yield Doubt(f"Noisy: {name} in a graph: {'; '.join(record.chain_noisy)}")


def chain_row(record: TraceRecord) -> dict[str, object]:
    """The same in numbers, for CSV and JSON."""
    return {
        "chained_latency_ms": record.chained_latency_ms,
        "chained_low_ms": record.chained_low_ms,
        "chained_high_ms": record.chained_high_ms,
        "dependent_latency_ms": record.dependent_latency_ms,
        "dependent_low_ms": record.dependent_low_ms,
        "dependent_high_ms": record.dependent_high_ms,
        "chain_refused": record.chain_refused,
        "chain_noisy": "; ".join(record.chain_noisy),
    }
