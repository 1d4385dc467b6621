"""A gate on slowdowns. It does not pass what it was asked to judge and could not."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

from fib_rmsnorm.analysis.comparing.comparison import Comparisons, SolutionComparison

MISSING = "missing"
"""NEW lacks timings that OLD has."""
SUSPECT = "suspect"
"""A number of OLD or NEW is SUSPECT."""
UNRESOLVED = "unresolved"
"""A slowdown of the limit cannot be told from none."""
TOLERATED = (MISSING, SUSPECT, UNRESOLVED)
"""What a gate may be told to let pass, besides conditions that differ."""


@dataclass(frozen=True)
class Unjudged:
    """A comparison that cannot be decided."""

    comparison: SolutionComparison
    kind: str
    """The word by which `--allow` lets it pass."""
    why: str


def find_unjudged(found: Comparisons, max_slowdown: float, allow: Collection[str] = ()) -> list[Unjudged]:
    """What cannot be judged by the limit, except what `allow` lets pass."""
    return [
        Unjudged(each, kind, why)
        for each in found.comparisons
        for kind, why in _doubts(each, max_slowdown)
        if kind not in allow
    ]


def _doubts(each: SolutionComparison, max_slowdown: float) -> Iterator[tuple[str, str]]:
    """At most one kind of doubt, and what it is.

    UNRESOLVED is what a slowdown of the limit would have looked like too, unless the interval excludes one. A limit of
    0 asks only for what is certainly slower.
    """
    if each.verdict == "suspect":
        yield SUSPECT, f"SUSPECT: {each.why_suspect}"
    elif (
        max_slowdown
        and each.verdict == "no different"
        and each.ratio is not None
        and each.resolution is not None
        and min(each.resolution, each.ratio.high - 1) > max_slowdown
    ):
        yield UNRESOLVED, f"a slowdown below {each.resolution:.1%} cannot be detected"
