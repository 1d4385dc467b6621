from __future__ import annotations

import shutil

import pytest

from fib_rmsnorm.errors import InputError
from fib_rmsnorm.operators import RmsNorm
from fib_rmsnorm.registry import generate_workloads
from fib_rmsnorm.registry.store import append_line
from fib_rmsnorm.schema import Environment, Evaluation, EvaluationStatus, Trace
from support.registries import add_kernel


def make_trace(registry, log: str = "", timestamp: str = "now") -> Trace:
    environment = Environment(hardware="cpu", libs={})
    evaluation = Evaluation(status=EvaluationStatus.TIMEOUT, environment=environment, timestamp=timestamp, log=log)
    workload = registry.workloads("rmsnorm_d128")[0]
    return Trace(definition="rmsnorm_d128", workload=workload, solution="one_v1", evaluation=evaluation)


def test_what_is_written_is_read(registry):
    definition = RmsNorm().define(256, "bfloat16")
    registry.write_definition(definition)
    assert registry.definition(definition.name) == definition
    workloads = generate_workloads(definition, [3, 1])
    registry.write_workloads(definition, workloads)
    assert registry.workloads(definition.name) == workloads
    solution = add_kernel(registry, "one_v1")
    assert registry.packed_solutions() == {"one_v1": solution}
    traces = [make_trace(registry, log) for log in ("first é", "second\nline", "\0")]
    for trace in traces:
        registry.append_trace(trace, "tester", "norm")
    assert registry.traces() == traces


def test_traces_come_oldest_first_whichever_file_holds_them(registry):
    older, newer = (make_trace(registry, timestamp=f"2026-01-0{day}T00:00:00+00:00") for day in (1, 2))
    registry.append_trace(newer, "ann", "norm")
    published = registry.layout.published_file("norm", "rmsnorm_d128")
    append_line(published, older.model_dump_json())
    assert registry.traces() == [older, newer]


@pytest.mark.parametrize("kind", ["definition", "solution"])
def test_a_name_used_twice_is_named_with_its_file(registry, kind):
    add_kernel(registry, "one_v1")
    root = registry.layout.definitions if kind == "definition" else registry.layout.solutions
    path = next(root.rglob("*.json"))
    shutil.copy(path, path.with_name("other.json"))
    with pytest.raises(InputError, match=rf"/other\.json .*both hold a {kind.capitalize()} named"):
        registry.definitions() if kind == "definition" else registry.packed_solutions()


def test_json_among_sources_is_no_solution(registry):
    add_kernel(registry, "one_v1")
    (registry.layout.solutions / "tester/norm/rmsnorm_d128/one_v1/tuned.json").write_text("{}")
    assert list(registry.packed_solutions()) == ["one_v1"]
