"""The bench's line and table, the verdict of `try`, and the ranks of kernels that were judged side by side."""

import re

import pytest
from rich.console import Console

from fib_rmsnorm.analysis.feedback import Feedback, rank_kernels
from fib_rmsnorm.analysis.results import sum_up_run
from fib_rmsnorm.operators import RmsNorm
from fib_rmsnorm.reports.evaluations import LiveTable, describe_run, result_text, results_table
from fib_rmsnorm.reports.text.document import print_parts
from fib_rmsnorm.reports.verdicts import conclude, describe_side_by_side
from fib_rmsnorm.schema import Check, Clocks, EvaluationStatus, Performance
from fib_rmsnorm.sessions.version import Version
from support.full_registry import CUDA, HARDWARE, make_trace
from support.norms import kernel_for
from support.registries import RIGHT

REASON = "it takes 60% of a copy"


def as_text(parts):
    console = Console(width=1000)
    with console.capture() as capture:
        print_parts(parts, console)
    return capture.get()


@pytest.fixture
def make(full_registry):
    """A Trace with what is given changed in its Performance."""

    def run(**changes):
        trace = make_trace(full_registry.packed_solutions()[CUDA], full_registry.workloads("rmsnorm_d128")[0])
        trace.evaluation.performance = trace.evaluation.performance.model_copy(update=changes)
        return trace

    return run


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
    why = " ".join(["a reason with many words"] * 5)
    failed.evaluation.status, failed.evaluation.performance = EvaluationStatus.RUNTIME_ERROR, None
    failed.evaluation.log = f"{why}\nand more"
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
    assert " ".join(" ".join(reason).split()).endswith(why), "the first line of its log"


def test_a_run_ends_with_a_table_the_answer_and_its_doubts(make):
    noisy, failed = make(noisy=[REASON], clocks=Clocks(other_share=0.124)), make(clocks=Clocks(other_share=0.01))
    failed.solution, failed.evaluation.status = "wrong_v1", EvaluationStatus.RUNTIME_ERROR
    title, table, answer, *doubts = as_text(describe_run([noisy, failed])).split("\n\n")
    assert title == f"rmsnorm_d128 on {HARDWARE}: median latency ±, speedup; timer cpu_clock"
    assert "*12.5 us  2.00x" in table
    assert answer == f"{CUDA} is the fastest on batch=1. It reaches 2.00x that of the reference."
    assert "".join(doubts).splitlines() == [
        f"Noisy: {CUDA}@batch=1: {REASON}",
        "Full failure logs: fib-rmsnorm show wrong_v1@batch=1",
        "During the trials, other processes took 1% to 12% of the cores.",
    ]
    assert len([*describe_run([make()])]) == 3, "nothing to doubt"


def test_a_run_names_the_first_row_that_has_other_bits_in_another_batch(make):
    same, varies = make(), make()
    varies.solution = "varies_v1"
    for trace, recurrence in ((same, {"rows": 2}), (varies, {"rows": 2, "different": 1, "row": 0, "before": 1})):
        trace.evaluation.correctness.extra["cases"][1]["recurrence"] = recurrence
    assert "Batch-invariant: yes." in as_text(describe_run([same]))
    varying = "varies_v1 (no: row 1 of batch=1 has other bits than row 0 of hard rows, eps=1e-06)"
    assert f"Batch-invariant: all but {varying}." in as_text(describe_run([same, varies]))


def show_table(traces, width):
    console = Console(width=width)
    with console.capture() as capture:
        console.print(results_table(sum_up_run(traces)))
    return capture.get().splitlines()


def test_a_cell_has_the_interval_if_it_is_wide_and_the_ratio_of_the_numbers_shown(make):
    trace = make(latency_ms=0.0176, reference_latency_ms=0.183, speedup_factor=1.1)
    assert show_table([trace], 100)[1:] == ["reference               183 us", f"{CUDA}  17.6 us  10.4x"]
    trace.evaluation.performance.latency_low_ms, trace.evaluation.performance.latency_high_ms = 0.0169, 0.0183
    assert show_table([trace], 100)[2] == f"{CUDA}  17.6 us ±4%  10.4x"
    trace.evaluation.performance.latency_high_ms = 0.057
    assert show_table([trace], 100)[2] == f"{CUDA}  17.6 us ±114%  10.4x", "half the interval is 1.14 times the median"
    trace.evaluation.performance.latency_low_ms = trace.evaluation.performance.latency_high_ms = 0.0177
    assert show_table([trace], 100)[2] == f"{CUDA}  17.6 us  10.4x"


def test_of_a_time_with_no_lower_bound_no_speedup_is_reported(make):
    trace = make(latency_low_ms=0.0, latency_high_ms=0.0125)
    assert show_table([trace], 100)[2] == f"{CUDA}  12.5 us or less  ?"
    trace.evaluation.performance.latency_high_ms = 0.0277
    assert show_table([trace], 100)[2] == f"{CUDA}  12.5 us up to 27.7 us  ?"
    trace.evaluation.performance.latency_high_ms = None  # as of a single call
    assert "or less" not in show_table([trace], 100)[2]


def test_what_is_interpreted_is_correct_in_the_table(make):
    trace = make()
    trace.evaluation.performance = Performance(interpreted=True)
    assert show_table([trace], 100)[1:] == [f"{CUDA}  correct"]


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


KERNELS = [
    Feedback(kernel="wrong.py", definition="a", status="TIMEOUT", mistake="calling: timed out"),
    Feedback(kernel="interpreted.py", definition="a", status="PASSED", note="interpreted, so not timed"),
    Feedback(kernel="slow.py", definition="a", status="PASSED", speedup=0.5, interval=(0.4, 0.6)),
    Feedback(kernel="near.py", definition="a", status="PASSED", speedup=2.0, interval=(1.8, 2.2)),
    Feedback(kernel="fast.py", definition="a", status="PASSED", speedup=2.5, interval=(2.1, 3.0)),
]


def test_a_speedup_without_an_interval_outranks_none_that_has_one():
    noisy = Feedback(kernel="noisy.py", definition="a", status="PASSED", speedup=9.0)
    found = rank_kernels([noisy, *KERNELS], is_timed=True)
    assert [each.kernel for each in found.kernels][2:5] == ["slow.py", "noisy.py", "interpreted.py"]
    (row,) = [line for line in as_text(describe_side_by_side(found)).splitlines() if line.startswith("noisy.py")]
    assert row.endswith("  not ranked: its interval is unknown")


def test_intervals_that_overlap_are_a_tie():
    assert as_text(describe_side_by_side(rank_kernels(KERNELS, is_timed=True))).splitlines() == [
        "kernel          speedup  interval        status   remark",
        "fast.py           2.50x  2.10x to 3.00x  PASSED",
        "near.py           2.00x  1.80x to 2.20x  PASSED   a tie with fast.py",
        "slow.py           0.50x  0.40x to 0.60x  PASSED",
        "interpreted.py                           PASSED   interpreted, so not timed",
        "wrong.py                                 TIMEOUT  calling: timed out",
        "",
        "Correct and more than p times as fast as the reference, of 5 kernels: fast_0 0.80, fast_1 0.40, fast_2 0.20",
    ]


def test_the_definition_is_named_where_there_are_several():
    other = KERNELS[0].model_copy(update={"definition": "b"})
    header, *_ = as_text(describe_side_by_side(rank_kernels([*KERNELS, other], is_timed=True))).splitlines()
    assert header.split()[:2] == ["kernel", "definition"]
