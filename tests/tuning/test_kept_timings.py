"""`tune`: what is kept of the timings, and what a later call makes of it."""

import json
import shutil

import pytest

from fib_rmsnorm.operators import RmsNorm
from fib_rmsnorm.registry import Registry
from fib_rmsnorm.tuning.choosing import write_table
from fib_rmsnorm.tuning.sweep import read_kept
from fib_rmsnorm.tuning.tunable import find_tunables
from support.command_line import run_cli
from support.tunable_solution import NAME, TABLE, folder_of, kept, make_tunable

pytestmark = pytest.mark.process


@pytest.fixture(scope="module")
def tuned_once(tmp_path_factory):
    registry = make_tunable(tmp_path_factory.mktemp("tuned") / "registry")
    found = run_cli("tune", NAME, "--device", "cpu", "--batch-sizes", "1", cwd=registry.root)
    assert found.returncode == 0, found.stderr
    return registry


@pytest.fixture
def tuned(tuned_once, tmp_path, monkeypatch):
    """A copy, to do with as a test likes."""
    root = tmp_path / "registry"
    shutil.copytree(tuned_once.root, root)
    monkeypatch.chdir(root)
    return Registry(root)


def test_results_are_kept_as_traces_with_their_parameters(tuned):
    traces = kept(tuned)
    assert {trace.solution for trace in traces} == {NAME}
    assert [trace.evaluation.parameters for trace in traces] == [
        {"few": 0, "many": 1}, {"few": 0, "many": 0}, {"few": 1, "many": 0},
    ]  # fmt: skip
    assert all(trace.evaluation.performance.latency_ms > 0 for trace in traces)
    assert tuned.traces() == []  # no Trace of the dataset


def test_what_reads_the_table_is_packed_again(fib, tuned):
    (solution,) = tuned.packed_solutions().values()
    packed = {source.path: source.content for source in solution.sources}
    assert packed[TABLE] == (folder_of(tuned) / TABLE).read_text()
    assert fib("validate").code == 0


def test_gpus_of_as_many_multiprocessors_share_the_table(fib, tuned):
    """And no GPU of another number, nor the CPU, adds to it."""
    (file,) = (tuned.root / "tuning").rglob("*.jsonl")
    lines = []
    for hardware, multiprocessors, slow in (("GPU A", 132, "few"), ("GPU B", 132, "many"), ("GPU C", 80, "few")):
        for trace in kept(tuned):
            taken = 1.0 if trace.evaluation.parameters[slow] else 0.5
            changes = {"environment": {"hardware": hardware, "libs": {}}, "multiprocessors": multiprocessors}
            record = json.loads(trace.model_dump_json())
            record["evaluation"] |= changes
            record["evaluation"]["performance"]["latency_ms"] = taken
            record["evaluation"]["timestamp"] = f"2026-01-0{1 if hardware == 'GPU C' else 2}T00:00:00+00:00"
            lines.append(json.dumps(record))
    file.write_text("\n".join(lines) + "\n")
    tunables = find_tunables(tuned, NAME)
    write_table(tuned, tunables, read_kept(tunables, "GPU A", 132))
    text = (folder_of(tuned) / TABLE).read_text()
    assert "GPU A, 2026-01-02 / GPU B, 2026-01-02" in text and "GPU C" not in text
    assert "// 1: 500.00 us / 500.00 us" in text, "neither of those that are slow on one of them"
    assert "{128, 2, 132, 0, 0, 0}," in text


def test_timings_of_a_definition_that_nobody_knows_are_not_lost(fib, tuned):
    """Their part of the table could not be written again."""
    (kept,) = (tuned.root / "tuning").rglob("*.jsonl")
    unknown = kept.parents[1] / "softmax_d999" / kept.name
    unknown.parent.mkdir()
    unknown.write_bytes(kept.read_bytes())
    before = (folder_of(tuned) / TABLE).read_text()
    assert "holds timings of softmax_d999, which is not defined" in fib("tune", NAME, "--device", "cpu").refusal
    assert (folder_of(tuned) / TABLE).read_text() == before


@pytest.fixture
def other_definition(tuned):
    """Another Definition that the sources serve."""
    manifest = folder_of(tuned) / "solution.toml"
    manifest.write_text(f'definitions = ["rmsnorm_d*"]\n{manifest.read_text()}')
    return tuned.write_definition(RmsNorm().define(256))


FOR_THE_OTHER = (
    *("--device", "cpu", "--batch-sizes", "1", "--definitions", "rmsnorm_d256"),
    *("--set", "few=0", "--set", "many=0"),
)


def test_another_definition_adds_to_the_table(fib, tuned, other_definition):
    assert fib("tune", NAME, *FOR_THE_OTHER).code == 0
    text = (folder_of(tuned) / TABLE).read_text()
    assert "{128, 2, 0, 0, " in text
    assert "{256, 2, 0, 0, " in text
    other_definition.unlink()  # its name tells what it was
    assert fib("tune", NAME, "--device", "cpu", "--batch-sizes", "1", "--set", "few=0", "--set", "many=0").code == 0
    assert "{256, 2, 0, 0, " in (folder_of(tuned) / TABLE).read_text()


def test_a_definition_whose_timings_are_of_other_sources_leaves_the_table_and_is_named(fib, tuned, other_definition):
    path = folder_of(tuned) / "kernel.py"
    path.write_text(path.read_text() + "\n# edited\n")
    outcome = fib("tune", NAME, *FOR_THE_OTHER)
    assert outcome.code == 0
    assert "No choices for rmsnorm_d128: its timings come from other sources" in outcome.err
    assert "{128, 2, " not in (folder_of(tuned) / TABLE).read_text()
