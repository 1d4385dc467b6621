"""Exercise 3, a profile of RMSNorm at dim 2048: time, memory, bandwidth, launches, and transactions by block size."""

from __future__ import annotations

from pathlib import Path

from fib_rmsnorm.analysis.trace_record import TraceRecord
from fib_rmsnorm.errors import InputError
from fib_rmsnorm.exercises.answers import Question, grade_answers
from fib_rmsnorm.exercises.exercise import STAND_IN, Exercise, StandIn, Task
from fib_rmsnorm.registry import Registry, bytes_moved, generate_workloads

_DEFINITION = "rmsnorm_d2048"
_TRITON, _TORCH = "rmsnorm_triton_row_v1", "rmsnorm_python_torch_v1"
_PROFILE, _TRACES = "profile.md", "traces.json"
_LARGE = 16384  # 134 MB, which no L2 cache holds
_BATCH_SIZES = (1, 512, 4096, _LARGE)
_WARP = 32
_BENCH = f"fib-rmsnorm bench --output {_TRACES}"
_TUNE = f"fib-rmsnorm tune block_size --definitions {_DEFINITION} --batch-sizes 4096"
_COMPILED = {  # what `tune` says of block_size for sm_90, which a test holds
    "Load requests of a row, blocks of 64": 380.0,
    "Load requests of a row, blocks of 1024": 20.0,
    "Load sectors of a row, blocks of 64": 760.0,
    "Load sectors of a row, blocks of 1024": 320.0,
    "Occupancy with each block, %": 100.0,
    "Block with the fewest load sectors": 1024.0,
}

_Records = dict[tuple[str, int], TraceRecord]


def _grade(folder: Path) -> list[Task]:
    registry = Registry(folder)
    file = next((name for name in (_TRACES, STAND_IN) if _suffice(_read(folder, name))), None)
    if file is None:
        raise InputError(f"{folder / STAND_IN} is damaged; set the exercise up again elsewhere, and copy it from there")
    records = _read(folder, file)
    parts = (
        ("Time, memory, bandwidth", _ask_figures(registry, records, file)),
        ("Launches", _ask_launches(records, file)),
        ("Block sizes", _ask_blocks(registry)),
    )
    return [grade_answers(folder / _PROFILE, title, questions, 5 * len(questions)) for title, questions in parts]


def _read(folder: Path, name: str) -> _Records:
    """The newest timed Trace of each Solution at each batch size; none without the file."""
    from fib_rmsnorm.analysis.loading import load_traces

    if not (folder / name).exists():
        return {}
    found = load_traces([folder / name], folder, warn=lambda _: None).records
    return {(each.solution, each.axes.get("batch", 0)): each for each in found if each.is_native}


def _suffice(records: _Records) -> bool:
    """Whether all answers can be computed: a GPU's, whose peak is known."""
    from fib_rmsnorm.analysis.peaks import peak_of

    needed = [records.get((f"{name}_d2048", batch)) for name in (_TRITON, _TORCH) for batch in (1, _LARGE)]
    return all(
        each and peak_of(each) and each.empty_host_us and each.host_overhead_us and each.peak_memory_bytes is not None
        for each in needed
    )


def _ask_figures(registry: Registry, records: _Records, file: str) -> list[Question]:
    from fib_rmsnorm.analysis.peaks import peak_of

    definition = registry.definition(_DEFINITION)
    (workload,) = generate_workloads(definition, [_LARGE])
    triton, torch = records[f"{_TRITON}_d2048", _LARGE], records[f"{_TORCH}_d2048", _LARGE]
    peak, how = peak_of(triton), f"fib-rmsnorm report {file} --batch-sizes {_LARGE}"
    of_triton, of_torch = ((each.latency_ms or 0) * 1e3 for each in (triton, torch))
    achieved = triton.bandwidth_gb_per_s or 0
    return [
        Question("Time of Triton, us", of_triton, how),
        Question("Time of torch, us", of_torch, how),
        Question("Speedup", of_torch / of_triton, how),
        Question("Memory of the tensors, MB", bytes_moved(definition, workload) / 1e6, "2 bytes an element"),
        Question(
            "Memory that torch takes beyond them, KiB",
            (torch.peak_memory_bytes or 0) / 1024,
            f"peak_memory_bytes in {file}",
        ),
        Question("Bandwidth of Triton, GB/s", achieved, how),
        Question("Bandwidth of torch, GB/s", torch.bandwidth_gb_per_s, how),
        Question("% of the peak of Triton", 100 * achieved / peak.gb_per_s if peak else None, how),
        Question("Bound by", "memory", f"fib-rmsnorm analyze {file}", wrong=("compute", "launch")),
    ]


def _ask_launches(records: _Records, file: str) -> list[Question]:
    triton, how = records[f"{_TRITON}_d2048", 1], f"fib-rmsnorm report {file} --batch-sizes 1"
    host_us, time_us = triton.host_overhead_us or 0, (triton.latency_ms or 0) * 1e3
    return [
        Question("Time of Triton at one row, us", time_us, how),
        Question("Time of the host for a call of Triton, us", host_us, how),
        Question("Time of the host for an empty kernel, us", triton.empty_host_us, f"empty_host_us in {file}"),
        Question("Time of the host over the kernel's", host_us / time_us, how),
    ]


def _ask_blocks(registry: Registry) -> list[Question]:
    hidden = registry.definition(_DEFINITION).const_axes["hidden"]
    counted = Question("Transactions of 32 elements in a row", hidden / _WARP, "a division")
    return [counted, *(Question(label, right, _TUNE) for label, right in _COMPILED.items())]


PROFILING = Exercise(
    number=3,
    title="a profile at dim 2048",
    page="docs/exercises/3-profile-d2048.md",
    definitions={_DEFINITION: _BATCH_SIZES},
    solutions=(f"baseline/norm/rmsnorm_d4096/{_TORCH}", f"fib-rmsnorm/norm/rmsnorm_d4096/{_TRITON}"),
    starter="profiling_d2048",
    shared=("block_size",),
    stand_in=StandIn(
        ("docs/data/h200-sisters.jsonl",), tuple(f"{name}_d2048" for name in (_TRITON, _TORCH)), _BATCH_SIZES
    ),
    commands=(
        (_BENCH, f"on a GPU: its Traces; else {STAND_IN} stands in"),
        (f"fib-rmsnorm report {STAND_IN}", "time, bandwidth and launches on an H200"),
        (_TUNE, "transactions and occupancy by block size"),
        ("fib-rmsnorm exercise 3 --check", "your points"),
    ),
    grade=_grade,
)
