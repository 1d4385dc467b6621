"""The exercises of the course, as data."""

from __future__ import annotations

from collections.abc import Callable

from fib_rmsnorm.errors import InputError
from fib_rmsnorm.exercises.exercise import Exercise, Figures, KernelTask, Question

_RMSNORM, _LAYERNORM, _ADD = "rmsnorm_d4096", "layernorm_d4096", "fused_add_rmsnorm_d4096"
_SMALL, _RELU = "rmsnorm_d128_fp32", "rmsnorm_relu_d128_fp32"
_BACKWARD = "rmsnorm_backward_d4096"
_TORCH, _TRITON, _CUDA = "rmsnorm_python_torch_v1", "rmsnorm_triton_row_v1", "rmsnorm_cuda_vec16_v1"
_TILELANG, _CUTEDSL = "rmsnorm_tilelang_row_v1", "rmsnorm_python_cutedsl_v1"
_LAYERNORM_TORCH, _LAYERNORM_TRITON = "layernorm_python_torch_v1", "layernorm_triton_row_v1"
_TORCH_2048, _TRITON_2048 = f"{_TORCH}_d2048", f"{_TRITON}_d2048"
_TORCH_8192, _CUTEDSL_8192 = f"{_TORCH}_d8192_bf16", f"{_CUTEDSL}_d8192_bf16"
_QUACK_8192, _TRITON_8192 = "rmsnorm_python_quack_v1_d8192_bf16", f"{_TRITON}_d8192_bf16"
_ADD_TORCH, _ADD_CUTEDSL = "fused_add_rmsnorm_python_torch_v1", "fused_add_rmsnorm_python_cutedsl_v1"
_BACKWARD_TORCH, _BACKWARD_TRITON = "rmsnorm_backward_python_torch_v1", "rmsnorm_backward_triton_row_v1"
_REPORT, _ANALYZE = "fib-rmsnorm report traces_h200.jsonl", "fib-rmsnorm analyze traces_h200.jsonl"


def find_exercise(number: int) -> Exercise:
    """Raises InputError with the known numbers for another one."""
    if number not in EXERCISES:
        known = ", ".join(f"{each.number} ({each.title})" for each in EXERCISES.values())
        raise InputError(f"no exercise {number} (available: {known})")
    return EXERCISES[number]


def _value(field: str, solution: str, batch: int, scale: float = 1) -> Callable[[Figures], float]:
    return lambda figures: scale * figures.value(field, solution, batch)


def _time(solution: str, batch: int) -> Callable[[Figures], float]:
    return _value("latency_ms", solution, batch, 1e3)


def _ratio(slow: str, fast: str, batch: int) -> Callable[[Figures], float]:
    return lambda figures: _time(slow, batch)(figures) / _time(fast, batch)(figures)


_FIRST = Exercise(
    number=1,
    title="RMSNorm in Triton",
    page="docs/exercises/1-triton-rmsnorm.md",
    starter="triton_rmsnorm",
    definitions={_RMSNORM: (1, 8, 32, 128, 512, 4096)},
    solutions=(f"baseline/norm/{_RMSNORM}/{_TORCH}",),
    kernels=(KernelTask("Kernel", 40, _RMSNORM, "triton_rmsnorm.py", solution="rmsnorm_triton_mine_v1"),),
    evaluation_points=20,
    batch_sizes={"cpu": (1, 8, 32), "cuda": (1, 8, 32, 128, 512)},
    sheet="analysis.md",
    answer_points=5,
    questions={
        "Analysis": (
            Question("FLOP per byte, at 4096 rows", 1.0, _ANALYZE),
            Question("Bound by compute or memory", "memory", _ANALYZE, wrong=("compute",)),
            Question("% of peak, at 4096 rows", lambda f: f.percent_of_peak(_TRITON, 4096), _ANALYZE),
            Question(
                "Time at batch 512, over the time at batch 1",
                lambda f: _time(_TRITON, 512)(f) / _time(_TRITON, 1)(f),
                _ANALYZE,
            ),
        )
    },
)

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
_EXPLAIN = f"fib-rmsnorm explain textbook_layernorm.py --definition {_LAYERNORM} --batch-sizes 4096"
_TUNE_SMALL = f"fib-rmsnorm tune block_size --definitions {_SMALL} --batch-sizes 4096"
_SECTORS = 4096 * 2 // 32  # of a row of float16
_SMALL_SECTORS = 128 * 4 // 32
_PASSES = Exercise(
    number=2,
    title="LayerNorm and RMSNorm in blocks",
    page="docs/exercises/2-layernorm-passes.md",
    starter="memory_passes",
    shared=("block_size",),
    definitions={
        **dict.fromkeys((_SMALL, _RELU), (1, 32, 1024, 4096)),
        **dict.fromkeys((_LAYERNORM, _RMSNORM), (512, 4096)),
    },
    solutions=tuple(
        f"baseline/norm/{definition}/{definition.removesuffix('_d4096')}_python_torch_v1"
        for definition in (_LAYERNORM, _RMSNORM, "rmsnorm_relu_d4096")
    ),
    kernels=(
        KernelTask("RMSNorm", 25, _SMALL, "rmsnorm_module.py"),
        KernelTask("Module", 15, _SMALL, "rmsnorm_module.py", caller=_CALL_MODULE, entry="call_module"),
        KernelTask("RMSNorm and ReLU", 20, _RELU, "rmsnorm_relu.py"),
    ),
    sheet="passes.md",
    answer_points=4,
    questions={
        "Analysis": (
            Question("Passes over a row of x", 3, "textbook_layernorm.py, its loops"),
            Question("Load sectors of a row", 4 * _SECTORS, _EXPLAIN),
            Question("Load sectors of a row, if x were loaded once", 2 * _SECTORS, _EXPLAIN),
            Question("Coalesced, yes or no", "yes", _EXPLAIN, wrong=("no",)),
            # Of the last block, x stays in registers; with 64 elements, each of two pairs of warps loads them all.
            Question("Load sectors of a row, blocks of 64", 5 * _SMALL_SECTORS, _TUNE_SMALL),
            Question("Load sectors of a row, blocks of 128", 2 * _SMALL_SECTORS, _TUNE_SMALL),
            Question("Block with the fewest load sectors", 128, _TUNE_SMALL),
            Question(
                "Time of torch's LayerNorm over Triton's RMSNorm", _ratio(_LAYERNORM_TORCH, _TRITON, 4096), _REPORT
            ),
            Question(
                "Time of Triton's LayerNorm over Triton's RMSNorm", _ratio(_LAYERNORM_TRITON, _TRITON, 4096), _REPORT
            ),
            # Two kernels read and write a row twice.
            Question("Gain of the fused ReLU, by bytes", 2, f"fib-rmsnorm show {_RELU}"),
        )
    },
)

_TUNE_2048 = "fib-rmsnorm tune block_size --definitions rmsnorm_d2048 --batch-sizes 4096"
_AT_16384, _AT_ONE = f"{_REPORT} --batch-sizes 16384", f"{_REPORT} --batch-sizes 1"  # 134 MB, which no L2 holds
_PROFILE = Exercise(
    number=3,
    title="a profile at dim 2048",
    page="docs/exercises/3-profile-d2048.md",
    starter="profiling_d2048",
    shared=("block_size",),
    definitions={"rmsnorm_d2048": (1, 512, 4096, 16384)},
    solutions=(f"baseline/norm/{_RMSNORM}/{_TORCH}", f"fib-rmsnorm/norm/{_RMSNORM}/{_TRITON}"),
    sheet="profile.md",
    answer_points=5,
    questions={
        "Time, memory, bandwidth": (
            Question("Time of Triton, us", _time(_TRITON_2048, 16384), _AT_16384),
            Question("Time of torch, us", _time(_TORCH_2048, 16384), _AT_16384),
            Question("Speedup", _ratio(_TORCH_2048, _TRITON_2048, 16384), _AT_16384),
            Question("Memory of the tensors, MB", 2 * 16384 * 2048 * 2 / 1e6, "2 bytes an element"),
            Question(
                "Memory that torch takes beyond them, KiB",
                _value("peak_memory_bytes", _TORCH_2048, 16384, 1 / 1024),
                "peak_memory_bytes in traces_h200.jsonl",
            ),
            Question("Bandwidth of Triton, GB/s", _value("bandwidth_gb_per_s", _TRITON_2048, 16384), _AT_16384),
            Question("Bandwidth of torch, GB/s", _value("bandwidth_gb_per_s", _TORCH_2048, 16384), _AT_16384),
            Question("% of the peak of Triton", lambda f: f.percent_of_peak(_TRITON_2048, 16384), _AT_16384),
            Question("Bound by", "memory", _ANALYZE, wrong=("compute", "launch")),
        ),
        "Launches": (
            Question("Time of Triton at one row, us", _time(_TRITON_2048, 1), _AT_ONE),
            Question("Time of the host for a call of Triton, us", _value("host_overhead_us", _TRITON_2048, 1), _AT_ONE),
            Question(
                "Time of the host for an empty kernel, us",
                _value("empty_host_us", _TRITON_2048, 1),
                "empty_host_us in traces_h200.jsonl",
            ),
            Question(
                "Time of the host over the kernel's",
                lambda f: f.value("host_overhead_us", _TRITON_2048, 1) / _time(_TRITON_2048, 1)(f),
                _AT_ONE,
            ),
        ),
        "Block sizes": (  # what `tune` says of block_size for sm_90, which a test holds
            Question("Transactions of 32 elements in a row", 2048 / 32, "a division"),
            Question("Load requests of a row, blocks of 64", 380, _TUNE_2048),
            Question("Load requests of a row, blocks of 1024", 20, _TUNE_2048),
            Question("Load sectors of a row, blocks of 64", 760, _TUNE_2048),
            Question("Load sectors of a row, blocks of 1024", 320, _TUNE_2048),
            Question("Occupancy with each block, %", 100, _TUNE_2048),
            Question("Block with the fewest load sectors", 1024, _TUNE_2048),
        ),
    },
)

_AT_32 = f"{_REPORT} --batch-sizes 32"


def _over_fastest(figures: Figures) -> float:
    return _time(_TORCH, 32)(figures) / min(_time(each, 32)(figures) for each in (_TRITON, _CUDA, _TILELANG))


_LANGUAGES = Exercise(
    number=4,
    title="one Definition in three languages",
    page="docs/exercises/4-three-languages.md",
    starter="three_languages",
    definitions={},
    own_definition=_RMSNORM,
    solutions=(),
    kernels=(
        KernelTask("Triton", 15, _RMSNORM, "in_triton.py", solution="rmsnorm_triton_mine_v1"),
        KernelTask("TileLang", 15, _RMSNORM, "in_tilelang.py", "tilelang", "rmsnorm_tilelang_mine_v1"),
        KernelTask("C++", 15, _RMSNORM, "in_cpp.cpp", "cpp", "rmsnorm_cpp_mine_v1", device="cpu"),
        KernelTask("CUDA", 15, _RMSNORM, "in_cuda.cu", "cuda", "rmsnorm_cuda_mine_v1", device="cuda"),
    ),
    evaluation_points=5,
    batch_sizes={"cpu": (1, 8, 32), "cuda": (1, 8, 32, 128)},
    sheet="records.md",
    answer_points=3,
    questions={
        "Records": (
            Question("Axes in a Workload", 1, "fib-rmsnorm list workloads"),
            Question(
                "Dtype of the reference's arithmetic",
                "float32",
                f"fib-rmsnorm show {_RMSNORM}",
                wrong=("float16", "float64", "bfloat16"),
            ),
            Question("Torch's time over the fastest's, at batch 32", _over_fastest, _AT_32),
            Question(
                "Triton's speedup over the reference, at batch 32",
                lambda f: 1e3 * f.value("reference_latency_ms", _TRITON, 32) / _time(_TRITON, 32)(f),
                _AT_32,
            ),
            Question(
                "Triton's host time over CUDA's, at batch 32",
                lambda f: f.value("host_overhead_us", _TRITON, 32) / f.value("host_overhead_us", _CUDA, 32),
                _AT_32,
            ),
        )
    },
)


def _count_differing(figures: Figures) -> float:
    difference = figures.difference(_ADD_CUTEDSL, 4096, "out")
    return difference.elements - difference.equal


def _count_ulps(figures: Figures) -> float:
    ulp = figures.difference(_ADD_CUTEDSL, 4096, "out").ulp
    return ulp.maximum if ulp else 0


_AGAINST_QUACK = "fib-rmsnorm report traces_h200.jsonl --against '*_python_quack_v1'"
_PEERS = Exercise(
    number=5,
    title="RMSNorm beside its peers",
    page="docs/exercises/5-beside-peers.md",
    starter="beside_peers",
    definitions=dict.fromkeys((_ADD, _BACKWARD), (1, 8, 4096)),
    solutions=(f"baseline/norm/{_ADD}/{_ADD_TORCH}", f"baseline/norm/{_BACKWARD}/{_BACKWARD_TORCH}"),
    kernels=(
        KernelTask("Residual", 20, _ADD, "add_in_triton.py", solution="fused_add_rmsnorm_triton_mine_v1", device="cpu"),
        KernelTask(
            "Residual", 20, _ADD, "add_in_cutedsl.py", "python", "fused_add_rmsnorm_python_mine_v1", device="cuda"
        ),
        KernelTask(
            "Backward",
            20,
            _BACKWARD,
            "backward_in_torch.py",
            "python",
            "rmsnorm_backward_python_mine_v1",
            launches=False,
        ),
    ),
    evaluation_points=5,
    batch_sizes={"cpu": (1, 8), "cuda": (1, 8, 4096)},
    against="*_python_torch_v1",
    sheet="backends.md",
    answer_points=4,
    questions={
        "Backends": (
            Question("Torch, us", _time(_TORCH_8192, 4096), _REPORT),
            Question("CuTe DSL, us", _time(_CUTEDSL_8192, 4096), _REPORT),
            Question("Quack, us", _time(_QUACK_8192, 4096), _REPORT),
            Question("Triton, us", _time(_TRITON_8192, 4096), _REPORT),
            Question("Torch's time over Triton's", _ratio(_TORCH_8192, _TRITON_8192, 4096), _REPORT),
            Question("Elements of out that differ from Quack's", _count_differing, _AGAINST_QUACK),
            Question("The largest distance, in ULP", _count_ulps, _AGAINST_QUACK),
            Question("Torch's time over CuTe DSL's, with a residual", _ratio(_ADD_TORCH, _ADD_CUTEDSL, 4096), _REPORT),
            Question("Torch's time over Triton's, backward", _ratio(_BACKWARD_TORCH, _BACKWARD_TRITON, 4096), _REPORT),
            Question(
                "Host time that Quack's way in adds, us",
                lambda f: (
                    f.value("host_overhead_us", "rmsnorm_python_quack_v1", 4096)
                    - f.value("host_overhead_us", _CUTEDSL, 4096)
                ),
                _REPORT,
            ),
        )
    },
)

EXERCISES = {each.number: each for each in (_FIRST, _PASSES, _PROFILE, _LANGUAGES, _PEERS)}
