"""The conditions of a measurement, in words."""

from __future__ import annotations

from fib_rmsnorm.reports.records.record import joined
from fib_rmsnorm.reports.text.units import format_latency
from fib_rmsnorm.schema import Ceiling, Clocks, Performance

_L2 = {True: "evicted before each call", False: "warm", None: ""}


def condition_fields(performance: Performance) -> dict[str, str]:
    """The timer, the cache and the device around and during the trials; what is unknown is left out."""
    ceiling, clocks = performance.ceiling, performance.clocks
    return {
        "Timer": performance.timer or "not recorded",
        "L2": joined(_L2[performance.cold_l2], _cold_proof(ceiling) if ceiling and performance.cold_l2 else ""),
        **(_clock_fields(clocks, performance.disturbed_calls) if clocks else {}),
        "Session": f"{performance.device_session} (numbers of the same session can be compared more closely)"
        if performance.device_session
        else "",
    }


def _cold_proof(ceiling: Ceiling) -> str:
    """A copy that takes longer cold than hot shows that the eviction works (if the cache holds its bytes)."""
    if ceiling.copy_hot_ms is None:
        return ""
    return f"the copy takes {format_latency(ceiling.copy_ms)} cold, {format_latency(ceiling.copy_hot_ms)} hot"


def _clock_fields(clocks: Clocks, disturbed_calls: int | None) -> dict[str, str]:
    low, high = clocks.during_min_mhz, clocks.during_max_mhz
    span = f" ({low:.0f} to {high:.0f})" if low is not None and high is not None else ""
    throttled, others = clocks.throttle_reasons, clocks.other_processes
    heat, share = clocks.max_temperature_c, clocks.other_share
    return {
        "Clock": joined(
            f"{clocks.before_mhz:.0f} MHz before" if clocks.before_mhz is not None else "",
            f"{clocks.during_mhz:.0f}{span} during" if clocks.during_mhz is not None else "",
            f"{clocks.after_mhz:.0f} after" if clocks.after_mhz is not None else "",
            f"memory {clocks.memory_mhz:.0f} MHz" if clocks.memory_mhz is not None else "",
        ),
        "Conditions": joined(
            f"throttled: {', '.join(throttled)}" if throttled else "not throttled" if throttled == [] else "",
            f"at most {heat:.0f} °C" if heat is not None else "",
            f"other processes took {share:.0%} of the cores" if share is not None else "",
            f"{disturbed_calls} timed calls had to wait for a core" if disturbed_calls is not None else "",
            f"{others or 'no'} other process{'es' * (others > 1)} on the device" if others is not None else "",
        ),
    }
