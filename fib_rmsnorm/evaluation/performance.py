"""Sum up the results of trials as the Performance of a Trace."""

from collections.abc import Iterator
from statistics import median

from fib_rmsnorm.evaluation.interleaved_trials import TrialResults
from fib_rmsnorm.evaluation.timing.latency_statistics import LINKS, Scatter, grouped_median, measure_calls, sum_up_chain
from fib_rmsnorm.schema import Ceiling, Chain, Clocks, Performance

_MAX_CLOCK_CHANGE = 0.02
# A kernel can be slightly faster than the copy, which is the best of several launch shapes but not of all.
_MIN_SHARE_OF_COPY = 0.95


def describe_performance(
    results: TrialResults, reference: TrialResults, shared: Performance, chain_clocks: Clocks | None = None
) -> Performance:
    """Sum up the trials of a solution, and compare them with those of the reference.

    `shared` has what all solutions on the Workload have in common: `cold_l2`, `bytes_moved`, `ceiling`, `clocks`,
    `device_session` and marks in `noisy`. `chain_clocks` are those during trials in CUDA graphs, if requested.
    """
    tick = results.prepared.tick_ms
    clocks, ceiling, on_cpu = shared.clocks or Clocks(), shared.ceiling, shared.cold_l2 is None
    trials = [trial.samples for trial in results.trials]
    scatter = measure_calls(trials, tick, clocks.other_share)
    of_reference = measure_calls([trial.samples for trial in reference.trials], tick, clocks.other_share)
    latency_ms = scatter.latency_ms
    host_us = [costs.host_overhead_us for costs in results.costs if costs.host_overhead_us is not None]
    return Performance(
        latency_ms=latency_ms,
        reference_latency_ms=of_reference.latency_ms,
        reference_low_ms=of_reference.interval.low,
        reference_high_ms=of_reference.interval.high,
        reference_trial_scatter=of_reference.of_trials,
        reference_pieces=_count_pieces(reference),
        speedup_factor=of_reference.latency_ms / latency_ms if latency_ms else 0.0,
        timer=results.prepared.timer,
        cold_l2=shared.cold_l2,
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
        bytes_moved=shared.bytes_moved,
        bandwidth_gb_per_s=(shared.bytes_moved or 0) / latency_ms / 1e6 if latency_ms else None,
        ceiling=ceiling,
        chain=describe_chain(results, chain_clocks) if chain_clocks else None,
        percent_of_copy=100 * ceiling.copy_ms / latency_ms if ceiling and latency_ms else None,
        host_overhead_us=min(host_us, default=None),
        first_call_ms=results.admitted.first_call_ms,
        build_s=results.admitted.worker.build_s,
        peak_memory_bytes=results.costs[-1].peak_memory_bytes if results.costs else None,
        library_calls=results.prepared.operators,
        clocks=shared.clocks,
        device_session=shared.device_session,
        noisy=[
            *([scatter.doubt] if scatter.doubt else []),
            *([f"the reference: {of_reference.doubt}"] if of_reference.doubt else []),
            *shared.noisy,
            *(_find_excess(scatter, ceiling) if ceiling else []),
            *([] if on_cpu else _find_disturbances(clocks)),
        ],
    )


def _count_pieces(results: TrialResults) -> int:
    return round(median([sample.pieces for trial in results.trials for sample in trial.samples]))


def _find_excess(scatter: Scatter, ceiling: Ceiling) -> Iterator[str]:
    """Whether a number is faster than the device can be, which its interval cannot show."""
    latency_ms = scatter.latency_ms
    if scatter.interval.high < _MIN_SHARE_OF_COPY * ceiling.copy_low_ms:
        yield f"faster than the limit: {latency_ms / ceiling.copy_ms:.0%} of the time of a copy of the same bytes"
    if latency_ms < ceiling.empty_ms:
        yield "faster than the limit: an empty kernel takes longer"


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
