"""Traces as JSON, in the form of this tool and in that of flashinfer-bench, and as the analysis reads them."""

import json
from typing import Any

from fib_rmsnorm.analysis.loading import TraceSet
from fib_rmsnorm.analysis.reading import decode
from fib_rmsnorm.analysis.trace_record import TraceRecord

GPU = "NVIDIA H200"
UNTIMED = {"latency_ms": 0.0, "reference_latency_ms": 0.0, "speedup_factor": 0.0}
"""The times of what an interpreter ran."""


def trace(
    solution="fast_v1",
    batch=8,
    latency_ms=0.002,
    *,
    hardware=GPU,
    timestamp="2026-01-02T03:04:05+00:00",
    status=None,
    sha="aa11bb22",
    definition_sha=None,
    settings=None,
    clock=1980.0,
    **performance,
):
    """A Trace of this tool; without a latency one that failed."""
    timed = latency_ms and {**_performance(latency_ms, 16384 * batch + 8192, clock), **performance}
    if performance.get("interpreted"):
        timed, hardware = {**UNTIMED, "interpreted": True}, f"{hardware} (interpreter)"
    return {
        **upstream_trace(solution, batch),
        "evaluation": {
            "status": status or ("PASSED" if timed else "RUNTIME_ERROR"),
            "environment": {"hardware": hardware, "libs": {"torch": "2.99"}},
            "timestamp": timestamp,
            "log": "",
            "correctness": {"max_relative_error": 4e-4, "max_absolute_error": 0.002} if timed else None,
            "performance": timed or None,
            "settings": {"warmup_runs": 10, "iterations": None, "num_trials": 4, "l2": "cold", **(settings or {})},
            **({"definition_sha256": definition_sha} if definition_sha else {}),
            "solution_sha256": sha,
        },
    }


def _performance(latency_ms: float, moved: int, clock: float | None) -> dict[str, Any]:
    return {
        "latency_ms": latency_ms,
        "reference_latency_ms": 0.06,
        "speedup_factor": 0.06 / latency_ms,
        "timer": "cupti",
        "cold_l2": True,
        "interpreted": False,
        "samples": 200,
        "trials": 4,
        "latency_low_ms": latency_ms * 0.995,
        "latency_high_ms": latency_ms * 1.005,
        "latency_p5_ms": latency_ms * 0.93,
        "latency_p95_ms": latency_ms * 1.08,
        "bytes_moved": moved,
        "bandwidth_gb_per_s": moved / latency_ms / 1e6,
        "percent_of_copy": 100 * 0.0014 / latency_ms,
        "host_overhead_us": 4.0,
        "ceiling": {
            "empty_ms": 0.0006,
            "copy_ms": 0.0014,
            "copy_low_ms": 0.00139,
            "copy_high_ms": 0.00141,
            "copy_method": "cuda 64x1",
            "peak_bandwidth_gb_per_s": 4814.304,
        },
        "clocks": {"during_mhz": clock, "memory_mhz": 3201.0},
        "noisy": [],
    }


def upstream_trace(solution: str | None = "fast_v1", batch: int = 8) -> dict[str, Any]:
    """A Trace as flashinfer-bench writes it; without a Solution a Workload."""
    return {
        "definition": "rmsnorm_d4096",
        "workload": {
            "axes": {"batch": batch},
            "inputs": {"x": {"type": "random"}, "weight": {"type": "random"}, "eps": {"type": "scalar", "value": 1e-6}},
            "uuid": f"00000000-0000-0000-0000-{batch:012}",
        },
        "solution": solution,
        "evaluation": solution
        and {
            "status": "PASSED",
            "environment": {"hardware": "NVIDIA_A100_80GB", "libs": {"torch": "2.8"}},
            "timestamp": "2026-01-09T10:30:00Z",
            "log": "",
            "correctness": {"max_relative_error": 1.2e-5, "max_absolute_error": 3.4e-4, "extra": None},
            "performance": {"latency_ms": 0.023, "reference_latency_ms": 0.045, "speedup_factor": 1.96},
        },
    }


def lines(*traces: dict[str, Any]) -> str:
    """As a .jsonl file."""
    return "".join(f"{json.dumps(each)}\n" for each in traces)


def trace_set(*traces: dict[str, Any]) -> TraceSet:
    """As the analysis reads them, of no registry."""
    origin = {"path": "t.jsonl", "file": "t.jsonl", "author": None}
    return TraceSet([], [decode(json.dumps(each).encode(), line, origin) for line, each in enumerate(traces, 1)])


def records(*traces: dict[str, Any]) -> list[TraceRecord]:
    """All of them."""
    return trace_set(*traces).records


def record(*arguments: Any, **changes: Any) -> TraceRecord:
    """A Trace of this tool as the analysis reads it."""
    return records(trace(*arguments, **changes))[0]
