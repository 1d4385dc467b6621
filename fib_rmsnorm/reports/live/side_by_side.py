"""Several kernels that were judged side by side: ranked, and how many are correct and fast."""

from collections.abc import Iterator, Sequence

from pydantic import BaseModel

from fib_rmsnorm.reports.feedback import Feedback
from fib_rmsnorm.reports.text.document import Grid, Part
from fib_rmsnorm.reports.text.units import count, format_ratio

_THRESHOLDS = (0, 1, 2)
_PASSED, _SKIPPED = "PASSED", "SKIPPED"


class SideBySide(BaseModel):
    """Kernels: those that were timed by their speedup, the other correct ones, and the wrong ones."""

    kernels: list[Feedback]
    fast_p: dict[str, float]
    """KernelBench's measure: the share of those judged that are correct and over p times as fast as the reference."""

    def to_json(self) -> str:
        """One line, without what is not known of a kernel."""
        return self.model_dump_json(exclude_defaults=True)


def rank_kernels(found: Sequence[Feedback], *, is_timed: bool) -> SideBySide:
    """Rank kernels, and count the fast ones; those that are correct alone if nothing was timed.

    Behind those whose speedup has an interval come those without, of which nobody knows how sure it is.
    """
    ranked = sorted(
        found,
        key=lambda each: (each.status != _PASSED, each.status == _SKIPPED, not each.interval, -(each.speedup or 0)),
    )
    judged = [each for each in ranked if each.status != _SKIPPED]
    thresholds = _THRESHOLDS if is_timed else _THRESHOLDS[:1]
    fast_p = {str(p): _count_fast(judged, p) / max(1, len(judged)) for p in thresholds}
    return SideBySide(kernels=ranked, fast_p=fast_p)


def _count_fast(kernels: Sequence[Feedback], least: float) -> int:
    correct = [each for each in kernels if each.status == _PASSED]
    return len([each for each in correct if (each.speedup or 0) > least]) if least else len(correct)


def describe_side_by_side(found: SideBySide) -> Iterator[Part]:
    """A table, the fastest first, and fast_p."""
    definitions = {each.definition for each in found.kernels if each.definition}
    columns = ("kernel", "definition", ">speedup", "interval", "status", "remark")
    fastest = found.kernels[0]
    yield Grid(columns, [_row(each, fastest, names_definition=len(definitions) > 1) for each in found.kernels])
    judged = len([each for each in found.kernels if each.status != _SKIPPED])
    shares = ", ".join(f"fast_{p} {share:.2f}" for p, share in found.fast_p.items())
    faster = " and more than p times as fast as the reference" if len(found.fast_p) > 1 else ""
    yield f"{shares}: of {count(judged, 'kernel')}, correct{faster}"


def _row(kernel: Feedback, fastest: Feedback, *, names_definition: bool) -> Sequence[str]:
    noisy = "*" if any(speed.noisy for speed in kernel.speeds) else ""
    return (
        kernel.kernel,
        (kernel.definition or "") if names_definition else "",
        f"{noisy}{format_ratio(kernel.speedup)}" if kernel.speedup else "",
        " to ".join(map(format_ratio, kernel.interval or ())),
        kernel.status,
        "; ".join(filter(None, (_describe_rank(kernel, fastest), kernel.mistake, kernel.hint, kernel.note))),
    )


def _describe_rank(kernel: Feedback, fastest: Feedback) -> str:
    """A tie with the first kernel: neither interval is above the other. Or that there is no interval."""
    if kernel.speedup and not kernel.interval:
        return "not ranked: its interval is unknown"
    if kernel is fastest or not kernel.interval or not fastest.interval or kernel.interval[1] < fastest.interval[0]:
        return ""
    return f"a tie with {fastest.kernel}"
