"""Generate the tables of docs/appendix/cheats-evidence.md: the kernels in tests/, and two evaluators' verdicts."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from support.kernels import Kernel

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]
PAGE = ROOT / "docs" / "appendix" / "cheats-evidence.md"
COMPARISON = ROOT / "experiments" / "upstream_verdicts.json"  # by experiments/compare_with_upstream.py
ENDS = "<!-- end -->"

Row = tuple[str, ...]


def make_page() -> str:
    """Return the page with new tables between its markers."""
    text = PAGE.read_text(encoding="utf-8")
    compared = json.loads(COMPARISON.read_text(encoding="utf-8")) if COMPARISON.exists() else None
    for name, table in (
        ("wrong kernels", _table(_wrong_header(compared), _wrong_rows(compared))),
        ("honest kernels", _table(_honest_header(compared), _honest_rows(compared))),
        ("verdicts", _summary(compared)),
    ):
        before, marker, rest = text.partition(f"<!-- table: {name} -->")
        _, _, after = rest.partition(ENDS)
        text = f"{before}{marker}\n{table}\n{ENDS}{after}"
    return text


def _table(header: Row, rows: Iterator[Row]) -> str:
    lines = [header, tuple("---" for _ in header), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def _wrong_header(compared: dict[str, Any] | None) -> Row:
    return ("kernel", "what it does", "found by", "status", *(["flashinfer-bench"] if compared else []))


def _wrong_rows(compared: dict[str, Any] | None) -> Iterator[Row]:
    from support.kernels import read_kernels

    kernels = read_kernels("wrong").values()
    for kernel in sorted(kernels, key=lambda kernel: (kernel.guard, kernel.name)):
        status = kernel.expected["status"]
        if other := kernel.expected.get("on_cuda", {}).get("status"):
            status += f" (GPU: {other})"
        verdict = [_their_verdict(compared, f"wrong/{kernel.name}")] if compared else []
        yield (_describe(kernel), kernel.description, kernel.guard, status, *verdict)


def _honest_header(compared: dict[str, Any] | None) -> Row:
    return ("kernel", "what it does", *(["flashinfer-bench"] if compared else []))


def _honest_rows(compared: dict[str, Any] | None) -> Iterator[Row]:
    from support.kernels import read_kernels

    for kernel in read_kernels("honest").values():
        verdict = [_their_verdict(compared, f"honest/{kernel.name}")] if compared else []
        yield (_describe(kernel), kernel.description, *verdict)


def _summary(compared: dict[str, Any] | None) -> str:
    if compared is None:
        return "Not measured yet."
    wrong = {name: both for name, both in compared["kernels"].items() if name.startswith("wrong/")}
    honest = {name: both for name, both in compared["kernels"].items() if name.startswith("honest/")}

    def passed(kernels: dict[str, Any], who: str) -> int:
        return sum((both[who] or {}).get("status") == "PASSED" for both in kernels.values())

    theirs = f"flashinfer-bench {compared['libraries']['flashinfer-bench']}"
    rows = [
        ("wrong kernels that pass", f"{passed(wrong, 'ours')} of {len(wrong)}", f"{passed(wrong, 'upstream')}"),
        ("honest kernels that pass", f"{passed(honest, 'ours')} of {len(honest)}", f"{passed(honest, 'upstream')}"),
    ]
    where = f"{compared['hardware']}, `{compared['definition']}` at batch {compared['batch']}"
    elsewhere = Counter(both["hardware"] for both in compared["kernels"].values() if "hardware" in both)
    where += "".join(f" ({count} of the kernels on {hardware})" for hardware, count in elsewhere.items())
    return f"On {where}:\n\n" + _table(("", "fib-rmsnorm", theirs), iter(rows))


def _their_verdict(compared: dict[str, Any], name: str) -> str:
    verdict = compared["kernels"].get(name, {}).get("upstream")
    if verdict is None:
        return ""
    if verdict["status"] is None:
        return "no verdict"
    speedup = f", {verdict['speedup']:g}x" if "speedup" in verdict else ""
    return f"**PASSED**{speedup}" if verdict["status"] == "PASSED" else verdict["status"]


def _describe(kernel: Kernel) -> str:
    where = " and ".join({"cpu": "CPU", "cuda": "GPU"}[kind] for kind in kernel.target_hardware)
    return f"`{kernel.name}` ({kernel.language}, {where})"
