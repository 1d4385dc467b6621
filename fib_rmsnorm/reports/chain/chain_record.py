"""What a call costs in a CUDA graph, in words."""

from __future__ import annotations

from fib_rmsnorm.analysis.estimate import recorded
from fib_rmsnorm.reports.text.control_characters import harmless
from fib_rmsnorm.reports.text.units import count, format_half_width, format_latency, format_share
from fib_rmsnorm.schema import Chain


def chain_fields(chain: Chain) -> dict[str, str]:
    """A line for each cost of a Trace, and the clocks during its replays."""
    clocks = chain.clocks
    if chain.chain_refused:
        return {"In a graph": f"not captured: {harmless(chain.chain_refused)}"}
    return {
        "In a graph": _join(
            _cost(chain.chained_latency_ms, chain.chained_low_ms, chain.chained_high_ms),
            _describe_replays(chain.chained_replays, chain.chained_a_a_difference),
            f"{chain.links} links, of {format_latency(chain.chained_bare_link_ms)} without the call"
            if chain.chained_bare_link_ms
            else "",
            f"{clocks.during_mhz:.0f} MHz" if clocks and clocks.during_mhz is not None else "",
            *(f"noisy: {harmless(reason)}" for reason in chain.chain_noisy),
        ),
        "Dependent": _join(
            _cost(chain.dependent_latency_ms, chain.dependent_low_ms, chain.dependent_high_ms),
            _describe_replays(chain.dependent_replays, chain.dependent_a_a_difference),
            "by programmatic dependent launch" if chain.dependent_latency_ms is not None else "",
        ),
    }


def _cost(latency_ms: float | None, low_ms: float | None, high_ms: float | None) -> str:
    if latency_ms is None or low_ms is None or high_ms is None:
        return ""
    interval = recorded(latency_ms, low_ms, high_ms) if latency_ms > 0 else None
    either_side = f", ±{format_half_width(interval)}" if interval else ""
    return f"{format_latency(latency_ms)} a call{either_side}"


def _describe_replays(replays: int | None, difference: float | None) -> str:
    return _join(
        count(replays, "replay") if replays else "",
        f"earlier and later trials differ by {format_share(difference)}" if difference is not None else "",
    )


def _join(*facts: str) -> str:
    return ", ".join(filter(None, facts))
