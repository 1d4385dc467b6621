"""The findings as JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from fib_rmsnorm.analysis.findings import SectionFindings
from fib_rmsnorm.analysis.roofline import WorkloadRoof
from fib_rmsnorm.analysis.scaling import Fit
from fib_rmsnorm.reports.ranking import contest_record
from fib_rmsnorm.reports.text.units import estimate_record


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
        "workloads": [_workload_record(each) for each in roofline.workloads],
        "scaling": [_fit_record(fit) for fit in section.fits],
    }


def _workload_record(workload: WorkloadRoof) -> dict[str, Any]:
    best = workload.best
    return {
        **workload.results.identity,
        "flops": workload.flops,
        "bytes_moved": workload.bytes_moved,
        "flops_per_byte": workload.intensity,
        "launch_ms": workload.floor_ms,
        "memory_ms": workload.memory_ms,
        "compute_ms": workload.compute_ms,
        "bound_by": workload.bound,
        "fits_l2": workload.fits_l2,
        "left_in_l2": workload.left_in_l2,
        **contest_record(workload.contest),
        "percent_of_peak": best.percent_of_peak if best else None,
    }


def _fit_record(fit: Fit) -> dict[str, Any]:
    return {
        "solution": fit.solution,
        "floor_ms": estimate_record(fit.floor_ms),
        "bandwidth_gb_per_s": estimate_record(fit.bandwidth_gb_per_s),
        "crossover_bytes": estimate_record(fit.crossover_bytes),
        "crossover": estimate_record(fit.crossover),
        "axis": fit.axis,
        "worst_miss": fit.worst_miss,
        "worst_miss_at": fit.worst.axes,
    }
