"""The versions of a kernel in a session: a line for each."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.text import Text

from fib_rmsnorm.analysis.estimate import recorded
from fib_rmsnorm.reports.live.evaluations import first_line
from fib_rmsnorm.reports.text.control_characters import marked
from fib_rmsnorm.reports.text.units import count, format_either_side, format_latency, format_percent, format_ratio
from fib_rmsnorm.sessions.version import Rival, Version, VersionTiming

_LOG_LINES = 12


def version_line(version: Version) -> Text:
    """One version in one line: right or wrong, by which Definition, and how fast beside its rivals."""
    line = Text(f"#{version.number}  {version.kernel}  ")
    line.append(version.status, style="green" if version.passed else "bold red")
    line.append(f" as {version.definition}")
    if reason := _reason(version):
        return line.append(f"  {reason}")
    if version.passed:
        cases = sum(verdict.cases for verdict in version.verdicts)
        judged = f"{count(cases, 'case')} of {count(len(version.verdicts), 'workload')} judged"
        line.append(f"  {judged} in {version.verdict_s:.1f} s")
    parts = [f"{timing.title} {_latency(timing)}" for timing in version.timings]
    parts += [f"{cell} {name}" for name, cell in _comparisons(version).items() if cell]
    line.append("".join(f"  {part}" for part in parts))
    if version.note:
        line.append(f"  ({version.note})")
    return line


def version_details(version: Version) -> list[Text]:
    """What one line has no room for."""
    lines = []
    for verdict in version.failures[:1]:
        lines += [Text(marked(line)) for line in verdict.log.strip().splitlines()[1:_LOG_LINES]]
    lines += [
        Text(f"noisy at {timing.title}: {'; '.join(timing.noisy)}", style="yellow")
        for timing in version.timings
        if timing.noisy
    ]
    return lines


def _reason(version: Version) -> str:
    """Why a version failed, with the first Workload that shows it."""
    if version.refused:
        return version.refused
    failures = version.failures
    return f"{failures[0].title}: {first_line(failures[0].log)}" if failures else ""


def _comparisons(version: Version) -> dict[str, str]:
    """The speed relative to the version before, the baseline and the copy, over all Workloads that were timed."""
    if not version.timings:
        return {}
    cells: dict[str, str] = {}
    rivals = [rival for timing in version.timings for rival in (timing.before, timing.baseline) if rival]
    before = [timing.before for timing in version.timings if timing.before]
    cells["before"] = _ratios(before) if before else ""
    for name in dict.fromkeys(rival.solution for rival in rivals if rival not in before):
        cells[name] = _ratios([rival for rival in rivals if rival.solution == name])
    shares = [timing.percent_of_copy for timing in version.timings if timing.percent_of_copy]
    cells["of copy"] = _range(map(format_percent, (min(shares), max(shares)))) if shares else ""
    return cells


def _ratios(rivals: Sequence[Rival]) -> str:
    ratios = [rival.ratio for rival in rivals if rival.ratio is not None]
    return _range(map(format_ratio, (min(ratios), max(ratios)))) if ratios else ""


def _range(ends: Iterable[str]) -> str:
    return " to ".join(dict.fromkeys(ends))


def _latency(timing: VersionTiming) -> str:
    interval = recorded(timing.latency_ms, timing.latency_low_ms, timing.latency_high_ms)
    return f"{'*' if timing.noisy else ''}{format_latency(timing.latency_ms)} {format_either_side(interval)}".rstrip()
