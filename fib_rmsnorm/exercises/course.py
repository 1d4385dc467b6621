"""The exercises of the course, as data."""

from __future__ import annotations

from fib_rmsnorm.errors import InputError
from fib_rmsnorm.exercises.exercise import Exercise, KernelTask

_RMSNORM, _LAYERNORM, _ADD = "rmsnorm_d4096", "layernorm_d4096", "fused_add_rmsnorm_d4096"
_SMALL, _RELU = "rmsnorm_d128_fp32", "rmsnorm_relu_d128_fp32"
_BACKWARD = "rmsnorm_backward_d4096"
_TORCH = f"baseline/norm/{_RMSNORM}/rmsnorm_python_torch_v1"


def find_exercise(number: int) -> Exercise:
    """Raises InputError with the known numbers for another one."""
    if number not in EXERCISES:
        known = ", ".join(f"{each.number} ({each.title})" for each in EXERCISES.values())
        raise InputError(f"no exercise {number} (available: {known})")
    return EXERCISES[number]


_FIRST = Exercise(
    number=1,
    title="RMSNorm in Triton",
    page="docs/exercises/1-triton-rmsnorm.md",
    starters=("triton_rmsnorm",),
    sheet="analysis.md",
    definitions={_RMSNORM: (1, 8, 32, 128, 512, 4096)},
    solutions=(_TORCH,),
    kernels=(KernelTask("Kernel", 40, _RMSNORM, "triton_rmsnorm.py", solution="rmsnorm_triton_mine_v1"),),
    evaluation_points=20,
    batch_sizes={"cpu": (1, 8, 32), "cuda": (1, 8, 32, 128, 512)},
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
_PASSES = Exercise(
    number=2,
    title="LayerNorm and RMSNorm in blocks",
    page="docs/exercises/2-layernorm-passes.md",
    starters=("memory_passes", "block_size"),
    sheet="passes.md",
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
)

_PROFILE = Exercise(
    number=3,
    title="a profile at dim 2048",
    page="docs/exercises/3-profile-d2048.md",
    starters=("profiling_d2048", "block_size"),
    sheet="profile.md",
    definitions={"rmsnorm_d2048": (1, 512, 4096, 16384)},
    solutions=(_TORCH, f"fib-rmsnorm/norm/{_RMSNORM}/rmsnorm_triton_row_v1"),
)

_LANGUAGES = Exercise(
    number=4,
    title="one Definition in three languages",
    page="docs/exercises/4-three-languages.md",
    starters=("three_languages",),
    sheet="records.md",
    own_definition=_RMSNORM,
    kernels=(
        KernelTask("Triton", 15, _RMSNORM, "in_triton.py", solution="rmsnorm_triton_mine_v1"),
        KernelTask("TileLang", 15, _RMSNORM, "in_tilelang.py", "tilelang", "rmsnorm_tilelang_mine_v1"),
        KernelTask("C++", 15, _RMSNORM, "in_cpp.cpp", "cpp", "rmsnorm_cpp_mine_v1", device="cpu"),
        KernelTask("CUDA", 15, _RMSNORM, "in_cuda.cu", "cuda", "rmsnorm_cuda_mine_v1", device="cuda"),
    ),
    evaluation_points=5,
    batch_sizes={"cpu": (1, 8, 32), "cuda": (1, 8, 32, 128)},
)

_ADD_IN = ("fused_add_rmsnorm_triton_mine_v1", "fused_add_rmsnorm_python_mine_v1")
_BACKWARD_IN = "rmsnorm_backward_python_mine_v1"
_PEERS = Exercise(
    number=5,
    title="RMSNorm beside its peers",
    page="docs/exercises/5-beside-peers.md",
    starters=("beside_peers",),
    sheet="backends.md",
    definitions=dict.fromkeys((_ADD, _BACKWARD), (1, 8, 4096)),
    solutions=(
        f"baseline/norm/{_ADD}/fused_add_rmsnorm_python_torch_v1",
        f"baseline/norm/{_BACKWARD}/rmsnorm_backward_python_torch_v1",
    ),
    kernels=(
        KernelTask("Residual", 20, _ADD, "add_in_triton.py", solution=_ADD_IN[0], device="cpu"),
        KernelTask("Residual", 20, _ADD, "add_in_cutedsl.py", "python", _ADD_IN[1], device="cuda"),
        KernelTask("Backward", 20, _BACKWARD, "backward_in_torch.py", "python", _BACKWARD_IN),
    ),
    evaluation_points=5,
    batch_sizes={"cpu": (1, 8), "cuda": (1, 8, 4096)},
    against="*_python_torch_v1",
)

EXERCISES = {each.number: each for each in (_FIRST, _PASSES, _PROFILE, _LANGUAGES, _PEERS)}
