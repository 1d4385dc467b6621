"""Exercise 2, LayerNorm and RMSNorm in blocks: passes over memory, a kernel, its module, a fused one, and figures."""

from __future__ import annotations

from pathlib import Path

from fib_rmsnorm.errors import InputError
from fib_rmsnorm.exercises.answers import Question, grade_answers
from fib_rmsnorm.exercises.exercise import STAND_IN, Exercise, StandIn, Task
from fib_rmsnorm.exercises.kernel_grade import KernelTask, grade_kernels
from fib_rmsnorm.registry import Registry, bytes_moved, generate_workloads

_LAYERNORM, _RMSNORM = "layernorm_d4096", "rmsnorm_d4096"
_SMALL, _FUSED = "rmsnorm_d128_fp32", "rmsnorm_relu_d128_fp32"
_KERNEL, _RELU, _TEXTBOOK, _ANALYSIS = "rmsnorm_module.py", "rmsnorm_relu.py", "textbook_layernorm.py", "passes.md"
_BATCH_SIZES = (1, 32, 1024, 4096)
_LARGE = 4096
_SECTOR_BYTES = 32
_TORCH_LAYERNORM, _TORCH_RMSNORM = "layernorm_python_torch_v1", "rmsnorm_python_torch_v1"
_TRITON_LAYERNORM, _TRITON_RMSNORM = "layernorm_triton_row_v1", "rmsnorm_triton_row_v1"
_TRY, _TRY_RELU = (
    f"fib-rmsnorm try {file} --definition {definition} --check"
    for file, definition in ((_KERNEL, _SMALL), (_RELU, _FUSED))
)
_EXPLAIN = f"fib-rmsnorm explain {_TEXTBOOK} --definition {_LAYERNORM} --batch-sizes {_LARGE}"
_TUNE = f"fib-rmsnorm tune block_size --definitions {_SMALL} --batch-sizes {_LARGE}"
_REPORT = f"fib-rmsnorm report {STAND_IN}"
_CALL_MODULE = """


def call_module(x, weight, eps, out):
    module = TritonRMSNorm(x.shape[-1], eps=eps)
    assert list(module.state_dict()) == ["weight"], "TritonRMSNorm needs one parameter, weight"
    assert TritonRMSNorm(x.shape[-1]).eps == 1e-5, "eps of TritonRMSNorm is 1e-5 unless given"
    module.load_state_dict({"weight": weight})
    result = module(x.reshape(1, *x.shape))
    assert result.shape == (1, *x.shape), f"an x of {(1, *x.shape)} gave an output of {tuple(result.shape)}"
    out.copy_(result[0].detach())
"""


def _grade(folder: Path) -> list[Task]:
    registry = Registry(folder)
    small, fused = registry.definition(_SMALL), registry.definition(_FUSED)
    kernels = [
        KernelTask("RMSNorm", 25, small, folder / _KERNEL),
        KernelTask("Module", 15, small, folder / _KERNEL, caller=_CALL_MODULE, entry="call_module"),
        KernelTask("RMSNorm and ReLU", 20, fused, folder / _RELU),
    ]
    return [
        *grade_kernels(registry, kernels),
        grade_answers(folder / _ANALYSIS, "Analysis", _list_questions(registry), 40),
    ]


def _list_questions(registry: Registry) -> list[Question]:
    """Their answers follow from sizes and from Traces; that compiled code has these numbers, a test holds."""
    layernorm, small, fused = map(registry.definition, (_LAYERNORM, _SMALL, _FUSED))
    of_row = layernorm.const_axes["hidden"] * 2 // _SECTOR_BYTES
    of_small_row = small.const_axes["hidden"] * 4 // _SECTOR_BYTES
    (alone,), (both,) = (generate_workloads(each, [_LARGE]) for each in (small, fused))
    relu_bytes = 2 * _LARGE * small.const_axes["hidden"] * 4  # read and written once more
    gain = (bytes_moved(small, alone) + relu_bytes) / bytes_moved(fused, both)
    times = _read_times(registry.root)
    return [
        Question("Passes over a row of x", 3.0, f"{_TEXTBOOK}, its loops"),
        Question("Load sectors of a row", 4.0 * of_row, _EXPLAIN),
        Question("Load sectors of a row, if x were loaded once", 2.0 * of_row, _EXPLAIN),
        Question("Coalesced, yes or no", "yes", _EXPLAIN, wrong=("no",)),
        # Of the last block, x stays in registers; with 64 elements, each of two pairs of warps loads them all.
        Question("Load sectors of a row, blocks of 64", 5.0 * of_small_row, _TUNE),
        Question("Load sectors of a row, blocks of 128", 2.0 * of_small_row, _TUNE),
        Question("Block with the fewest load sectors", 128.0, _TUNE),
        Question(
            "Time of torch's LayerNorm over Triton's RMSNorm", times[_TORCH_LAYERNORM] / times[_TRITON_RMSNORM], _REPORT
        ),
        Question(
            "Time of Triton's LayerNorm over Triton's RMSNorm",
            times[_TRITON_LAYERNORM] / times[_TRITON_RMSNORM],
            _REPORT,
        ),
        Question("Gain of the fused ReLU, by bytes", gain, f"fib-rmsnorm show {_FUSED}"),
    ]


def _read_times(folder: Path) -> dict[str, float]:
    """The median latency of each Solution that stands in, at many rows."""
    from fib_rmsnorm.analysis.loading import load_traces

    records = load_traces([folder / STAND_IN], folder, warn=lambda _: None).records
    times = {each.solution: each.latency_ms for each in records if each.axes.get("batch") == _LARGE and each.latency_ms}
    if not {_TORCH_LAYERNORM, _TRITON_LAYERNORM, _TRITON_RMSNORM} <= times.keys():
        raise InputError(f"{folder / STAND_IN} is damaged; set the exercise up again elsewhere, and copy it from there")
    return times


MEMORY_PASSES = Exercise(
    number=2,
    title="LayerNorm and RMSNorm in blocks",
    page="docs/exercises/2-layernorm-passes.md",
    definitions={
        **dict.fromkeys((_SMALL, _FUSED), _BATCH_SIZES),
        **dict.fromkeys((_LAYERNORM, _RMSNORM), (512, _LARGE)),
    },
    solutions=tuple(
        f"baseline/norm/{definition}/{definition.partition('_d')[0]}_python_torch_v1"
        for definition in ("layernorm_d4096", "rmsnorm_d4096", "rmsnorm_relu_d4096")
    ),
    starter="memory_passes",
    shared=("block_size",),
    stand_in=StandIn(
        tuple(f"traces/published/norm/{name}.jsonl" for name in (_LAYERNORM, _RMSNORM)),
        (_TORCH_LAYERNORM, _TRITON_LAYERNORM, _TORCH_RMSNORM, _TRITON_RMSNORM),
        (512, _LARGE),
    ),
    commands=(
        (_EXPLAIN, "what the textbook's kernel asks of memory"),
        (_TRY, "judge the kernel, until it passes"),
        (_TUNE, "compare block sizes"),
        (_REPORT, "LayerNorm beside RMSNorm on an H200"),
        (_TRY_RELU, "judge the fused kernel, until it passes"),
        ("fib-rmsnorm exercise 2 --check", "your points"),
    ),
    grade=_grade,
)
