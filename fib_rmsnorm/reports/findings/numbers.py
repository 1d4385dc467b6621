"""The findings as JSON."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from fib_rmsnorm.analysis.findings import SectionFindings
from fib_rmsnorm.statistics import Estimate


def findings_json(sections: Sequence[SectionFindings]) -> str:
    """The same in numbers."""
    return json.dumps([_section_record(section) for section in sections], indent=2) + "\n"


def _section_record(section: SectionFindings) -> dict[str, Any]:
    roofline, conditions = section.roofline, section.results.conditions
    return {
        "definition": section.results.definition,
        "hardware": conditions.hardware,
        "timer": conditions.timer,
        "clock_mhz": roofline.clock_mhz,
        "cold_l2": conditions.cold_l2,
        "flop_count": roofline.cost.how if roofline.cost else None,
        "peak_bandwidth_gb_per_s": roofline.peak.gb_per_s if roofline.peak else None,
        "peak_source": roofline.peak.source if roofline.peak else None,
        "peak_flops_per_s": roofline.flops_per_s,
        "ridge_flops_per_byte": roofline.ridge,
        "workloads": [
            {
                "axes": each.title,
                "flops": each.flops,
                "bytes_moved": each.bytes_moved,
                "flops_per_byte": each.intensity,
                "launch_ms": each.floor_ms,
                "memory_ms": each.memory_ms,
                "compute_ms": each.compute_ms,
                "bound_by": each.bound,
                "fits_l2": each.fits_l2,
                "fastest": each.best.record.solution if each.best else None,
                "latency_ms": each.best.record.latency_ms if each.best else None,
                "percent_of_peak": each.best.percent_of_peak if each.best else None,
                "percent_of_copy": each.best.record.percent_of_copy if each.best else None,
            }
            for each in roofline.workloads
        ],
        "scaling": [
            {
                "solution": fit.solution,
                "floor_ms": _interval(fit.floor_ms),
                "bandwidth_gb_per_s": _interval(fit.bandwidth_gb_per_s),
                "crossover_bytes": _interval(fit.crossover_bytes),
                "crossover": _interval(fit.crossover) if fit.crossover else None,
                "axis": fit.axis,
                "worst_miss": fit.worst_miss,
                "worst_miss_at": fit.worst.axes_text,
            }
            for fit in section.fits
        ],
    }


def _interval(estimate: Estimate) -> dict[str, float | None]:
    values = asdict(estimate)
    return {name: value if math.isfinite(value) else None for name, value in values.items()}
