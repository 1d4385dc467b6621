"""The bench's line and table, and the verdict of `try`."""

from __future__ import annotations

import re

import pytest
from rich.console import Console

from fib_rmsnorm.operators import RmsNorm
from fib_rmsnorm.registry import generate_workloads
from fib_rmsnorm.reports.live.evaluations import (
    LiveTable,
    fastest_line,
    result_text,
    results_footnotes,
    results_table,
)
from fib_rmsnorm.reports.live.try_verdict import conclude, describe_judged
from fib_rmsnorm.reports.text.units import assignments
from fib_rmsnorm.schema import REFERENCE, Check, Clocks, EvaluationStatus, JudgedCase, Performance
from fib_rmsnorm.sessions.version import Version
from support.full_registry import CUDA, HARDWARE, make_trace
from support.norms import kernel_for
from support.registries import RIGHT

REASON = "it takes 60% of a copy"


@pytest.fixture
def make(full_registry):
    """A Trace with what is given changed in its Performance."""

    def run(**changes):
        trace = make_trace(full_registry.packed_solutions()[CUDA], full_registry.workloads("rmsnorm_d128")[0])
        trace.evaluation.performance = trace.evaluation.performance.model_copy(update=changes)
        return trace

    return run


def test_a_table_says_that_only_the_reference_judged(make):
    weak, strong = make(), make()
    weak.evaluation.judged_by, strong.evaluation.judged_by = REFERENCE, "rmsnorm"
    (footnote,) = results_footnotes([strong, weak])
    assert footnote.startswith("Judged by the reference alone, on the Workload's inputs")
    assert results_footnotes([strong, make()]) == []


def test_a_line_says_how_near_the_copy_it_comes(make):
    line = result_text(make(percent_of_copy=71.6, reference_latency_ms=0.5725, bandwidth_gb_per_s=15.1)).plain
    assert line.split() == ["PASSED", "12.5", "us", "72%", "45.8x"]
    assert "%" not in result_text(make()).plain, "without a ceiling"


def test_a_noisy_result_says_so(make):
    line = result_text(make(noisy=[REASON]))
    assert line.plain.endswith("  noisy")
    assert "yellow" in {str(span.style) for span in line.spans if line.plain[span.start : span.end].strip() == "noisy"}


def test_a_terminal_too_narrow_for_a_line_gets_the_end_of_the_name(make):
    console = Console(width=70, force_terminal=True, color_system=None, soft_wrap=True)
    timed, failed = make(percent_of_copy=71.6, reference_latency_ms=0.5725), make()
    failed.evaluation.status, failed.evaluation.log = EvaluationStatus.RUNTIME_ERROR, "a reason with many words " * 5
    table = LiveTable([CUDA], ["batch=8"], console)
    with console.capture() as capture:
        console.print(table.header(), table.line(timed, "batch=8"), table.line(failed, "batch=8"), sep="\n")
    header, line, *reason = capture.get().splitlines()
    assert re.split("  +", header) == ["workload", "solution", "status", "latency", "of copy", "speedup"]
    assert re.split("  +", line) == ["batch=8", "…cuda_plain_v1", "PASSED", "12.5 us", "72%", "45.8x"]
    assert all(
        line.rindex(cell) + len(cell) == header.rindex(name) + len(name)
        for cell, name in (("72%", "of copy"), ("45.8x", "speedup"))
    )
    assert reason[1:] and all(part.startswith(" " * 10) and len(part) <= 70 for part in reason[1:])


def test_the_table_marks_what_is_noisy_and_says_what_the_mark_means(make):
    trace = make(noisy=[REASON])
    assert "*12.5 us  2.00x" in show_table([trace], 100)[2]
    (note,) = results_footnotes([make(), trace])
    assert note.startswith(f"* noisy: {REASON}.") and f"show {CUDA}@{assignments(trace.workload.axes)}" in note
    assert results_footnotes([make()]) == []


def show_table(traces, width):
    console = Console(width=width)
    with console.capture() as capture:
        console.print(results_table(traces))
    return capture.get().splitlines()


def test_a_cell_has_the_interval_if_it_is_wide_and_the_ratio_of_the_numbers_shown(make):
    trace = make(latency_ms=0.0176, reference_latency_ms=0.183, speedup_factor=1.1)
    assert show_table([trace], 100)[1:] == ["reference               183 us", f"{CUDA}  17.6 us  10.4x"]
    trace.evaluation.performance.latency_low_ms, trace.evaluation.performance.latency_high_ms = 0.0169, 0.0183
    assert show_table([trace], 100)[2] == f"{CUDA}  17.6 us ±4%  10.4x"
    trace.evaluation.performance.latency_low_ms = trace.evaluation.performance.latency_high_ms = 0.0177
    assert show_table([trace], 100)[2] == f"{CUDA}  17.6 us  10.4x"


def test_of_a_time_with_no_lower_bound_neither_a_speedup_nor_a_winner_is_reported(make):
    known, unknown = (make_batches(make, [7, 18], name) for name in ("known_v1", "unknown_v1"))
    for number, trace in enumerate(unknown):
        trace.evaluation.performance.latency_low_ms = 0.0 if number else 0.0005
        trace.evaluation.performance.latency_high_ms = trace.evaluation.performance.latency_ms
    assert show_table(unknown[1:], 100)[2] == "unknown_v1  0.56 us or less"
    assert fastest_line([*known, *unknown]).startswith("fastest on 1 of 2 workloads: known_v1 and unknown_v1")
    assert fastest_line([*known[1:], *unknown[1:]]) == ""


def make_batches(make, factors, name=CUDA):
    traces = [make(latency_ms=0.01 / factor, reference_latency_ms=0.01) for factor in factors]
    workloads = generate_workloads(RmsNorm().define(128), [10**digits for digits in range(len(factors))])
    for trace, workload in zip(traces, workloads, strict=True):
        trace.solution, trace.workload = name, workload
    return traces


def test_the_fastest_is_named_with_its_factors(make):
    fast, slow = make_batches(make, [7.04, 18.1], "fast_v1"), make_batches(make, [7.5, 9], "slow_v1")
    untimed = make_batches(make, [1, 1], "triton_v1")
    for trace in untimed:
        trace.evaluation.performance = Performance(interpreted=True)
    assert fastest_line([*untimed, *slow, *fast]) == "fastest: fast_v1, 7.04x to 18.1x as fast as the reference"
    assert fastest_line(fast[:1]) == "fastest: fast_v1, 7.04x as fast as the reference"
    assert fastest_line([*slow, fast[1]]) == "fastest: slow_v1, 7.50x to 9.00x as fast as the reference", (
        "over all batches"
    )
    assert fastest_line(untimed) == ""
    lines = show_table([*untimed, *slow], 100)
    assert [line.split() for line in lines if line.startswith("triton_v1")] == [["triton_v1", "correct", "correct"]]
    assert [line.split() for line in show_table(untimed, 100)[1:]] == [["triton_v1", "correct", "correct"]]


def test_those_that_tie_for_the_fastest_are_named_and_how_far_apart_they_may_be(make):
    first, second = make_batches(make, [7, 18], "a_v1"), make_batches(make, [7.01, 17.9], "b_v1")
    slow = make_batches(make, [5, 12], "c_v1")
    line = fastest_line([*slow, *first, *second])
    assert line.startswith("fastest: a_v1 and b_v1 (a tie: up to ") or line.startswith("fastest: b_v1 and a_v1 (a tie")
    assert line.endswith("% apart), 7.00x to 18.0x as fast as the reference")


def test_the_load_is_reported_once_at_the_end(make):
    traces = [make(clocks=Clocks(other_share=share)) for share in (0.01, 0.124)]
    assert results_footnotes(traces) == ["During the trials, other processes took 1% to 12% of the cores."]
    assert results_footnotes([make()]) == []


def test_a_failure_has_the_first_line_of_its_log_and_where_the_rest_is(make):
    trace = make()
    trace.evaluation.status = EvaluationStatus.RUNTIME_ERROR
    trace.evaluation.performance = None
    trace.evaluation.log = "a fault\nand more"
    assert result_text(trace).plain.endswith("  a fault")
    assert results_footnotes([trace]) == [
        f"Full failure logs: fib-rmsnorm show {CUDA}@{assignments(trace.workload.axes)}"
    ]


def last_line(*drafts, rivals=()):
    definition = RmsNorm().define(128)
    checks = {draft.workload.uuid: Check.of(draft) for draft in drafts}
    workloads = [draft.workload for draft in drafts]
    draft = kernel_for(definition, CUDA, RIGHT)
    return conclude(Version(1, CUDA, definition.name, HARDWARE, draft, workloads, checks, [*drafts, *rivals]))


def test_the_last_line_has_what_an_engineer_acts_on(make):
    draft = make(percent_of_copy=84.6, latency_low_ms=0.0124, latency_high_ms=0.0126)
    draft.evaluation.performance.clocks = Clocks(other_share=0.07)
    rival, smaller = make(latency_ms=0.025, latency_low_ms=0.0245, latency_high_ms=0.0255), make(bytes_moved=1)
    rival.solution = "torch"
    smaller.workload = draft.workload.model_copy(update={"uuid": "smaller"})
    line = last_line(smaller, draft, rivals=[rival])
    assert line.plain == (
        "rmsnorm_cuda_plain_v1 PASSED as rmsnorm_d128 (2 workloads, hard inputs included, no odd sizes);"
        " max difference 0.002; 2.00x the speed of torch on 1 of 2 workloads; 85% of a copy's speed; other processes"
        " took 7% of the cores"
    )
    assert "bold" not in str(line.style)  # only that it passed is


def test_the_last_line_has_no_number_that_was_not_timed(make):
    assert last_line(make(latency_ms=0, interpreted=True)).plain.endswith("; interpreted, so not timed")
    rival = make(noisy=[REASON], latency_low_ms=0.0124, latency_high_ms=0.0126)
    rival.solution = "torch"
    assert "; 1.00x the speed of torch (a tie: up to" in last_line(make(), rivals=[rival]).plain


def test_what_was_judged_is_what_the_judge_recorded(make):
    def judged(*kinds):
        check = Check.of(make())
        cases = [JudgedCase(case=kind, kind=kind, max_absolute_error=0, mismatched=0) for kind in kinds]
        check.correctness.extra = {"cases": [case.model_dump() for case in cases]}
        return check

    everything, no_size, own = judged("workload", "hard", "awkward"), judged("workload", "hard"), judged("workload")
    assert describe_judged([everything] * 3) == "3 workloads, hard inputs and odd sizes included"
    assert describe_judged([everything]) == "1 workload, hard inputs and odd sizes included"
    strided = judged("workload", "hard", "awkward", "strided")
    assert describe_judged([strided]) == "1 workload, hard inputs, odd sizes and strided rows included"
    assert describe_judged([no_size]) == "1 workload, hard inputs included, no odd sizes"
    own.judged_by = REFERENCE
    assert describe_judged([own]) == "1 workload, no hard inputs, no odd sizes, judged by the reference alone"
