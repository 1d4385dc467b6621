"""The table of docs/measuring.md: what several clocks say of the same kernels (tools/cross_check_timing.py)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "measuring.md"
FIGURES = ROOT / "docs" / "timing_h200.json"
BEGINS, ENDS = "<!-- table: clocks -->", "<!-- end -->"
HEADER = (
    "kernel, batch",
    "here, 3 runs",
    "range",
    "ncu, our eviction",
    "ncu, its own",
    "graph slope",
    "stamps inside",
    "flashinfer-bench",
)


def make_page() -> str:
    """The page with the table between its markers made anew."""
    text = PAGE.read_text(encoding="utf-8")
    before, _, rest = text.partition(BEGINS)
    _, _, after = rest.partition(ENDS)
    rows = json.loads(FIGURES.read_text(encoding="utf-8"))["rows"]
    lines = [HEADER, ("---", *("---:" for _ in HEADER[1:])), *_rows(rows)]
    table = "\n".join("| " + " | ".join(line) + " |" for line in lines)
    return f"{before}{BEGINS}\n{table}\n{ENDS}{after}"


def _rows(rows: dict[str, dict[str, Any]]) -> Iterator[tuple[str, ...]]:
    for key, row in rows.items():
        solution, _, batch = key.partition("@")
        ours = row["ours"]
        middle = median(ours)
        yield (
            f"{solution.removeprefix('rmsnorm_')}, {batch}",
            f"{middle:.4g}",
            f"{(max(ours) - min(ours)) / middle:.1%}" if len(ours) > 1 else "",
            _beside(row.get("ncu_evicted"), middle),
            _beside(row.get("ncu"), middle),
            _beside(row.get("graph"), middle),
            _beside(row.get("stamps"), row.get("stamped")),
            f"{row['upstream']:.3g}" if "upstream" in row else "",
        )


def _beside(value: float | None, ours: float | None) -> str:
    return "" if value is None or ours is None else f"{value:.4g} ({value / ours - 1:+.0%})"
