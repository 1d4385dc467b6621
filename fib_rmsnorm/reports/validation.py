"""A validation, a line a finding: `path:line: error: message`, which editors can jump to."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import asdict

from rich.text import Text

from fib_rmsnorm.registry.validation import Finding, Validation
from fib_rmsnorm.reports.text.units import count

_STYLES = {"error": "bold red", "warning": "yellow", "note": "cyan"}


def finding_line(finding: Finding) -> Text:
    """One finding in one line."""
    place = finding.path if finding.line is None else f"{finding.path}:{finding.line}"
    message = " ".join(finding.message.split())
    return Text.assemble(f"{place}: ", (f"{finding.level}:", _STYLES[finding.level]), f" {message}")


def verdict_line(validation: Validation) -> Text:
    """What was checked, and whether it is sound."""
    levels = Counter(sorted(finding.level for finding in validation.findings))
    found = ", ".join(count(levels[level], level) for level in levels)
    checked = ", ".join(count(number, kind[:-1].capitalize()) for kind, number in validation.counts.items())
    verdict = ("Valid", "green") if validation.is_valid else ("Not valid", "bold red")
    return Text.assemble(verdict, f": {checked}" + (f"; {found}" if found else ""))


def validation_json(validation: Validation) -> str:
    """The same as JSON."""
    record = {
        "root": str(validation.root),
        "valid": validation.is_valid,
        "counts": validation.counts,
        "findings": [asdict(finding) for finding in validation.findings],
    }
    return json.dumps(record, indent=2)
