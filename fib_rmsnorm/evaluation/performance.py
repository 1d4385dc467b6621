"""Sum up the results of trials as the Performance of a Trace."""

from collections.abc import Iterator
from dataclasses import dataclass
from statistics import median

from fib_rmsnorm.evaluation.interleaved_trials import TrialResults
from fib_rmsnorm.evaluation.timing.latency_statistics import LINKS, Scatter, grouped_median, measure_calls, sum_up_chain
from fib_rmsnorm.schema import Ceiling, Chain, Clocks, Performance, Settings

_MAX_CLOCK_CHANGE = 0.02
# A kernel can be slightly faster than the copy, which is the best of several launch shapes but not of all.
_MIN_SHARE_OF_COPY = 0.95


@dataclass(frozen=True)
class Conditions:
    """The conditions shared by all solutions that are timed together on a Workload."""

    settings: Settings
    bytes_moved: int
    ceiling: Ceiling | None
    no_ceiling: str | None
    """The reason why there is no ceiling."""
    clocks: Clocks
    chain_clocks: Clocks | None
    """The clocks during the trials in CUDA graphs, if these were requested."""
    device_session: str | None
    on_cpu: bool


def describe_performance(results: TrialResults, reference: TrialResults, conditions: Conditions) -> Performance:
    """Sum up the trials of a solution, and compare them with those of the reference."""
    tick = results.prepared.tick_ms
    other_share = conditions.clocks.other_share
    trials = [trial.samples for trial in results.trials]
    scatter = measure_calls(trials, tick, other_share)
    of_reference = measure_calls([trial.samples for trial in reference.trials], tick, other_share)
    latency_ms = scatter.latency_ms
    host_us = [costs.host_overhead_us for costs in results.costs if costs.host_overhead_us is not None]
    on_cpu, ceiling = conditions.on_cpu, conditions.ceiling
    return Performance(
        latency_ms=latency_ms,
        reference_latency_ms=of_reference.latency_ms,
        reference_low_ms=of_reference.interval.low,
        reference_high_ms=of_reference.interval.high,
        reference_trial_scatter=of_reference.of_trials,
        reference_pieces=_count_pieces(reference),
        speedup_factor=of_reference.latency_ms / latency_ms if latency_ms else 0.0,
        timer=results.prepared.timer,
        cold_l2=None if on_cpu else conditions.settings.l2 != "hot",
        samples=scatter.samples,
        disturbed_calls=sum(sample.is_disturbed for trial in trials for sample in trial) if on_cpu else None,
        trials=len(scatter.medians_ms),
        trial_medians_ms=[round(median_ms, 9) for median_ms in scatter.medians_ms],
        trial_scatter=scatter.of_trials,
        stopped_by=results.stopped_by,
        repeated_trials=[what for trial in results.trials for what in trial.repeated],
        latency_low_ms=scatter.interval.low,
        latency_high_ms=scatter.interval.high,
        latency_p5_ms=scatter.p5_ms,
        latency_p95_ms=scatter.p95_ms,
        busy_ms=latency_ms
        if on_cpu
        else grouped_median([sample.busy_ms for trial in trials for sample in trial], tick),
        pieces=_count_pieces(results),
        queued=None if on_cpu else all(trial.queued for trial in results.trials),
        as_called_ms=grouped_median([sample.span_ms for sample in results.as_called.samples], tick)
        if results.as_called
        else None,
        hot_latency_ms=measure_calls([results.hot.samples], tick).latency_ms if results.hot else None,
        a_a_difference=scatter.a_a_difference,
        bytes_moved=conditions.bytes_moved,
        bandwidth_gb_per_s=conditions.bytes_moved / latency_ms / 1e6 if latency_ms else None,
        ceiling=ceiling,
        chain=describe_chain(results, conditions.chain_clocks) if conditions.chain_clocks else None,
        percent_of_copy=100 * ceiling.copy_ms / latency_ms if ceiling and latency_ms else None,
        host_overhead_us=min(host_us, default=None),
        first_call_ms=results.admitted.first_call_ms,
        build_s=results.admitted.worker.build_s,
        peak_memory_bytes=results.costs[-1].peak_memory_bytes if results.costs else None,
        library_calls=results.prepared.operators,
        clocks=conditions.clocks,
        device_session=conditions.device_session,
        noisy=[
            *([scatter.doubt] if scatter.doubt else []),
            *([f"the reference: {of_reference.doubt}"] if of_reference.doubt else []),
            *_find_marks(scatter, conditions),
        ],
    )


def _count_pieces(results: TrialResults) -> int:
    return round(median([sample.pieces for trial in results.trials for sample in trial.samples]))


def _find_marks(scatter: Scatter, conditions: Conditions) -> Iterator[str]:
    """Find the conditions that the interval of a number cannot show."""
    latency_ms, interval = scatter.latency_ms, scatter.interval
    if conditions.no_ceiling:
        yield f"no copy to compare with: {conditions.no_ceiling}"
    if ceiling := conditions.ceiling:
        if interval.high < _MIN_SHARE_OF_COPY * ceiling.copy_low_ms:
            yield f"faster than the limit: {latency_ms / ceiling.copy_ms:.0%} of the time of a copy of the same bytes"
        if latency_ms < ceiling.empty_ms:
            yield "faster than the limit: an empty kernel takes longer"
    if not conditions.on_cpu:
        yield from _find_disturbances(conditions.clocks)


def _find_disturbances(clocks: Clocks) -> Iterator[str]:
    if clocks.before_mhz and clocks.during_min_mhz and clocks.during_max_mhz:
        moved = (clocks.during_max_mhz - clocks.during_min_mhz) / clocks.during_max_mhz
        if moved > _MAX_CLOCK_CHANGE:
            yield f"clock moved by {moved:.1%}: {clocks.during_min_mhz:g} to {clocks.during_max_mhz:g} MHz"
    if clocks.other_processes:
        yield f"{clocks.other_processes} other process(es) on the device"


def describe_chain(results: TrialResults, clocks: Clocks) -> Chain:
    """Sum up the trials of a solution in CUDA graphs."""
    return Chain(
        links=LINKS,
        **sum_up_chain("chained", results.chains[False]),
        **sum_up_chain("dependent", results.chains[True]),
        chain_refused=results.chain_refused,
        chain_noisy=list(_find_disturbances(clocks)),
        clocks=clocks,
    )
