"""What a call costs in a CUDA graph, in words."""

from __future__ import annotations

from collections.abc import Sequence

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
            _trust(chain.chained_replays, chain.chained_a_a_difference, chain.chained_suspect),
            f"{chain.links} links, of {format_latency(chain.chained_bare_link_ms)} without the call"
            if chain.chained_bare_link_ms
            else "",
            f"{clocks.during_mhz:.0f} MHz" if clocks and clocks.during_mhz is not None else "",
        ),
        "Dependent": _join(
            _cost(chain.dependent_latency_ms, chain.dependent_low_ms, chain.dependent_high_ms),
            _trust(chain.dependent_replays, chain.dependent_a_a_difference, chain.dependent_suspect),
            "by programmatic dependent launch" if chain.dependent_latency_ms is not None else "",
        ),
    }


def _cost(latency_ms: float | None, low_ms: float | None, high_ms: float | None) -> str:
    if latency_ms is None or low_ms is None or high_ms is None:
        return ""
    either_side = f", ±{format_half_width(low_ms, high_ms, latency_ms)}" if latency_ms > 0 else ""
    return f"{format_latency(latency_ms)} a call{either_side}"


def _trust(replays: int | None, difference: float | None, suspect: Sequence[str]) -> str:
    return _join(
        count(replays, "replay") if replays else "",
        f"earlier and later trials differ by {format_share(difference)}" if difference is not None else "",
        *(f"SUSPECT: {harmless(reason)}" for reason in suspect),
    )


def _join(*facts: str) -> str:
    return ", ".join(filter(None, facts))
