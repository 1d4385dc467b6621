"""Small registries for tests: RMSNorm over short rows and kernels of a few lines."""

import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from uuid import uuid4

from fib_rmsnorm.evaluation.bench import BenchOptions, bench
from fib_rmsnorm.evaluation.scheduler import Evaluated
from fib_rmsnorm.operators import RmsNorm
from fib_rmsnorm.registry import Registry, generate_workloads
from fib_rmsnorm.registry.sources.packing import pack_sound
from fib_rmsnorm.registry.store import read_jsonl
from fib_rmsnorm.schema import Definition, Settings, Solution, Trace, Workload
from support.paths import REPOSITORY, TESTS, write

# Few and short: these tests are about what is said of an evaluation, not about its number.
QUICK = Settings(warmup_runs=1, iterations=3, num_trials=1)

RIGHT = (TESTS / "honest_kernels" / "outputs" / "value_returning.py").read_text()
WRONG = """\
def run(x, weight, eps):
    return x * weight
"""


CRASHES = "import os\n\n\ndef run(x, weight, eps):\n    os.kill(os.getpid(), 11)\n"
HANGS = "def run(x, weight, eps):\n    print('hangs', flush=True)\n    while True:\n        pass\n"
NO_EPS = RIGHT.replace("+ eps", "+ 0 * eps")
UNNAMED = RIGHT.replace("run(x, weight, eps)", "norm(p, q, r)").replace(
    "    x_fp32 =", "    weight, x, eps = p, q, r\n    x_fp32 ="
)
"""Only by computing is the call found that is right."""


def unseen(source: str) -> str:
    """The same kernel in other words: no run before this one has left builds or files of it in the cache."""
    return f"{source}# {uuid4()}\n"


def make_registry(root: Path, hidden: int = 128, batch_sizes: Sequence[int] = (1, 8)) -> Registry:
    registry = make_empty_registry(root)
    add_definition(registry, RmsNorm().define(hidden), batch_sizes)
    return registry


def make_empty_registry(root: Path) -> Registry:
    """The folders that every registry has."""
    (root / "definitions").mkdir(parents=True)
    (root / "solutions").mkdir()
    return Registry(root)


def add_definition(registry: Registry, definition: Definition, batch_sizes: Sequence[int]) -> list[Workload]:
    """Write a Definition and its Workloads of these sizes, and return them."""
    workloads = generate_workloads(definition, batch_sizes)
    registry.write_definition(definition)
    registry.write_workloads(definition, workloads)
    return workloads


def make_definition(
    name: str, reference: str, inputs: dict[str, str], outputs: dict[str, str], op_type: str = "norm", **sizes: int
) -> Definition:
    """Of tensors such as `float16 tokens hidden` and numbers such as `float32`; an axis without a size is variable."""

    def specify(tensors: dict[str, str]) -> dict[str, Any]:
        words = {part: text.split() for part, text in tensors.items()}
        return {part: {"shape": axes or None, "dtype": dtype} for part, (dtype, *axes) in words.items()}

    tensors = {"inputs": specify(inputs), "outputs": specify(outputs)}
    axes = [axis for each in tensors["inputs"].values() for axis in each["shape"] or ()]
    found = {axis: {"type": "const", "value": sizes[axis]} if axis in sizes else {"type": "var"} for axis in axes}
    record = {"name": name, "op_type": op_type, "axes": found, **tensors, "reference": reference}
    return Definition.model_validate(record)


DOUBLES = "import torch\n\n\ndef run(x, weight):\n    return x * 2\n"
_ROWS = "float32 batch hidden"
SCALE = "def run(x, factor):\n    return x * factor\n"
SCALED = make_definition("scaled", SCALE, {"x": _ROWS, "factor": "float32"}, {"y": _ROWS}, "elementwise", hidden=128)
"""A Definition whose scalar has no default, so that it has only Workloads that were made for it."""


def add_sources(
    registry: Registry,
    name: str,
    files: dict[str, str],
    manifest: str | None = None,
    author: str = "tester",
    definition: str | None = None,
) -> Path:
    """Write a folder of sources (by default of a Python solution) for a Definition, by default the registry's first."""
    folder = registry.layout.solutions / author / "norm" / (definition or next(iter(registry.definitions()))) / name
    for path, content in files.items():
        write(folder / path, content)
    return write(folder / "solution.toml", manifest or python_manifest(name)).parent


def make_solution(
    name: str,
    file: str,
    content: str,
    language: str = "python",
    *,
    author: str = "tester",
    definition: str = "rmsnorm_d128",
    **spec: Any,
) -> Solution:
    """A Solution of one file, by default for a CPU."""
    spec = {"language": language, "target_hardware": ["cpu"], "entry_point": f"{file}::run", **spec}
    sources = [{"path": file, "content": content}]
    record = {"name": name, "definition": definition, "author": author, "spec": spec, "sources": sources}
    return Solution.model_validate(record)


def python_manifest(name: str) -> str:
    return f"""\
name = "{name}"

[spec]
language = "python"
entry_point = "kernel.py::run"
target_hardware = ["cpu"]
destination_passing_style = false
dependencies = []
"""


def add_kernel(registry: Registry, name: str, source: str = RIGHT) -> Solution:
    """Add a Python solution of one file and pack it."""
    add_sources(registry, name, {"kernel.py": source})
    return next(solution for solution in pack_all(registry) if solution.name == name)


def copy_shared(registry: Registry) -> None:
    """Copy what the shipped kernels share into the registry."""
    shared = Path("fib-rmsnorm", "shared")
    shutil.copytree(REPOSITORY / "solutions" / shared, registry.layout.solutions / shared)


def pack(registry: Registry) -> list[Solution]:
    """All Solutions as their sources are now. Raises the error of sources that cannot be packed."""
    packed, faulty = pack_sound(registry, registry.definitions())
    for each in faulty:
        raise each.error
    return list(packed.values())


def pack_all(registry: Registry) -> list[Solution]:
    solutions = pack(registry)
    for solution in solutions:
        registry.write_solution(solution, registry.definition(solution.definition).op_type)
    return solutions


def bench_all(registry: Registry, **options: Any) -> list[Trace]:
    """The Traces of a bench on a CPU, by default with few and short calls."""
    chosen = BenchOptions(**{"settings": QUICK, "device": "cpu", **options})
    return [event.trace for event in bench(registry, chosen) if isinstance(event, Evaluated)]


def keys(traces: Sequence[Trace]) -> list[tuple[str | None, int]]:
    """(solution, batch) of each Trace."""
    return [(trace.solution, trace.workload.axes["batch"]) for trace in traces]


def read_output(path: Path) -> list[Trace]:
    """The Traces of a bench's output, also of one that was killed."""
    lines = path.with_name(f"{path.name}.unfinished.jsonl")
    if path.suffix == ".jsonl" or lines.exists():
        return read_jsonl(lines if lines.exists() else path, Trace)
    return [Trace.model_validate(record) for record in json.loads(path.read_text())]
