"""What a correct kernel printed: its author may have put it there to learn something."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import groupby

from fib_rmsnorm.reports.text.control_characters import marked
from fib_rmsnorm.reports.text.units import count
from fib_rmsnorm.schema import Check

_MOST_LINES = 10


def describe_prints(checks: Iterable[Check], titles: Mapping[str, str]) -> str:
    """What the kernel printed on the first Workload on which it passed and printed; empty if there is none.

    A call is repeated many times, so lines that repeat are told once, with their number. `titles` are those of the
    Workloads, by uuid.
    """
    talkative = [check for check in checks if check.passed and check.log.strip()]
    if not talkative:
        return ""
    first, *others = talkative
    lines = [_describe_line(line, len(list(same))) for line, same in groupby(first.log.strip("\n").splitlines())]
    more = len(lines) - _MOST_LINES
    left = [f"[... {count(more, 'line')} more with --json]"] if more > 0 else []
    elsewhere = f", and at {count(len(others), 'more workload')} (with --json)" if others else ""
    return "\n".join(
        [f"printed at {titles[first.workload.uuid]}{elsewhere}:", marked("\n".join(lines[:_MOST_LINES])), *left]
    )


def _describe_line(line: str, times: int) -> str:
    return line if times == 1 else f"{line}  ({times} times)"
