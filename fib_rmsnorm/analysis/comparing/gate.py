"""A gate on slowdowns: it names what it cannot judge, which must not look like a pass."""

from __future__ import annotations

from fib_rmsnorm.analysis.comparing.comparison import Comparisons, SolutionComparison

MISSING = "missing"
"""NEW lacks timings that OLD has: what a gate may be told to let pass, besides conditions that differ."""


def find_unjudged(found: Comparisons, max_slowdown: float) -> list[SolutionComparison]:
    """The ties that may hide a slowdown of more than the limit.

    A limit of 0 asks only for what is certainly slower, so every tie passes.
    """
    return [
        each
        for each in found.comparisons
        if max_slowdown
        and each.verdict == "tie"
        and each.ratio is not None
        and min(each.ratio.high - 1, each.resolution or 0.0) > max_slowdown
    ]
