"""Read what compute-sanitizer writes: lines behind `=========`, the details of a report further to the right."""

from __future__ import annotations

import re
from dataclasses import dataclass

_LINE = re.compile(r"^={8,}(.*)$", re.MULTILINE)
_SUMMARY = re.compile(r"(?:ERROR SUMMARY: (\d+) errors?|RACECHECK SUMMARY: (\d+) hazards? displayed \(.*\))$")
# Lines at the left that report nothing about a kernel. Those that begin with "Error" say why the tool saw none.
_ABOUT_THE_RUN = re.compile(
    r"COMPUTE-SANITIZER|(ERROR|RACECHECK|LEAK) SUMMARY|Target application returned an error|Tracking kernels launched"
    r"|Default timeout can be adjusted|Error: (?!Race reported)"
)
_BACKTRACE = re.compile(r"Saved host backtrace|Host Frame")


@dataclass
class SanitizerFinding:
    """What the tool reports about one place of a kernel."""

    what: str
    """The first line: `Invalid __global__ read of size 2 bytes`."""
    details: list[str]
    """The lines below that of the first report: kernel, thread, address."""
    reports: int = 1
    """How many reports are alike but for the thread and the address."""


@dataclass(frozen=True)
class SanitizerLog:
    """The text of one run."""

    errors: int | None
    """What the tool counted at the end, more than it printed maybe; None if it did not come to its end."""
    findings: list[SanitizerFinding]
    failures: list[str]
    """Why the tool could not watch the process."""


def parse_log(text: str) -> SanitizerLog:
    """Parse the tool's text of any of its checks."""
    errors: int | None = None
    findings: list[SanitizerFinding] = []
    failures: list[str] = []
    current: SanitizerFinding | None = None
    for line in _LINE.findall(text):
        told = line.strip()
        if summary := _SUMMARY.match(told):
            errors = int(summary[1] or summary[2])
        elif not told:
            current = None
        elif line.startswith("  "):
            if current is not None and not _BACKTRACE.match(told):
                current.details.append(told)
        elif _ABOUT_THE_RUN.match(told):
            current = None
            failures += [told.removeprefix("Error: ")] if told.startswith("Error: ") else []
        else:
            current = SanitizerFinding(told, [])
            findings.append(current)
    return SanitizerLog(errors, _join_alike(findings), failures)


def _join_alike(findings: list[SanitizerFinding]) -> list[SanitizerFinding]:
    """One finding for the reports of all threads that met the same fault at the same place."""
    joined: dict[tuple[str, str], SanitizerFinding] = {}
    for each in findings:
        place = next((detail for detail in each.details if detail.startswith("at ")), "")
        first = joined.setdefault((each.what, place), each)
        first.reports += first is not each
    return list(joined.values())
