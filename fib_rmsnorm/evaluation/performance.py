"""What a race found of an entrant, as the Performance of its Trace."""

from __future__ import annotations

from statistics import median, quantiles

from fib_rmsnorm.evaluation.race import Entrant
from fib_rmsnorm.evaluation.statistics import a_a_difference, median_interval, trial_ratios
from fib_rmsnorm.schema import Performance, Settings

_MOST_A_A_DIFFERENCE = 0.03


def describe_performance(entrant: Entrant, reference: Entrant, bytes_moved: int, settings: Settings) -> Performance:
    """Sum up the trials of an entrant beside those of the reference."""
    samples = entrant.samples
    latency_ms = median(samples)
    interval = median_interval(samples)
    p5, *_, p95 = quantiles(samples, n=20, method="inclusive") if len(samples) > 1 else samples * 2
    shared = min(len(entrant.trials), len(reference.trials))
    speedups = trial_ratios(reference.trials[:shared], entrant.trials[:shared])
    difference = a_a_difference(entrant.trials)
    performance = Performance(
        latency_ms=latency_ms,
        reference_latency_ms=median(reference.samples),
        speedup_factor=median(speedups) if speedups else 0.0,
        speedup_low=min(speedups, default=None),
        speedup_high=max(speedups, default=None),
        timer=entrant.timer,
        cold_l2=None if entrant.timer == "cpu_clock" else settings.l2 != "hot",
        samples=len(samples),
        trials=len(entrant.trials),
        stopped_by=entrant.stopped_by,
        latency_low_ms=interval.low,
        latency_high_ms=interval.high,
        latency_p5_ms=p5,
        latency_p95_ms=p95,
        busy_ms=median(entrant.busy_ms),
        pieces=round(median(entrant.pieces)),
        hot_latency_ms=median(entrant.hot_ms) if entrant.hot_ms else None,
        a_a_difference=difference,
        bytes_moved=bytes_moved,
        bandwidth_gb_per_s=bytes_moved / latency_ms / 1e6 if latency_ms else None,
        first_call_ms=entrant.first_call_ms,
        build_s=entrant.worker.build_s,
    )
    if entrant.costs:
        performance.host_overhead_us = entrant.costs.host_overhead_us
        performance.peak_memory_bytes = entrant.costs.peak_memory_bytes
    if difference is not None and difference > _MOST_A_A_DIFFERENCE:
        performance.suspect.append(f"the same solution measured {difference:.1%} apart in its first and last trial")
    return performance
