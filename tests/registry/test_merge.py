"""`merge` of registries and files of Traces: what they have in common, what is new, and what disagrees."""

import json
import shutil

import pytest

from fib_rmsnorm.operators import RmsNorm
from fib_rmsnorm.registry import Registry, generate_workloads
from fib_rmsnorm.schema import SafetensorsInput, Trace
from support import full_registry as full
from support.paths import files_of, write
from support.record_faults import edit_text
from support.registries import pack_all


@pytest.fixture
def other(full_registry, tmp_path):
    """The same registry in another folder."""
    shutil.copytree(full_registry.root, tmp_path / "other")
    return Registry(tmp_path / "other")


def test_names_lead_nowhere_else(fib, full_registry, other):
    path = other.layout.solutions / "baseline" / "norm" / full.DEFINITION / f"{full.PYTHON}.json"
    record = json.loads(path.read_text())
    path.write_text(json.dumps({**record, "name": "new_v1", "author": "../../.."}))
    before = files_of(full_registry.root.parent)
    assert "author '../../..' is not a safe name" in fib("merge", full_registry.root, other.root).refusal
    assert files_of(full_registry.root.parent) == before


def test_merging_the_same_adds_nothing(fib, full_registry, other):
    before = files_of(full_registry.root)
    outcome = fib("merge", full_registry.root, other.root)
    assert outcome.code == 0
    assert outcome.lines == [
        f"Added to {full_registry.root}: nothing; already there: 1 Definition, 2 Solutions, 2 Workloads, 4 Traces"
    ]
    assert files_of(full_registry.root) == before


@pytest.fixture
def grown(other):
    """The other registry with one more Definition, Solution, Workload and Trace."""
    other.write_definition(RmsNorm().define(256))
    full.add_sources(other, "eve", "rmsnorm_python_new_v1", "python", {"kernel.py": full.PYTHON_SOURCE})
    pack_all(other)
    definition = other.definition(full.DEFINITION)
    workloads = [*other.workloads(full.DEFINITION), *generate_workloads(definition, (64,))]
    other.write_workloads(definition, workloads)
    other.append_trace(full.make_trace(other.packed_solutions()["rmsnorm_python_new_v1"], workloads[-1]), "eve", "norm")
    return other


def test_merging_adds_what_is_new(fib, full_registry, grown):
    full.publish(full_registry)
    outcome = fib("merge", full_registry.root, grown.root)
    assert outcome.code == 0
    assert outcome.lines[0].startswith(
        f"Added to {full_registry.root}: 1 Definition, 1 Solution, 1 Workload, 1 Trace; already there: 1 Definition,"
    )
    merged = full_registry
    assert set(merged.definitions()) == {full.DEFINITION, "rmsnorm_d256"}
    assert "rmsnorm_python_new_v1" in merged.packed_solutions()
    assert [workload.axes["batch"] for workload in merged.workloads(full.DEFINITION)] == [1, 8, 64]
    assert len(merged.traces()) == 5
    assert fib("validate", full_registry.root).code == 0


@pytest.fixture
def disagreeing(grown):
    """The other registry with a Solution, a Workload's record and a Trace that say something else."""
    folder = grown.layout.solutions / "baseline" / "norm" / full.DEFINITION / full.PYTHON
    (folder / "kernel.py").write_text(full.PYTHON_SOURCE + "# edited\n")
    pack_all(grown)
    workloads = grown.workloads(full.DEFINITION)
    workloads[0] = workloads[0].model_copy(update={"axes": {"batch": 2}})
    grown.write_workloads(grown.definition(full.DEFINITION), workloads)
    path = grown.layout.trace_file("baseline", "norm", full.DEFINITION)
    lines = path.read_text().splitlines()
    path.write_text("\n".join([lines[0].replace('"latency_ms":0.0125', '"latency_ms":0.5'), *lines[1:]]) + "\n")
    return grown


def test_conflicts_are_reported_and_nothing_is_written(fib, full_registry, disagreeing, tmp_path):
    before = files_of(tmp_path)
    outcome = fib("merge", full_registry.root, disagreeing.root)
    assert outcome.code == 1
    told = {line.split(" differs ")[0]: line.rpartition(" in: ")[2] for line in outcome.lines[:-1]}
    assert told[f"conflict: Solution {full.PYTHON}"] == "sources"
    assert [differs for what, differs in told.items() if "Workload" in what] == ["workload"]
    assert [differs for what, differs in told.items() if "Trace" in what] == ["evaluation"]
    assert outcome.lines[-1] == "3 conflicts, nothing written; rename or remove one of the two"
    assert files_of(tmp_path) == before
    record = fib("merge", full_registry.root, disagreeing.root, "--json").json
    assert record["written"] is False
    assert [conflict["kind"] for conflict in record["conflicts"]] == ["solution", "workload", "trace"]


def test_a_better_description_is_not_a_conflict(fib, full_registry, other):
    edit_text(other.root / full.CUDA_FILE, "A plain one.", "A very plain one.")
    assert fib("merge", full_registry.root, other.root).code == 0


def test_three_registries_and_upstreams_layout(fib, full_registry, tmp_path):
    """flashinfer-bench 0.1.2 keeps traces without their author's folder; a Trace met twice comes once."""
    for name, hardware in (("second", "GPU 2"), ("third", "GPU 3")):
        registry = full.make_full_registry(tmp_path / name)
        path = registry.layout.trace_file("baseline", "norm", full.DEFINITION)
        flat = path.read_text() + path.read_text().replace(full.HARDWARE, hardware)
        write(registry.layout.traces / "norm" / path.name, flat)
        path.unlink()
    outcome = fib("merge", full_registry.root, tmp_path / "second", tmp_path / "third")
    assert outcome.code == 0, outcome.out
    assert len(full_registry.traces()) == 4 + 2 + 2


def test_a_trace_without_a_number_is_the_same_as_itself(fib, full_registry, other):
    record = full_registry.traces()[0].model_dump()
    record["evaluation"]["correctness"]["max_relative_error"] = float("nan")
    record["evaluation"]["timestamp"] = "2026-02-02T00:00:00+00:00"
    for registry in (full_registry, other):
        registry.append_trace(Trace.model_validate(record), "baseline", "norm")
    assert fib("merge", full_registry.root, other.root).code == 0


def test_the_registry_that_has_them_may_be_merged_with_a_file_of_its_traces(fib, full_registry, grown, tmp_path):
    path = write(tmp_path / "traces.jsonl", grown.layout.trace_file("eve", "norm", full.DEFINITION).read_text())
    assert fib("merge", full_registry.root, path).code == 2
    outcome = fib("merge", full_registry.root, path, grown.root)
    assert outcome.code == 0 and " 1 Solution, 1 Workload, 1 Trace;" in outcome.out


@pytest.fixture
def benched(full_registry, tmp_path):
    """A file of Traces of the registry's own records: one that it has, and two of another machine, one twice."""
    theirs = [
        full.make_trace(full_registry.packed_solutions()[full.PYTHON], workload, hardware="Another Processor")
        for workload in full_registry.workloads(full.DEFINITION)
    ]
    traces = [full_registry.traces()[0], *theirs, theirs[0]]
    return write(tmp_path / "traces.jsonl", "".join(f"{each.model_dump_json()}\n" for each in traces))


@pytest.mark.parametrize("suffix", [".jsonl", ".json"])
def test_new_traces_of_a_file_are_added_once(fib, full_registry, benched, suffix):
    """As `bench --output` writes them, both ways."""
    path = benched.with_suffix(suffix)
    if suffix == ".json":
        path.write_text(json.dumps([json.loads(line) for line in benched.read_text().splitlines()]))
    before = files_of(full_registry.root)
    outcome = fib("merge", full_registry.root, path)
    assert (outcome.code, outcome.err) == (0, "")
    assert outcome.lines == [f"Added to {full_registry.root}: 2 Traces; already there: 1 Trace"]
    after = files_of(full_registry.root)
    assert {name for name in after if after[name] != before.get(name)} == {full.PYTHON_TRACES}
    assert after[full.PYTHON_TRACES].startswith(before[full.PYTHON_TRACES]) and len(full_registry.traces()) == 6
    assert fib("validate", full_registry.root).code == 0
    again = fib("merge", full_registry.root, path)
    assert again.lines == [f"Added to {full_registry.root}: nothing; already there: 3 Traces"]
    assert files_of(full_registry.root) == after


def test_traces_of_what_the_registry_lacks_are_refused_and_nothing_is_written(fib, full_registry, benched):
    trace = full_registry.traces()[0].model_dump(mode="json")
    (other,) = generate_workloads(full_registry.definition(full.DEFINITION), (3,))
    faults: dict[str, dict] = {
        "Definition rmsnorm_d256, which": {"definition": "rmsnorm_d256"},
        "Solution new_v1, which": {"solution": "new_v1"},
        f"Workload {other.uuid[:8]} of {full.DEFINITION} (batch=3), which": {"workload": other.model_dump(mode="json")},
    }
    before, sound = files_of(full_registry.root), benched.read_text()
    for said, changes in faults.items():
        benched.write_text(sound + f"{json.dumps({**trace, **changes})}\n")
        outcome = fib("merge", full_registry.root, benched)
        assert outcome.code == 2 and outcome.err.startswith(f"fib-rmsnorm: {benched}: a Trace names {said}")
        assert files_of(full_registry.root) == before


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("t.jsonl", "", "no Traces in {path}"),
        ("t.json", "", "{path}: is empty"),
        ("t.json", "{}", "{path}:1: definition: Field required"),
        ("t.json", "[{}", "{path}: not a JSON array: Input data was truncated"),
        ("t.jsonl", '{"definition": 1}\n{}\n', "{path}:1: definition: Input should be a valid string"),
        ("t.csv", "a,b", "no Traces in {path}"),
    ],
)
def test_a_file_without_traces_is_one_line(fib, full_registry, tmp_path, name, content, said):
    path = write(tmp_path / name, content)
    assert fib("merge", full_registry.root, path).refusal == f"{said.format(path=path)}"


def tensors_workload(full_registry, path):
    workload = generate_workloads(full_registry.definition(full.DEFINITION), (3,))[0]
    given = SafetensorsInput(path=path, tensor_key="x")
    return workload.model_copy(update={"inputs": {**workload.inputs, "x": given}})


@pytest.fixture
def with_tensors(full_registry):
    """The registry with a file of tensors."""
    write("blob/x.safetensors", "tensors")
    workload = tensors_workload(full_registry, "./blob/x.safetensors")
    full_registry.write_workloads(full_registry.definition(full.DEFINITION), [workload])
    return full_registry


def test_tensors_come_along(fib, with_tensors, tmp_path):
    target = full.make_full_registry(tmp_path / "target").root
    assert fib("merge", target, with_tensors.root).code == 0
    assert files_of(target)["blob/x.safetensors"] == b"tensors"
    (target / "blob" / "x.safetensors").write_bytes(b"others")
    outcome = fib("merge", with_tensors.root, target)
    assert outcome.code == 1
    assert "file of tensors blob/x.safetensors differs" in outcome.out


def test_a_merge_copies_no_tensors_through_a_link(fib, with_tensors, tmp_path):
    target, elsewhere = full.make_full_registry(tmp_path / "target").root, tmp_path / "elsewhere"
    elsewhere.mkdir()
    (target / "blob").symlink_to(elsewhere)
    assert "blob: is a link" in fib("merge", target, with_tensors.root).refusal
    assert list(elsewhere.iterdir()) == []


@pytest.mark.parametrize("path", ["../outside.safetensors", "/etc/hostname", "missing.safetensors", "a\0b"])
def test_paths_lead_nowhere_else(fib, full_registry, tmp_path, path):
    (tmp_path / "outside.safetensors").touch()
    full_registry.write_workloads(full_registry.definition(full.DEFINITION), [tensors_workload(full_registry, path)])
    target = full.make_full_registry(tmp_path / "target").root
    before = files_of(target)
    assert fib("merge", target, full_registry.root).code == 2
    assert files_of(target) == before
