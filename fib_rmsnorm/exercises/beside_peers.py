"""Exercise 5, beside peers: the residual, the backward, outputs against another's, backends, the cost of a call."""

from __future__ import annotations

from pathlib import Path

from fib_rmsnorm.analysis.comparing.outputs import find_output_differences
from fib_rmsnorm.analysis.loading import load_traces
from fib_rmsnorm.analysis.trace_record import TraceRecord
from fib_rmsnorm.errors import InputError
from fib_rmsnorm.exercises.answers import Question, grade_answers
from fib_rmsnorm.exercises.evaluation_grade import EvaluationTask, OwnKernel, grade_evaluations
from fib_rmsnorm.exercises.exercise import STAND_IN, Exercise, StandIn, Task
from fib_rmsnorm.exercises.kernel_grade import KernelTask, grade_kernels
from fib_rmsnorm.languages import DeviceKind
from fib_rmsnorm.registry import Registry

_ADD, _BACKWARD = "fused_add_rmsnorm_d4096", "rmsnorm_backward_d4096"
_LARGE = 4096
_BATCH_SIZES: dict[DeviceKind, tuple[int, ...]] = {"cpu": (1, 8), "cuda": (1, 8, _LARGE)}
_ANSWERS, _TRACES = "backends.md", "traces.json"
_TORCH, _QUACK = "*_python_torch_v1", "*_python_quack_v1"
_BENCH = f"fib-rmsnorm bench --output {_TRACES} --against '{_TORCH}'"
_SHAPE = "rmsnorm_{}_d8192_bf16"
_BACKENDS = {
    "Torch": _SHAPE.format("python_torch_v1"),
    "CuTe DSL": _SHAPE.format("python_cutedsl_v1"),
    "Quack": _SHAPE.format("python_quack_v1"),
    "Triton": _SHAPE.format("triton_row_v1"),
}
_ADD_TORCH, _ADD_CUTEDSL = "fused_add_rmsnorm_python_torch_v1", "fused_add_rmsnorm_python_cutedsl_v1"
_BACKWARD_TORCH, _BACKWARD_TRITON = "rmsnorm_backward_python_torch_v1", "rmsnorm_backward_triton_row_v1"
_CUTEDSL, _WRAPPED = "rmsnorm_python_cutedsl_v1", "rmsnorm_python_quack_v1"


_RESIDUAL: dict[DeviceKind, OwnKernel] = {
    "cpu": OwnKernel("Residual", "triton", "add_in_triton.py", _ADD, "fused_add_rmsnorm_triton_mine_v1"),
    "cuda": OwnKernel("Residual", "python", "add_in_cutedsl.py", _ADD, "fused_add_rmsnorm_python_mine_v1"),
}
_GRADIENTS = OwnKernel(
    "Backward", "python", "backward_in_torch.py", _BACKWARD, "rmsnorm_backward_python_mine_v1", launches=False
)


def _grade(folder: Path) -> list[Task]:
    from fib_rmsnorm.machine.devices import choose_devices

    kind = choose_devices()[0].kind
    registry, kernels = Registry(folder), (_RESIDUAL[kind], _GRADIENTS)
    validation = EvaluationTask(
        "Validation", _BATCH_SIZES[kind], _TRACES, _BENCH, _find_compared, asked=", beside torch,"
    )
    tasks = [
        KernelTask(
            each.title, 20, registry.definition(each.definition), folder / each.file, each.language, each.launches
        )
        for each in kernels
    ]
    return [
        *grade_kernels(registry, tasks),
        *grade_evaluations(registry, kernels, validation),
        grade_answers(folder / _ANSWERS, "Backends", _list_questions(folder), 40),
    ]


def _find_compared(records: list[TraceRecord]) -> set[int]:
    """The batch sizes at which outputs were compared with torch's."""
    try:
        found = find_output_differences(records, _TORCH)
    except InputError:
        return set()
    return {each.record.axes.get("batch", 0) for each in found}


def _list_questions(folder: Path) -> list[Question]:
    records = load_traces([folder / STAND_IN], folder, warn=lambda _: None).records
    found = {record.solution: record for record in records if record.axes.get("batch") == _LARGE}
    if not set(_STAND_IN.solutions) <= found.keys():
        raise InputError(f"{folder / STAND_IN} is damaged; set the exercise up again elsewhere, and copy it from there")
    latency_us = {name: 1e3 * (record.latency_ms or 0) for name, record in found.items()}
    (apart,) = [
        each.difference
        for each in find_output_differences(records, _QUACK)
        if (each.record.solution, each.output, each.kind) == (_ADD_CUTEDSL, "out", "workload")
    ]
    host_us = [found[name].host_overhead_us or 0 for name in (_WRAPPED, _CUTEDSL)]
    report, against = f"fib-rmsnorm report {STAND_IN}", f"fib-rmsnorm report {STAND_IN} --against '{_QUACK}'"
    return [
        *(Question(f"{title}, us", latency_us[name], report) for title, name in _BACKENDS.items()),
        Question(
            "Torch's time over Triton's", latency_us[_BACKENDS["Torch"]] / latency_us[_BACKENDS["Triton"]], report
        ),
        Question("Elements of out that differ from Quack's", apart.elements - apart.equal, against),
        Question("The largest distance, in ULP", apart.ulp.maximum if apart.ulp else None, against),
        Question(
            "Torch's time over CuTe DSL's, with a residual", latency_us[_ADD_TORCH] / latency_us[_ADD_CUTEDSL], report
        ),
        Question(
            "Torch's time over Triton's, backward", latency_us[_BACKWARD_TORCH] / latency_us[_BACKWARD_TRITON], report
        ),
        Question("Host time that Quack's way in adds, us", host_us[0] - host_us[1], report),
    ]


_STAND_IN = StandIn(
    (
        "docs/data/h200-sisters.jsonl",
        *(f"traces/published/norm/{name}.jsonl" for name in ("rmsnorm_d4096", _ADD, _BACKWARD)),
    ),
    (
        *_BACKENDS.values(),
        *(_WRAPPED, _CUTEDSL),
        *(_ADD_TORCH, _ADD_CUTEDSL, "fused_add_rmsnorm_python_quack_v1"),
        *(_BACKWARD_TORCH, _BACKWARD_TRITON, "rmsnorm_backward_python_quack_v1"),
    ),
    (_LARGE,),
)

BESIDE_PEERS = Exercise(
    number=5,
    title="RMSNorm beside its peers",
    page="docs/exercises/5-beside-peers.md",
    definitions=dict.fromkeys((_ADD, _BACKWARD), _BATCH_SIZES["cuda"]),
    solutions=(f"baseline/norm/{_ADD}/{_ADD_TORCH}", f"baseline/norm/{_BACKWARD}/{_BACKWARD_TORCH}"),
    starter="beside_peers",
    stand_in=_STAND_IN,
    commands=(
        (f"fib-rmsnorm try {_RESIDUAL['cpu'].file} --check", f"judge a kernel; with a GPU, {_RESIDUAL['cuda'].file}"),
        (_RESIDUAL["cpu"].register, "make a Solution of it"),
        (_BENCH, "Traces beside torch's outputs; on a CPU, add --batch-sizes 1,8"),
        (f"fib-rmsnorm report {STAND_IN}", f"figures for {_ANSWERS}"),
        ("fib-rmsnorm exercise 5 --check", "your points"),
    ),
    grade=_grade,
)
