"""What a bench writes before it evaluates."""

from __future__ import annotations

from contextlib import closing

import pytest

from fib_rmsnorm.evaluation.bench import BenchOptions, Started, bench
from fib_rmsnorm.evaluation.bench_records import collect_records
from fib_rmsnorm.evaluation.plan import Selection
from fib_rmsnorm.operators import RmsNorm
from support.registries import RIGHT, add_sources, python_manifest


@pytest.fixture
def two_definitions(registry):
    """Nothing is packed, and rmsnorm_d256 has no Workloads."""
    registry.write_definition(RmsNorm().define(256))
    add_sources(registry, "both_v1", {"kernel.py": RIGHT}, f'definitions = ["rmsnorm_*"]\n{python_manifest("both_v1")}')
    add_sources(registry, "one_v1", {"kernel.py": RIGHT})
    return registry


@pytest.mark.parametrize(
    ("selection", "solutions", "workloads"),
    [
        (Selection(definitions=("rmsnorm_d128",)), {"both_v1", "one_v1"}, {"rmsnorm_d128"}),
        (Selection(definitions=("rmsnorm_d256",)), {"both_v1_d256"}, {"rmsnorm_d128", "rmsnorm_d256"}),
        (Selection(solutions=("one_v1",)), {"one_v1"}, {"rmsnorm_d128"}),
        (Selection(), {"both_v1", "both_v1_d256", "one_v1"}, {"rmsnorm_d128", "rmsnorm_d256"}),
    ],
)
def test_only_what_is_chosen_is_written(two_definitions, selection, solutions, workloads):
    with closing(bench(two_definitions, BenchOptions(selection, device="cpu"))) as events:
        for event in events:
            if isinstance(event, Started):
                break
    assert set(two_definitions.packed_solutions()) == solutions
    assert {name for name in two_definitions.definitions() if two_definitions.workloads(name)} == workloads


def test_workloads_that_it_makes_obey_the_constraints(registry):
    definition = RmsNorm().define(256).model_copy(update={"constraints": ["batch % 32 == 0"]})
    registry.write_definition(definition)
    made = collect_records(registry).workloads[definition.name]
    assert [workload.axes["batch"] for workload in made][:2] == [32, 128]
    registry.write_definition(definition.model_copy(update={"constraints": ["batch % 32 == 3"]}))
    records = collect_records(registry)
    assert records.workloads[definition.name] == [] and records.unwritten == []
