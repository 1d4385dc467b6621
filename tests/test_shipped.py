"""The repository's own registry: packed from its sources, and every solution that runs here is right."""

import shutil

import pytest

from fib_rmsnorm.evaluation.plan import Selection
from fib_rmsnorm.machine.capabilities import reason_to_skip
from fib_rmsnorm.machine.devices import choose_devices
from fib_rmsnorm.registry import Registry, generate_workloads
from fib_rmsnorm.registry.selection import BASELINE_AUTHOR
from fib_rmsnorm.registry.sources.manifest import MANIFEST, read_manifest
from fib_rmsnorm.registry.store import read_jsonl
from fib_rmsnorm.schema import Trace
from fib_rmsnorm.tuning.choosing import collect_timings, make_table
from fib_rmsnorm.tuning.sweep import read_kept
from fib_rmsnorm.tuning.tunable import find_tunables
from support.kernel_calls import shipped_solutions
from support.paths import REPOSITORY
from support.registries import bench_all

REGISTRY = Registry(REPOSITORY)
BATCH_SIZES = (1, 128)
"""Few rows, and as many as make CPU kernels take several threads."""
PACKED = shipped_solutions()
RUNNABLE = [name for name, solution in PACKED.items() if reason_to_skip(solution, choose_devices("cpu")[0]) is None]
COMPILED = [f"{operator}_python_torch_compile_v1" for operator in ("fused_add_rmsnorm", "layernorm_backward")]
"""Some of those that torch compiles, for 10 s of a core and each shape; they share what makes them compile."""
OTHERS = [
    name for name in RUNNABLE if PACKED[name].definition != "rmsnorm_d4096" and not name.endswith("_torch_compile_v1")
]


def is_interpreted(name: str) -> bool:
    """Whether its rows take seconds here, and no threads."""
    return PACKED[name].spec.language.value == "triton"


EVALUATED = {
    (1,): COMPILED,
    BATCH_SIZES: [name for name in RUNNABLE if PACKED[name].definition == "rmsnorm_d4096"],
    BATCH_SIZES[1:]: [name for name in OTHERS if not is_interpreted(name)],
    (2,): [name for name in OTHERS if is_interpreted(name)],
}


def test_packing_the_sources_gives_the_committed_solutions():
    definitions = REGISTRY.definitions()
    expected = {}
    for solution in PACKED.values():
        op_type = definitions[solution.definition].op_type
        path = REGISTRY.layout.solution(solution.author, op_type, solution.definition, solution.name)
        expected[path.relative_to(REPOSITORY)] = solution.model_dump_json(indent=2) + "\n"
    committed = {path.relative_to(REPOSITORY): path.read_text() for path in REGISTRY.layout.solutions.rglob("*.json")}
    assert committed == expected, "run: fib-rmsnorm solve --definitions '*'"


def test_the_plainest_baseline_is_torchs():
    """Of each Definition: reports compare with it unless they are told another."""
    baselines = [s for s in PACKED.values() if s.author == BASELINE_AUTHOR and s.spec.language.value == "python"]
    on_cpus = [s for s in baselines if "cpu" in s.spec.target_hardware]
    found: dict[str, str] = {}
    for solution in sorted(on_cpus, key=lambda each: sum(len(source.content) for source in each.sources)):
        found.setdefault(solution.definition, solution.name)
    assert set(found) == {solution.definition for solution in baselines}
    assert [name for name in found.values() if not name.endswith("_python_torch_v1")] == []


def test_generating_the_workloads_gives_the_committed_ones():
    for definition in REGISTRY.definitions().values():
        if committed := REGISTRY.workloads(definition.name):
            assert committed == generate_workloads(definition, [workload.axes["batch"] for workload in committed])


def test_the_tables_are_made_of_the_kept_timings():
    """Of those of the current sources, or, where nobody has measured since an edit, of all."""
    for manifest in REGISTRY.layout.solutions.rglob(MANIFEST):
        if read_manifest(manifest).tune is None:
            continue
        tunables = find_tunables(REGISTRY, str(manifest.parent))
        kept = read_kept(tunables, "NVIDIA H200", 132)
        if not any(map(collect_timings, kept.values())):
            files = {tunable.definition.name: tunable.tuning_file for tunable in tunables}
            kept = {name: read_jsonl(file, Trace) for name, file in files.items() if file.exists()}
        assert tunables[0].table.read_text() == make_table(tunables, kept), "run: fib-rmsnorm tune NAME"


@pytest.fixture(scope="module")
def evaluations(tmp_path_factory):
    """One bench of a copy, so that nothing is appended to the repository's traces."""
    root = tmp_path_factory.mktemp("shipped") / "registry"
    for folder in ("definitions", "solutions", "workloads"):
        shutil.copytree(REPOSITORY / folder, root / folder)
    registry = Registry(root)
    for definition in registry.definitions().values():
        registry.write_workloads(
            definition, generate_workloads(definition, sorted({size for sizes in EVALUATED for size in sizes}))
        )
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OMP_NUM_THREADS", "2")  # elsewhere in the tests it is 1
        traces = [
            trace
            for sizes, names in EVALUATED.items()
            for trace in bench_all(registry, selection=Selection(solutions=tuple(names), batch_sizes=sizes))
        ]
    return {(trace.solution, trace.workload.axes["batch"]): trace.evaluation for trace in traces}


@pytest.mark.compile
@pytest.mark.timeout(1500)  # for the bench of all, and the compilers that it runs
@pytest.mark.parametrize(
    ("name", "batch"), [(name, batch) for sizes, names in EVALUATED.items() for name in names for batch in sizes]
)
def test_passes(evaluations, name, batch):
    assert evaluations[name, batch].status.value == "PASSED", evaluations[name, batch].log
