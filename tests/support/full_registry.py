"""A small registry with some of everything, for the commands that only read."""

import shutil
from pathlib import Path

from fib_rmsnorm import schema
from fib_rmsnorm.operators import RmsNorm
from fib_rmsnorm.registry import Registry
from support import registries
from support.paths import write
from support.registries import pack_all

DEFINITION = "rmsnorm_d128"
PYTHON = "rmsnorm_python_plain_v1"
CUDA = "rmsnorm_cuda_plain_v1"
HARDWARE = "Test Processor"

# Its files, from its root.
DEFINITION_FILE = f"definitions/norm/{DEFINITION}.json"
WORKLOAD_FILE = f"workloads/norm/{DEFINITION}.jsonl"
PYTHON_FOLDER = f"solutions/baseline/norm/{DEFINITION}/{PYTHON}"
PYTHON_FILE = f"{PYTHON_FOLDER}.json"
CUDA_FOLDER = f"solutions/ann/norm/{DEFINITION}/{CUDA}"
CUDA_FILE = f"{CUDA_FOLDER}.json"
PYTHON_TRACES = f"traces/baseline/norm/{DEFINITION}.jsonl"
CUDA_TRACES = f"traces/ann/norm/{DEFINITION}.jsonl"
PUBLISHED_TRACES = f"traces/published/norm/{DEFINITION}.jsonl"

ANALYSES = (("report",), ("best",), ("analyze",), ("compare", PYTHON_TRACES, PYTHON_TRACES), ("history", "*"))
"""The commands that read Traces."""
CATALOGUES = (
    *(("validate",), ("list",), ("list", "definitions"), ("list", "solutions"), ("list", "workloads")),
    *(("list", "traces"), ("show", DEFINITION), ("show", PYTHON), ("show", f"{PYTHON}@batch=1")),
    ("show", f"{CUDA}@batch=8"),
)
"""Those that read all records."""

PYTHON_SOURCE = '''\
import torch


def run(x, weight, eps):
    """Whole rows at once."""
    return torch.nn.functional.rms_norm(x, x.shape[-1:], weight, eps)
'''


def make_full_registry(root: Path) -> Registry:
    registry = registries.make_registry(root)
    (root / "traces").mkdir()
    workloads = registry.workloads(DEFINITION)
    add_sources(registry, "baseline", PYTHON, "python", {"kernel.py": PYTHON_SOURCE})
    add_sources(registry, "ann", CUDA, "cuda", {"kernel.cu": "// run\n", "rows/rows.cuh": "#define ROWS 4\n"})
    pack_all(registry)
    solutions = registry.packed_solutions()
    for workload in workloads:
        registry.append_trace(make_trace(solutions[PYTHON], workload), "baseline", "norm")
    registry.append_trace(make_trace(solutions[CUDA], workloads[0], hardware="Test GPU"), "ann", "norm")
    wrong = make_trace(solutions[CUDA], workloads[1], hardware="Test GPU", status="INCORRECT_NUMERICAL")
    registry.append_trace(wrong, "ann", "norm")
    return registry


def publish(registry: Registry) -> None:
    """Make its Traces those that come with the registry."""
    benched = [registry.root / PYTHON_TRACES, registry.root / CUDA_TRACES]
    write(registry.root / PUBLISHED_TRACES, "".join(path.read_text() for path in benched))
    for path in benched:
        path.unlink()


def add_sources(registry: Registry, author: str, name: str, language: str, files: dict[str, str]) -> Path:
    manifest = f'description = "A plain one."\n{registries.python_manifest(name)}'
    manifest = manifest.replace("kernel.py", next(iter(files))).replace('"python"', f'"{language}"')
    if language == "cuda":
        manifest = manifest.replace('["cpu"]', '["cuda"]').replace("false", "true")
    return registries.add_sources(registry, name, files, manifest, author)


def change_sources(registry: Registry) -> schema.Solution:
    """Change the Python Solution, so that its Traces are of earlier contents."""
    (registry.root / PYTHON_FOLDER / "kernel.py").write_text(PYTHON_SOURCE + "# faster\n")
    pack_all(registry)
    return registry.packed_solutions()[PYTHON]


def make_trace(
    solution: schema.Solution,
    workload: schema.Workload,
    *,
    hardware: str = HARDWARE,
    status: str = "PASSED",
    timestamp: str = "2026-01-02T03:04:05.678+00:00",
    log: str = "",
) -> schema.Trace:
    correctness = schema.Correctness(
        max_relative_error=4e-4,
        max_absolute_error=0.002,
        extra={
            "tolerance": {"out": {"rtol": 1e-3, "atol": 2.4e-7}},
            "cases": [
                {"case": "workload", "kind": "workload", "max_absolute_error": 0.002, "mismatched": 0},
                {"case": "hard rows, eps=1e-06", "kind": "hard", "max_absolute_error": 0.125, "mismatched": 17},
            ],
        },
    )
    performance = schema.Performance(
        latency_ms=0.0125,
        reference_latency_ms=0.025,
        speedup_factor=2.0,
        latency_p5_ms=0.012,
        latency_p95_ms=0.014,
        samples=150,
        timer="cpu_clock",
        bytes_moved=4352,
        bandwidth_gb_per_s=0.35,
        build_s=1.5,
    )
    return schema.Trace(
        definition=solution.definition,
        workload=workload,
        solution=solution.name,
        evaluation=schema.Evaluation(
            status=schema.EvaluationStatus(status),
            environment=schema.Environment(hardware=hardware, libs={"torch": "2.99"}),
            timestamp=timestamp,
            log=log,
            correctness=correctness if status in ("PASSED", "INCORRECT_NUMERICAL") else None,
            performance=performance if status == "PASSED" else None,
            settings=schema.Settings(rtol=0.5, iterations=50),
            definition_sha256=schema.digest(RmsNorm().define(128)),
            solution_sha256=schema.digest(solution),
        ),
    )


def grow(registry: Registry, root: Path, hidden: int) -> Registry:
    """A copy with another Definition, its Workloads, a Solution and 40 Traces."""
    shutil.copytree(registry.root, root)
    other = Registry(root)
    definition = RmsNorm().define(hidden)
    workloads = registries.add_definition(other, definition, (1, 2))
    name = f"{PYTHON}_d{hidden}"
    solution = other.packed_solutions()[PYTHON].model_copy(update={"name": name, "definition": definition.name})
    other.write_solution(solution, "norm")
    trace = make_trace(solution, workloads[0])
    path = other.layout.trace_file("baseline", "norm", definition.name)
    text, times = trace.model_dump_json(), [f"2026-01-01T00:00:{number:02}+00:00" for number in range(40)]
    path.write_text("".join(f"{text.replace(trace.evaluation.timestamp, each)}\n" for each in times))
    return other
