"""The exercises of the course, as data, and how the folder of one is set up: a registry and the starters' files."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from fib_rmsnorm.errors import InputError
from fib_rmsnorm.languages import DeviceKind
from fib_rmsnorm.operators import define_by_name
from fib_rmsnorm.registry import Registry, generate_workloads
from fib_rmsnorm.registry.layout import is_registry
from fib_rmsnorm.registry.shipped import copy_new, shipped_registry, staged_registry
from fib_rmsnorm.registry.sources.packing import pack_folder
from fib_rmsnorm.schema import Definition

STARTERS = Path(__file__).parent / "starters"
TRACES = "traces.json"
"""The file that a student's bench writes."""


@dataclass(frozen=True)
class KernelTask:
    """A kernel that a student writes, and the Definition that it must compute."""

    title: str
    points: int
    definition: str
    file: str
    language: str = "triton"
    device: DeviceKind | None = None
    """The kind of device with which it is asked for; None for both."""
    caller: str = ""
    """Source added to the file: `call_module`, to judge in the place of `run`."""


@dataclass(frozen=True)
class Exercise:
    """An exercise: the registry and the files that it starts with, and what it grades."""

    number: int
    title: str
    starters: tuple[str, ...]
    """The folders in STARTERS whose files are copied; further ones than the first, as folders."""
    sheet: str
    """The file of the answers, which no other exercise has."""
    definitions: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    """The Definitions of its registry, shipped or as `define` names them, with the batch sizes of their Workloads."""
    solutions: tuple[str, ...] = ()
    """The source folders of the Solutions to compare with, in the shipped solutions/."""
    kernels: tuple[KernelTask, ...] = ()
    evaluation_points: int = 0
    """The points of each kernel as a Solution, and as many for its Traces."""
    batch_sizes: Mapping[DeviceKind, tuple[int, ...]] = field(default_factory=dict)
    """The batch sizes of the Traces."""
    against: str = ""
    """The Solution with whose outputs the bench has to compare."""

    @property
    def page(self) -> Path:
        """The page that a student works through; its worked answers are the right ones."""
        return next(shipped_registry().glob(f"docs/exercises/{self.number}-*.md"))

    @property
    def files(self) -> dict[Path, Path]:
        """The files that it starts with: by their paths in its folder, those that are copied."""
        first, *_ = self.starters
        found = [
            (path.relative_to(STARTERS / first if name == first else STARTERS), path)
            for name in self.starters
            for path in (STARTERS / name).rglob("*")
            if path.is_file() and "__pycache__" not in path.parts
        ]
        return dict(sorted(found))

    def is_set_up(self, folder: Path) -> bool:
        """Whether a folder holds the exercise."""
        return is_registry(folder) and (folder / self.sheet).exists()


_RMSNORM, _LAYERNORM, _ADD = "rmsnorm_d4096", "layernorm_d4096", "fused_add_rmsnorm_d4096"
_SMALL, _RELU = "rmsnorm_d128_fp32", "rmsnorm_relu_d128_fp32"
_BACKWARD = "rmsnorm_backward_d4096"
_TORCH = f"baseline/norm/{_RMSNORM}/rmsnorm_python_torch_v1"

_FIRST = Exercise(
    number=1,
    title="RMSNorm in Triton",
    starters=("triton_rmsnorm",),
    sheet="analysis.md",
    definitions={_RMSNORM: (1, 8, 32, 128, 512, 4096)},
    solutions=(_TORCH,),
    kernels=(KernelTask("Kernel", 40, _RMSNORM, "triton_rmsnorm.py"),),
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
        KernelTask("Module", 15, _SMALL, "rmsnorm_module.py", caller=_CALL_MODULE),
        KernelTask("RMSNorm and ReLU", 20, _RELU, "rmsnorm_relu.py"),
    ),
)

_PROFILE = Exercise(
    number=3,
    title="a profile at dim 2048",
    starters=("profiling_d2048", "block_size"),
    sheet="profile.md",
    definitions={"rmsnorm_d2048": (1, 512, 4096, 16384)},
    solutions=(_TORCH, f"fib-rmsnorm/norm/{_RMSNORM}/rmsnorm_triton_row_v1"),
)

_LANGUAGES = Exercise(
    number=4,
    title="one Definition in three languages",
    starters=("three_languages",),
    sheet="records.md",
    kernels=(
        KernelTask("Triton", 15, _RMSNORM, "in_triton.py"),
        KernelTask("TileLang", 15, _RMSNORM, "in_tilelang.py", "tilelang"),
        KernelTask("C++", 15, _RMSNORM, "in_cpp.cpp", "cpp", device="cpu"),
        KernelTask("CUDA", 15, _RMSNORM, "in_cuda.cu", "cuda", device="cuda"),
    ),
    evaluation_points=5,
    batch_sizes={"cpu": (1, 8, 32), "cuda": (1, 8, 32, 128)},
)

_PEERS = Exercise(
    number=5,
    title="RMSNorm beside its peers",
    starters=("beside_peers",),
    sheet="backends.md",
    definitions=dict.fromkeys((_ADD, _BACKWARD), (1, 8, 4096)),
    solutions=(
        f"baseline/norm/{_ADD}/fused_add_rmsnorm_python_torch_v1",
        f"baseline/norm/{_BACKWARD}/rmsnorm_backward_python_torch_v1",
    ),
    kernels=(
        KernelTask("Residual", 20, _ADD, "add_in_triton.py"),
        KernelTask("Backward", 20, _BACKWARD, "backward_in_torch.py", "python"),
    ),
    evaluation_points=5,
    batch_sizes={"cpu": (1, 8), "cuda": (1, 8, 4096)},
    against="*_python_torch_v1",
)

EXERCISES = {each.number: each for each in (_FIRST, _PASSES, _PROFILE, _LANGUAGES, _PEERS)}


def find_exercise(number: int) -> Exercise:
    """Raises InputError with the known numbers for another one."""
    if number not in EXERCISES:
        known = ", ".join(f"{each.number} ({each.title})" for each in EXERCISES.values())
        raise InputError(f"no exercise {number} (available: {known})")
    return EXERCISES[number]


def find_definition(name: str) -> Definition:
    """A Definition as `define` writes it, or as it is shipped."""
    return define_by_name(name) or Registry(shipped_registry()).definition(name)


def set_up(exercise: Exercise, folder: Path) -> None:
    """Create the exercise in an empty or new folder. Raises InputError if it is in use or cannot be written."""
    if exercise.is_set_up(folder):
        raise InputError(f"{folder} holds exercise {exercise.number} already; name another folder, or remove it first")
    shipped = Registry(shipped_registry())
    definitions = {name: find_definition(name) for name in exercise.definitions}
    with staged_registry(folder) as staging:
        registry = Registry(staging)
        for name, definition in definitions.items():
            registry.write_definition(definition)
            registry.write_workloads(definition, generate_workloads(definition, list(exercise.definitions[name])))
        for name in exercise.solutions:
            for solution in pack_folder(shipped, shipped.layout.solutions / name, definitions):
                registry.write_solution(solution, definitions[solution.definition].op_type)
    for path, file in exercise.files.items():
        (folder / path).parent.mkdir(exist_ok=True)
        copy_new(file, folder / path)
