"""Exercise 1, RMSNorm in Triton: the kernel by the judge, the Solution, the Traces, and what they say."""

from __future__ import annotations

from pathlib import Path

from fib_rmsnorm.analysis.peaks import peak_of
from fib_rmsnorm.analysis.trace_record import TraceRecord
from fib_rmsnorm.errors import InputError
from fib_rmsnorm.exercises.answers import Question, grade_answers
from fib_rmsnorm.exercises.exercise import STAND_IN, Exercise, StandIn, Task
from fib_rmsnorm.exercises.kernel_grade import KernelTask, grade_kernels
from fib_rmsnorm.exercises.own_solution import find_own, read_passed
from fib_rmsnorm.registry import Registry, bytes_moved, generate_workloads
from fib_rmsnorm.schema import Definition, Solution

_DEFINITION = "rmsnorm_d4096"
_KERNEL, _ANALYSIS = "triton_rmsnorm.py", "analysis.md"
_TRACES = "traces.json"
_STAND_IN_SOLUTION = "rmsnorm_triton_row_v1"
_TORCH = "rmsnorm_python_torch_v1"
_BATCH_SIZES = (1, 8, 32, 128, 512)
_LARGE = 4096
_INTERPRETED_SIZES = (1, 8, 32)
_REGISTER = f"fib-rmsnorm register {_KERNEL} --name rmsnorm_triton_mine_v1 --author me"
_BENCH = f"fib-rmsnorm bench --output {_TRACES}"


def _grade(folder: Path) -> list[Task]:
    registry = Registry(folder)
    definition = registry.definition(_DEFINITION)
    solution, remark = find_own(registry, _DEFINITION, folder / _KERNEL, _REGISTER)
    records = [] if solution is None else read_passed(registry, folder / _TRACES, solution)
    return [
        *grade_kernels(registry, [KernelTask("Kernel", 40, definition, folder / _KERNEL)]),
        Task("Solution", 20, 20 if solution else 0, (remark,)),
        _grade_traces(solution, records),
        grade_answers(folder / _ANALYSIS, "Analysis", _list_questions(folder, definition, records), 20),
    ]


def _grade_traces(solution: Solution | None, records: list[TraceRecord]) -> Task:
    """One share for each batch size. Where Triton is interpreted, only few rows are asked for."""
    title, points = "Traces", 20
    if solution is None or not records:
        return Task(
            title, points, 0, (f"{_TRACES} has no passed Trace of your Solution as it is; run: {_find_bench()}",)
        )
    is_interpreted = all(record.interpreted for record in records)
    wanted = _INTERPRETED_SIZES if is_interpreted else _BATCH_SIZES
    lacking = set(wanted) - {record.axes.get("batch") for record in records}
    earned = points * (len(wanted) - len(lacking)) // len(wanted)
    remarks = [f"batch sizes without a passed Trace: {', '.join(map(str, sorted(lacking)))}"] if lacking else []
    if is_interpreted:
        remarks.append(f"interpreted on a CPU: right, but without times; {STAND_IN} stands in for those of a GPU")
    return Task(title, points, earned, tuple(remarks))


def _find_bench() -> str:
    """The command that makes what is asked for: on a CPU, at few rows, since more take a minute."""
    from fib_rmsnorm.machine.devices import choose_devices

    few = ",".join(map(str, _INTERPRETED_SIZES))
    return _BENCH if choose_devices()[0].kind == "cuda" else f"{_BENCH} --batch-sizes {few}"


def _list_questions(folder: Path, definition: Definition, own: list[TraceRecord]) -> list[Question]:
    """The four questions, by the student's own Traces of a GPU if they suffice, else by those that stand in."""
    from fib_rmsnorm.analysis.loading import load_traces
    from fib_rmsnorm.operators import count_cost

    (workload,) = generate_workloads(definition, [_LARGE])
    cost = count_cost(definition, workload.axes)
    intensity = cost.flops / bytes_moved(definition, workload) if cost else None
    file = _TRACES
    timed = _by_batch([record for record in own if not record.interpreted])
    if not _suffices(timed):
        file = STAND_IN
        records = load_traces([folder / file], folder, warn=lambda _: None).records
        timed = _by_batch([record for record in records if record.solution == _STAND_IN_SOLUTION])
    if not _suffices(timed):
        raise InputError(f"{folder / file} is damaged; set the exercise up again elsewhere, and copy it from there")
    peak, how = peak_of(timed[_LARGE]), f"fib-rmsnorm analyze {file}"
    percent = 100 * (timed[_LARGE].bandwidth_gb_per_s or 0) / peak.gb_per_s if peak else None
    ratio = (timed[512].latency_ms or 0) / (timed[1].latency_ms or 1)
    return [
        Question("FLOP per byte, at 4096 rows", intensity, how),
        Question("Bound by compute or memory", "memory", how, wrong=("compute",)),
        Question("% of peak, at 4096 rows", percent, how),
        Question("Time at batch 512, over the time at batch 1", ratio, how),
    ]


def _by_batch(records: list[TraceRecord]) -> dict[int, TraceRecord]:
    return {record.axes.get("batch", 0): record for record in records if record.latency_ms}


def _suffices(timed: dict[int, TraceRecord]) -> bool:
    """Whether the answers can be computed: of a GPU whose peak is known."""
    return {1, 512, _LARGE} <= timed.keys() and peak_of(timed[_LARGE]) is not None


FIRST_KERNEL = Exercise(
    number=1,
    title="RMSNorm in Triton",
    page="docs/exercises/1-triton-rmsnorm.md",
    definitions={_DEFINITION: (*_BATCH_SIZES, _LARGE)},
    solutions=(f"baseline/norm/{_DEFINITION}/{_TORCH}",),
    starter="triton_rmsnorm",
    stand_in=StandIn(
        (f"traces/published/norm/{_DEFINITION}.jsonl",), (_STAND_IN_SOLUTION, _TORCH), (*_BATCH_SIZES, _LARGE)
    ),
    commands=(
        (f"fib-rmsnorm try {_KERNEL} --check", "judge the kernel, until it passes"),
        (_REGISTER, "make a Solution of it"),
        (_BENCH, "Traces of it and of torch; on a CPU, add --batch-sizes 1,8,32"),
        (f"fib-rmsnorm analyze {_TRACES}", f"figures for {_ANALYSIS}"),
        ("fib-rmsnorm exercise 1 --check", "your points"),
    ),
    grade=_grade,
)
