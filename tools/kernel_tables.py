"""Generate the tables of docs/appendix/cheats-evidence.md: the kernels in tests/, and other evaluators' verdicts."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from support.kernels import Kernel

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]
PAGE = ROOT / "docs" / "appendix" / "cheats-evidence.md"
COMPARISONS = ("upstream_verdicts.json", "peer_verdicts.json")  # by experiments/compare_with_*.py
ENDS = "<!-- end -->"
OTHERS = {"upstream": "flashinfer-bench", "kernrl": "kernrl"}
"""The other evaluators: as the comparisons call them, and their names."""

Row = tuple[str, ...]
Comparison = dict[str, Any]


def make_page() -> str:
    """Return the page with new tables between its markers."""
    text = PAGE.read_text(encoding="utf-8")
    compared = [json.loads((ROOT / "experiments" / name).read_text(encoding="utf-8")) for name in COMPARISONS]
    header = ("kernel", "what it does")
    for name, table in (
        ("wrong kernels", _table((*header, "found by", "status", *OTHERS.values()), _wrong_rows(compared))),
        ("honest kernels", _table((*header, *OTHERS.values()), _honest_rows(compared))),
        ("verdicts", "\n\n".join(map(_summary, compared))),
    ):
        before, marker, rest = text.partition(f"<!-- table: {name} -->")
        _, _, after = rest.partition(ENDS)
        text = f"{before}{marker}\n{table}\n{ENDS}{after}"
    return text


def _table(header: Row, rows: Iterable[Row]) -> str:
    lines = [header, tuple("---" for _ in header), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def _wrong_rows(compared: Sequence[Comparison]) -> Iterator[Row]:
    from support.kernels import read_kernels

    kernels = read_kernels("wrong").values()
    for kernel in sorted(kernels, key=lambda kernel: (kernel.guard, kernel.name)):
        status = kernel.expected["status"]
        if other := kernel.expected.get("on_cuda", {}).get("status"):
            status += f" (GPU: {other})"
        verdicts = _their_verdicts(compared, f"wrong/{kernel.name}")
        yield (_describe(kernel), kernel.description, kernel.guard, status, *verdicts)


def _honest_rows(compared: Sequence[Comparison]) -> Iterator[Row]:
    from support.kernels import read_kernels

    for kernel in read_kernels("honest").values():
        yield (_describe(kernel), kernel.description, *_their_verdicts(compared, f"honest/{kernel.name}"))


def _summary(compared: Comparison) -> str:
    kernels, libraries = compared["kernels"], compared["libraries"]
    names = {who: f"{name} {libraries[name][:7]}" for who, name in OTHERS.items() if name in libraries}
    asked = [who for who in ("ours", *names) if any(who in verdicts for verdicts in kernels.values())]

    def count(kind: str) -> Row:
        some = [verdicts for name, verdicts in kernels.items() if name.startswith(kind)]
        passed = (sum((verdicts[who] or {}).get("status") == "PASSED" for verdicts in some) for who in asked)
        return (f"{kind} kernels that pass", *(f"{number} of {len(some)}" for number in passed))

    header = ("", *({"ours": "fib-rmsnorm", **names}[who] for who in asked))
    where = f"{compared['hardware']}, `{compared['definition']}` at batch {compared['batch']}"
    elsewhere = Counter(verdicts["hardware"] for verdicts in kernels.values() if "hardware" in verdicts)
    where += "".join(f" ({number} of the kernels on {hardware})" for hardware, number in elsewhere.items())
    return f"On {where}:\n\n" + _table(header, map(count, ("wrong", "honest")))


def _their_verdicts(compared: Sequence[Comparison], name: str) -> Iterator[str]:
    """What each other evaluator said of a kernel; nothing where it was not asked."""
    verdicts = {who: verdict for each in compared for who, verdict in each["kernels"].get(name, {}).items()}
    for verdict in map(verdicts.get, OTHERS):
        if verdict is None:
            yield ""
        elif verdict["status"] == "PASSED":
            yield f"**PASSED**, {verdict['speedup']:g}x"
        else:
            yield verdict["status"] or "no verdict"


def _describe(kernel: Kernel) -> str:
    where = " and ".join({"cpu": "CPU", "cuda": "GPU"}[kind] for kind in kernel.target_hardware)
    return f"`{kernel.name}` ({kernel.language}, {where})"
