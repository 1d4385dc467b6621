"""Generate the tables of docs/appendix/cheats-evidence.md: the kernels in tests/, and two evaluators' verdicts."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from support.kernels import Kernel

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]
PAGE = ROOT / "docs" / "appendix" / "cheats-evidence.md"
COMPARISON = ROOT / "experiments" / "upstream_verdicts.json"  # by experiments/compare_with_upstream.py
ENDS = "<!-- end -->"
UPSTREAM = "flashinfer-bench"

Row = tuple[str, ...]


def make_page() -> str:
    """Return the page with new tables between its markers."""
    text = PAGE.read_text(encoding="utf-8")
    compared = json.loads(COMPARISON.read_text(encoding="utf-8"))
    header = ("kernel", "what it does")
    for name, table in (
        ("wrong kernels", _table((*header, "found by", "status", UPSTREAM), _wrong_rows(compared))),
        ("honest kernels", _table((*header, UPSTREAM), _honest_rows(compared))),
        ("verdicts", _summary(compared)),
    ):
        before, marker, rest = text.partition(f"<!-- table: {name} -->")
        _, _, after = rest.partition(ENDS)
        text = f"{before}{marker}\n{table}\n{ENDS}{after}"
    return text


def _table(header: Row, rows: Iterable[Row]) -> str:
    lines = [header, tuple("---" for _ in header), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def _wrong_rows(compared: dict[str, Any]) -> Iterator[Row]:
    from support.kernels import read_kernels

    kernels = read_kernels("wrong").values()
    for kernel in sorted(kernels, key=lambda kernel: (kernel.guard, kernel.name)):
        status = kernel.expected["status"]
        if other := kernel.expected.get("on_cuda", {}).get("status"):
            status += f" (GPU: {other})"
        verdict = _their_verdict(compared, f"wrong/{kernel.name}")
        yield (_describe(kernel), kernel.description, kernel.guard, status, verdict)


def _honest_rows(compared: dict[str, Any]) -> Iterator[Row]:
    from support.kernels import read_kernels

    for kernel in read_kernels("honest").values():
        yield (_describe(kernel), kernel.description, _their_verdict(compared, f"honest/{kernel.name}"))


def _summary(compared: dict[str, Any]) -> str:
    def count(kind: str) -> Row:
        kernels = [both for name, both in compared["kernels"].items() if name.startswith(kind)]
        ours, theirs = (
            sum((both[who] or {}).get("status") == "PASSED" for both in kernels) for who in ("ours", "upstream")
        )
        return (f"{kind} kernels that pass", f"{ours} of {len(kernels)}", f"{theirs}")

    header = ("", "fib-rmsnorm", f"{UPSTREAM} {compared['libraries'][UPSTREAM]}")
    where = f"{compared['hardware']}, `{compared['definition']}` at batch {compared['batch']}"
    elsewhere = Counter(both["hardware"] for both in compared["kernels"].values() if "hardware" in both)
    where += "".join(f" ({number} of the kernels on {hardware})" for hardware, number in elsewhere.items())
    return f"On {where}:\n\n" + _table(header, map(count, ("wrong", "honest")))


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
