"""The tables of docs/appendix/measuring-evidence.md: what several clocks say of the same kernels.

Of the registry's, and of kernels that do one thing each: by cross_check_timing.py and probe_clocks.py in experiments/.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from statistics import median
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "appendix" / "measuring-evidence.md"
FIGURES = ROOT / "experiments" / "timing_h200.json"
PROBES = ROOT / "experiments" / "clock_probes_h200.json"
ENDS = "<!-- end -->"
HEADER = (
    "kernel, batch",
    "here, 3 runs",
    "range",
    "ncu, our eviction",
    "ncu, its own",
    "graph slope",
    "stamps inside",
    "stamps, ncu watching",
    "flashinfer-bench",
)
PROBE_HEADER = (
    "kernel, blocks",
    "CUPTI",
    "ncu",
    "ncu adds",
    "its length",
    "CUPTI less empty",
    "ncu less empty",
    "stamps, CUPTI watching",
    "stamps, ncu watching",
)
PROBE_BLOCKS = (1, 128)


def make_page() -> str:
    """The page with the tables between their markers made anew."""
    text = PAGE.read_text(encoding="utf-8")
    rows = json.loads(FIGURES.read_text(encoding="utf-8"))["rows"]
    text = _replace(text, "clocks", HEADER, _rows(rows))
    return _replace(text, "probes", PROBE_HEADER, _probe_rows(json.loads(PROBES.read_text(encoding="utf-8"))))


def _replace(text: str, name: str, header: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    begins = f"<!-- table: {name} -->"
    before, found, rest = text.partition(begins)
    if not found:
        raise SystemExit(f"{PAGE}: there is no {begins}")
    _, _, after = rest.partition(ENDS)
    lines = [header, ("---", *("---:" for _ in header[1:])), *rows]
    table = "\n".join("| " + " | ".join(line) + " |" for line in lines)
    return f"{before}{begins}\n{table}\n{ENDS}{after}"


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
            _beside(row.get("stamps_ncu"), row.get("stamped")),
            f"{row['upstream']:.3g}" if "upstream" in row else "",
        )


def _beside(value: float | None, ours: float | None) -> str:
    return "" if value is None or ours is None else f"{value:.4g} ({value / ours - 1:+.0%})"


def _probe_rows(figures: dict[str, Any]) -> Iterator[tuple[str, ...]]:
    """Lengths are known of what spins for a number of cycles; the empty kernel is the one in as many blocks."""
    for key, row in figures["rows"].items():
        kind, _, blocks = key.partition("@")
        if int(blocks) not in PROBE_BLOCKS:
            continue
        empty = figures["rows"][f"empty@{blocks}"]
        cycles = kind.removeprefix("spin ")
        yield (
            f"{kind}, {blocks}",
            f"{row['cupti']:.2f}",
            f"{row['ncu']:.2f}",
            f"{row['ncu'] - row['cupti']:.2f}",
            f"{int(cycles) / figures['clock_mhz']:.2f}" if cycles.isdecimal() else "",
            f"{row['cupti'] - empty['cupti']:.2f}",
            f"{row['ncu'] - empty['ncu']:.2f}",
            f"{row['stamps_cupti']:.2f}",
            f"{row['stamps_ncu']:.2f}",
        )
