"""The verdict on a draft: whether it is correct, and how fast beside its rivals; a line for each version; a ranking."""

from collections.abc import Iterator, Sequence
from itertools import groupby

from rich.console import Console, RenderableType
from rich.text import Text

from fib_rmsnorm.analysis.feedback import Feedback, SideBySide, relate_rivals
from fib_rmsnorm.registry.selection import show_name
from fib_rmsnorm.reports.evaluations import LiveTable, describe_load, first_line, latency_text
from fib_rmsnorm.reports.results import describe_noisy
from fib_rmsnorm.reports.text.console import Folded
from fib_rmsnorm.reports.text.control_characters import marked
from fib_rmsnorm.reports.text.document import Grid, Part
from fib_rmsnorm.reports.text.units import count, format_apart, format_percent, format_range, format_ratio, join_names
from fib_rmsnorm.schema import REFERENCE, CaseKind, Check, EvaluationStatus, SupportedLanguages, Trace, list_cases
from fib_rmsnorm.sessions.version import Version

_MOST_LINES = 5
"""The most lines that are shown of what a kernel printed, and of where its outputs are wrong."""
_LOG_LINES = 12


def describe_version(version: Version, console: Console) -> Iterator[RenderableType]:
    """A line for each evaluation, in the order of the Workloads, then why one failed, and the verdict."""
    titles, records = version.titles, version.records
    timed = [(told, told.performance) for told in records if isinstance(told, Trace) and told.performance]
    table = LiveTable((each.solution or "" for each in records), titles.values(), console)
    if any(not performance.interpreted for _, performance in timed):
        yield table.header()
    for told in records:
        yield table.line(told, titles[told.workload.uuid], tells_why=told.solution != version.kernel)
    if printed := _describe_prints(version):
        yield Folded(f"\n{printed}", 4)
    if failures := _describe_failures(version):
        yield Folded(f"\n{failures}", 2)
    for doubt in describe_noisy(
        (show_name(told.solution or "", titles[told.workload.uuid]), performance.noisy) for told, performance in timed
    ):
        yield Folded(Text(f"\n{doubt.text}", "yellow"), 4)
    yield ""
    yield Folded(conclude(version), 4)


def _describe_failures(version: Version) -> str:
    """The logs of failed evaluations after their first lines, once for each first line.

    The first of these first lines is left to the verdict.
    """
    alike: dict[tuple[EvaluationStatus, str], list[Check]] = {}
    for check in version.failures:
        alike.setdefault((check.status, first_line(check.log)), []).append(check)
    parts = []
    for number, ((status, reason), some) in enumerate(alike.items()):
        # Each as one word, or a comma would stand between two Workloads and within one.
        at = ", ".join(version.titles[check.workload.uuid].replace(" ", "") for check in some)
        lines = some[0].log.strip().splitlines()[1:]
        more = len(lines) - _MOST_LINES if status is EvaluationStatus.INCORRECT_NUMERICAL else 0
        shown = [marked("\n".join(lines[:_MOST_LINES] if more > 0 else lines))] if lines else []
        left = [f"[... {count(more, 'more line')} with --json --verbose]"] if more > 0 else []
        if number or shown:
            parts.append("\n".join([f"{at}: {reason if number else status.value}", *shown, *left]))
    return "\n\n".join(parts)


def conclude(version: Version) -> Text:
    """One line: correct or why not, by which Definition and on what, how fast, and the machine's load."""
    failed, left = version.failures, len(version.workloads) - len(version.checks)
    if failed:
        where = f"{len(failed)} of {count(len(version.workloads), 'workload')}{f' ({left} not tried)' if left else ''}"
        why = f"{failed[0].status.value}: {first_line(failed[0].log)}"
        return Text(f"{version.kernel} FAILED as {version.definition} on {where}: {why}", style="bold red")
    text = Text.assemble((f"{version.kernel} PASSED", "bold green"))  # and only that
    checks = [*version.checks.values()]
    errors = [check.correctness.max_absolute_error for check in checks if check.correctness]
    difference = f"max difference {max(errors):.2g}; " if errors else ""
    text.append(f" as {version.definition} ({_describe_judged(checks)}); {difference}")
    text.append("; ".join(_describe_speed(version)) if version.traces else "not timed")
    text.append(f"; batch-invariant: {version.batch_invariance}" if version.batch_invariance else "")
    text.append(f"; with an empty batch: {version.empty_batch}" if version.empty_batch else "")
    far, language = version.far_rows, version.solution.spec.language if version.solution else None
    if far is None and language is SupportedLanguages.TRITON:
        far = "not run here; fib-rmsnorm explain names offsets that wrap in 32 bits"
    elif far is None and language is SupportedLanguages.CPP and not version.traces:
        far = "not run with --check"
    return text.append(f"; beyond 2^31 elements: {first_line(far)}" if far else "")


def _describe_judged(checks: Sequence[Check]) -> str:
    """On what the draft was judged: `3 workloads, hard inputs and odd sizes included`."""
    kinds: dict[str, CaseKind] = {"hard inputs": "hard", "odd sizes": "awkward", "strided rows": "strided"}
    found = [words for words, kind in kinds.items() if any(check.count_cases(kind) for check in checks)]
    told = [count(len(checks), "workload"), *([f"{join_names(found)} included"] if found else [])]
    told += [f"no {words}" for words, kind in kinds.items() if words not in found and kind != "strided"]
    return ", ".join(told) + (", judged by the reference alone" if checks[0].judged_by == REFERENCE else "")


def _describe_speed(version: Version) -> Iterator[str]:
    """The speed relative to each rival and to the copy, over all Workloads, and the machine's load."""
    own = version.timings
    if not own:
        yield "interpreted, so not timed"
        return
    for name, ratios in relate_rivals(version).items():
        line = f"{format_range([ratio.value for ratio in ratios], format_ratio)} the speed of {name}"
        if all(ratio.verdict == "tie" for ratio in ratios):
            line += f" (a tie: up to {format_apart(max(ratio.apart for ratio in ratios))} apart)"
        yield line + (f" on {len(ratios)} of {len(own)} workloads" if len(ratios) < len(own) else "")
    if share := _describe_share(version):
        yield f"{share} of a copy's speed"
    if load := describe_load(own):
        yield load


def _describe_share(version: Version) -> str:
    """The speed in percent of a copy's, over all Workloads but noisy ones; empty if none was measured."""
    timed = [trace.performance for trace in version.timings if trace.performance and not trace.performance.noisy]
    shares = [each.percent_of_copy for each in timed if each.percent_of_copy]
    return format_range(shares, format_percent) if shares else ""


def _describe_prints(version: Version) -> str:
    """The kernel's output on the first Workload on which it passed and printed; empty if there is none.

    A call is repeated many times, so lines that repeat are told once, with their number.
    """
    talkative = [check for check in version.checks.values() if check.passed and check.log.strip()]
    if not talkative:
        return ""
    first, *others = talkative
    repeated = [(line, len(list(same))) for line, same in groupby(first.log.strip("\n").splitlines())]
    lines = [line if times == 1 else f"{line}  ({times} times)" for line, times in repeated]
    more = len(lines) - _MOST_LINES
    left = [f"[... {count(more, 'more line')} with --json]"] if more > 0 else []
    elsewhere = f", and at {count(len(others), 'more workload')} (with --json)" if others else ""
    return "\n".join(
        [f"printed at {version.titles[first.workload.uuid]}{elsewhere}:", marked("\n".join(lines[:_MOST_LINES])), *left]
    )


def version_line(version: Version) -> Text:
    """One version in one line: correct or not, by which Definition, and how fast beside its rivals."""
    line = Text(f"#{version.number}  {version.kernel}  ")
    line.append(version.status, style="green" if version.passed else "bold red")
    line.append(f" as {version.definition}" if version.definition else "")
    if reason := _reason(version):
        return line.append(f"  {reason}")
    if version.passed:
        cases = sum(len(list_cases(check.correctness)) for check in version.checks.values())
        judged = f"{count(cases, 'case')} of {count(len(version.checks), 'workload')} judged"
        line.append(f"  {judged} in {version.verdict_s:.1f} s")
    timed = [(version.titles[trace.workload.uuid], trace.performance) for trace in version.timings]
    parts = [f"{title} {latency_text(performance)}" for title, performance in timed if performance]
    for name, ratios in relate_rivals(version).items():
        parts.append(f"{format_range([ratio.value for ratio in ratios], format_ratio)} {name}")
    if share := _describe_share(version):
        parts.append(f"{share} of copy")
    line.append("".join(f"  {part}" for part in parts))
    return line.append(f"  ({version.note})" if version.note else "")


def version_details(version: Version) -> list[Text]:
    """The details for which one line has no room."""
    lines = []
    for check in version.failures[:1]:
        lines += [Text(marked(line)) for line in check.log.strip().splitlines()[1:_LOG_LINES]]
    for trace in version.timings:
        if trace.performance and (noisy := trace.performance.noisy):
            lines.append(Text(f"noisy at {version.titles[trace.workload.uuid]}: {'; '.join(noisy)}", style="yellow"))
    return lines


def _reason(version: Version) -> str:
    """Why a version failed, with the first Workload that shows it."""
    if failures := version.failures:
        return f"{version.titles[failures[0].workload.uuid]}: {first_line(failures[0].log)}"
    return version.refused or version.skipped


def describe_side_by_side(found: SideBySide) -> Iterator[Part]:
    """A table, the fastest first, and fast_p."""
    definitions = {each.definition for each in found.kernels if each.definition}
    columns = ("kernel", "definition", ">speedup", "interval", "status", "remark")
    yield Grid(columns, [_ranked_row(each, found, names_definition=len(definitions) > 1) for each in found.kernels])
    shares = ", ".join(f"fast_{p} {share:.2f}" for p, share in found.fast_p.items())
    faster = " and more than p times as fast as the reference" if len(found.fast_p) > 1 else ""
    yield f"Correct{faster}, of {count(len(found.judged), 'kernel')}: {shares}"


def _ranked_row(kernel: Feedback, found: SideBySide, *, names_definition: bool) -> Sequence[str]:
    noisy = "*" if any(speed.noisy for speed in kernel.speeds) else ""
    rank = f"a tie with {found.kernels[0].kernel}" if found.is_tied(kernel) else ""
    if kernel.speedup and not kernel.interval:
        rank = "not ranked: its interval is unknown"
    return (
        kernel.kernel,
        (kernel.definition or "") if names_definition else "",
        f"{noisy}{format_ratio(kernel.speedup)}" if kernel.speedup else "",
        " to ".join(map(format_ratio, kernel.interval or ())),
        kernel.status,
        "; ".join(filter(None, (rank, kernel.mistake, kernel.hint, kernel.note))),
    )
