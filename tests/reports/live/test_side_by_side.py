"""Kernels that were judged side by side are ranked, and what their intervals do not tell apart is a tie."""

from __future__ import annotations

from fib_rmsnorm.reports.feedback import Feedback
from fib_rmsnorm.reports.live.side_by_side import describe_side_by_side, rank_kernels
from fib_rmsnorm.reports.text.document import as_text

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
    assert as_text(describe_side_by_side(rank_kernels(KERNELS, is_timed=True))).splitlines()[:6] == [
        "kernel          speedup  interval        status   remark",
        "fast.py           2.50x  2.10x to 3.00x  PASSED",
        "near.py           2.00x  1.80x to 2.20x  PASSED   a tie with fast.py",
        "slow.py           0.50x  0.40x to 0.60x  PASSED",
        "interpreted.py                           PASSED   interpreted, so not timed",
        "wrong.py                                 TIMEOUT  calling: timed out",
    ]


def test_the_definition_is_named_where_there_are_several():
    other = KERNELS[0].model_copy(update={"definition": "b"})
    header, *_ = as_text(describe_side_by_side(rank_kernels([*KERNELS, other], is_timed=True))).splitlines()
    assert header.split()[:2] == ["kernel", "definition"]
