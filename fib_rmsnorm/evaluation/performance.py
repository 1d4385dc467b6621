"""What a race found of an entrant, as the Performance of its Trace."""

from __future__ import annotations

from statistics import median, quantiles

from fib_rmsnorm.evaluation.interleaved_trials import Candidate
from fib_rmsnorm.evaluation.timing.latency_statistics import a_a_difference, latency_interval, middle, trial_ratios
from fib_rmsnorm.schema import Performance, Settings

_MOST_A_A_DIFFERENCE = 0.03
_MOST_CLOCK_MOVE = 0.02
# A kernel can beat the copy by a little: the copy's launch shape is one of several, not the best of all.
_LEAST_OF_COPY = 0.95


def describe_performance(
    candidate: Candidate, reference: Candidate, bytes_moved: int, settings: Settings
) -> Performance:
    """Sum up the trials of an entrant beside those of the reference."""
    samples = candidate.samples
    tick = candidate.tick_ms
    latency_ms = middle(samples, tick)
    interval = latency_interval(candidate.trials, tick)
    p5, *_, p95 = quantiles(samples, n=20, method="inclusive") if len(samples) > 1 else samples * 2
    shared = min(len(candidate.trials), len(reference.trials))
    speedups = trial_ratios(reference.trials[:shared], candidate.trials[:shared], tick)
    difference = a_a_difference(candidate.trials, tick)
    performance = Performance(
        latency_ms=latency_ms,
        reference_latency_ms=middle(reference.samples, tick),
        speedup_factor=median(speedups) if speedups else 0.0,
        speedup_low=min(speedups, default=None),
        speedup_high=max(speedups, default=None),
        timer=candidate.timer,
        cold_l2=None if candidate.timer == "cpu_clock" else settings.l2 != "hot",
        samples=len(samples),
        trials=len(candidate.trials),
        trial_medians_ms=[round(middle(trial, tick), 9) for trial in candidate.trials],
        stopped_by=candidate.stopped_by,
        repeated_trials=candidate.repeated,
        latency_low_ms=interval.low,
        latency_high_ms=interval.high,
        latency_p5_ms=p5,
        latency_p95_ms=p95,
        busy_ms=middle(candidate.busy_ms, tick),
        pieces=round(median(candidate.pieces)),
        hot_latency_ms=middle(candidate.hot_ms, tick) if candidate.hot_ms else None,
        a_a_difference=difference,
        bytes_moved=bytes_moved,
        bandwidth_gb_per_s=bytes_moved / latency_ms / 1e6 if latency_ms else None,
        first_call_ms=candidate.first_call_ms,
        build_s=candidate.worker.build_s,
        library_calls=candidate.operators,
    )
    if candidate.costs:
        host_us = [costs.host_overhead_us for costs in candidate.costs if costs.host_overhead_us is not None]
        performance.host_overhead_us = min(host_us, default=None)
        performance.peak_memory_bytes = candidate.costs[-1].peak_memory_bytes
    return performance


def find_suspicions(performance: Performance, no_ceiling: str | None) -> None:
    """Fill in `percent_of_copy`, and the reasons not to trust this number: one is `no_ceiling`."""
    if performance.interpreted:
        return  # it is no measure of the kernel, and says so
    suspect = performance.suspect
    difference, ceiling, clocks = performance.a_a_difference, performance.ceiling, performance.clocks
    if difference is not None and difference > _MOST_A_A_DIFFERENCE:
        suspect.append(f"earlier and later trials {difference:.1%} apart")
    if no_ceiling:
        suspect.append(f"no copy to compare with: {no_ceiling}")
    if ceiling:
        if performance.latency_ms:
            performance.percent_of_copy = 100 * ceiling.copy_ms / performance.latency_ms
        if (performance.latency_high_ms or performance.latency_ms) < _LEAST_OF_COPY * ceiling.copy_low_ms:
            suspect.append(f"{performance.latency_ms / ceiling.copy_ms:.0%} of a copy of the same bytes")
        if performance.latency_ms < ceiling.empty_ms:
            suspect.append("faster than an empty kernel")
    if clocks:
        if clocks.before_mhz and clocks.during_min_mhz and clocks.during_max_mhz:
            moved = (clocks.during_max_mhz - clocks.during_min_mhz) / clocks.during_max_mhz
            if performance.timer != "cpu_clock" and moved > _MOST_CLOCK_MOVE:
                suspect.append(
                    f"clock moved by {moved:.1%}: {clocks.during_min_mhz:g} to {clocks.during_max_mhz:g} MHz"
                )
        if clocks.other_processes:
            suspect.append(f"{clocks.other_processes} other process(es) on the device")
