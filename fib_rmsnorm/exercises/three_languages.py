"""Exercise 4, one Definition in three languages: its records, kernels that the judge accepts, and what Traces say."""

from __future__ import annotations

from pathlib import Path

from fib_rmsnorm.analysis.trace_record import TraceRecord
from fib_rmsnorm.errors import InputError
from fib_rmsnorm.exercises.answers import Question, grade_answers
from fib_rmsnorm.exercises.evaluation_grade import EvaluationTask, OwnKernel, grade_evaluations
from fib_rmsnorm.exercises.exercise import STAND_IN, Exercise, StandIn, Task
from fib_rmsnorm.exercises.kernel_grade import KernelTask, grade_kernels
from fib_rmsnorm.languages import LANGUAGES, DeviceKind
from fib_rmsnorm.registry import Registry, generate_workloads
from fib_rmsnorm.registry.shipped import shipped_registry
from fib_rmsnorm.schema import Definition

_DEFINITION = "rmsnorm_d4096"
_BATCH_SIZES: dict[DeviceKind, tuple[int, ...]] = {"cpu": (1, 8, 32), "cuda": (1, 8, 32, 128)}
_COMPARED = 32
_RECORDS, _TRACES = "records.md", "traces.json"
_TORCH, _TRITON, _CUDA = "rmsnorm_python_torch_v1", "rmsnorm_triton_row_v1", "rmsnorm_cuda_vec16_v1"
_TILELANG = "rmsnorm_tilelang_row_v1"
_BENCH = f"fib-rmsnorm bench --output {_TRACES}"
_WORKLOAD = f"fib-rmsnorm workload --batch-sizes {','.join(map(str, _BATCH_SIZES['cuda']))}"


def _make_own(language: str, file: str, solution: str) -> OwnKernel:
    return OwnKernel(LANGUAGES[language].title, language, file, _DEFINITION, solution)


_ON_BOTH = (
    _make_own("triton", "in_triton.py", "rmsnorm_triton_mine_v1"),
    _make_own("tilelang", "in_tilelang.py", "rmsnorm_tilelang_mine_v1"),
)
_KERNELS: dict[DeviceKind, tuple[OwnKernel, ...]] = {
    "cpu": (*_ON_BOTH, _make_own("cpp", "in_cpp.cpp", "rmsnorm_cpp_mine_v1")),
    "cuda": (*_ON_BOTH, _make_own("cuda", "in_cuda.cu", "rmsnorm_cuda_mine_v1")),
}
"""By kind of device, those in three languages that it runs."""


def _grade(folder: Path) -> list[Task]:
    from fib_rmsnorm.machine.devices import choose_devices

    kind = choose_devices()[0].kind
    registry, right = Registry(folder), Registry(shipped_registry()).definition(_DEFINITION)
    traces = EvaluationTask("Traces", _BATCH_SIZES[kind], _TRACES, _BENCH, _list_batch_sizes)
    kernels = [KernelTask(each.title, 15, right, folder / each.file, each.language) for each in _KERNELS[kind]]
    return [
        _grade_definition(registry, right),
        *grade_kernels(registry, kernels),
        *grade_evaluations(registry, _KERNELS[kind], traces),
        grade_answers(folder / _RECORDS, "Records", _list_questions(folder), 15),
    ]


def _grade_definition(registry: Registry, right: Definition) -> Task:
    """Whether it says what a kernel gets and gives. Its reference counts when the bench judges by it."""
    title, points = "Definition", 10
    if _DEFINITION not in registry.definitions():
        return Task(title, points, 0, (f"there is no {_DEFINITION}; run: fib-rmsnorm define",))
    own = registry.definition(_DEFINITION)
    differing = [part for part in ("axes", "inputs", "outputs") if _essence(own, part) != _essence(right, part)]
    if differing:
        return Task(title, points, 0, (f"{_DEFINITION} has other {' and '.join(differing)} than: fib-rmsnorm define",))
    wanted = {each.uuid for each in generate_workloads(right, list(_BATCH_SIZES["cuda"]))}
    lacking = wanted - {each.uuid for each in registry.workloads(_DEFINITION)}
    remarks = (f"{len(lacking)} of its Workloads are missing; run: {_WORKLOAD}",) if lacking else ()
    return Task(title, points, 5 if lacking else points, remarks)


def _essence(definition: Definition, part: str) -> dict[str, object]:
    """A part of a Definition without what its author says about it."""
    return {name: each.model_dump(exclude={"description"}) for name, each in getattr(definition, part).items()}


def _list_batch_sizes(records: list[TraceRecord]) -> set[int]:
    return {record.axes.get("batch", 0) for record in records}


def _list_questions(folder: Path) -> list[Question]:
    from fib_rmsnorm.analysis.loading import load_traces

    records = load_traces([folder / STAND_IN], folder, warn=lambda _: None).records
    found = {record.solution: record for record in records if record.axes.get("batch") == _COMPARED}
    if not {_TORCH, _TRITON, _CUDA, _TILELANG} <= found.keys():
        raise InputError(f"{folder / STAND_IN} is damaged; set the exercise up again elsewhere, and copy it from there")
    latencies = {name: record.latency_ms or 0 for name, record in found.items()}
    fastest = min(latencies[name] for name in (_TRITON, _CUDA, _TILELANG))
    host = [found[name].host_overhead_us or 0 for name in (_TRITON, _CUDA)]
    report = f"fib-rmsnorm report {STAND_IN} --batch-sizes {_COMPARED}"
    reference_ms = found[_TRITON].reference_latency_ms or 0
    return [
        Question("Axes in a Workload", 1, "fib-rmsnorm list workloads"),
        Question(
            "Dtype of the reference's arithmetic",
            "float32",
            f"fib-rmsnorm show {_DEFINITION}",
            wrong=("float16", "float64", "bfloat16"),
        ),
        Question("Torch's time over the fastest's, at batch 32", latencies[_TORCH] / fastest, report),
        Question("Triton's speedup over the reference, at batch 32", reference_ms / latencies[_TRITON], report),
        Question("Triton's host time over CUDA's, at batch 32", host[0] / host[1], report),
    ]


THREE_LANGUAGES = Exercise(
    number=4,
    title="one Definition in three languages",
    page="docs/exercises/4-three-languages.md",
    definitions={},
    solutions=(),
    starter="three_languages",
    stand_in=StandIn(
        (f"traces/published/norm/{_DEFINITION}.jsonl",), (_TORCH, _TRITON, _CUDA, _TILELANG), _BATCH_SIZES["cuda"]
    ),
    commands=(
        ("fib-rmsnorm define", "the Definition"),
        (_WORKLOAD, "its Workloads"),
        (f"fib-rmsnorm try {_ON_BOTH[0].file} --check", "judge a kernel, until it passes; then the others"),
        (_ON_BOTH[0].register, "make a Solution of it"),
        (_BENCH, "Traces of all; on a CPU, add --batch-sizes 1,8,32"),
        ("fib-rmsnorm exercise 4 --check", "your points"),
    ),
    grade=_grade,
)
