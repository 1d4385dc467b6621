"""`bench` as its user meets it: exit codes, files and --resume."""

import re
import subprocess
import tempfile
from pathlib import Path

import pytest

from fib_rmsnorm.operators import RmsNorm
from fib_rmsnorm.registry import generate_workloads
from fib_rmsnorm.sandbox.confinement import landlock
from support.command_line import printed
from support.registries import RIGHT, WRONG, add_definition, add_kernel, add_sources, keys, python_manifest, read_output


def test_everything_passes(registry, bench, tmp_path):
    add_kernel(registry, "right_v1")
    found = bench("--output", tmp_path / "traces.json")
    assert found.code == 0, found.err
    assert printed(found.out) == [("right_v1", 1), ("right_v1", 8)]
    assert "2 passed, 0 failed" in found.err
    assert re.search(r"^2 evaluations on .+$", found.err, re.M)
    traces = read_output(tmp_path / "traces.json")
    assert traces == registry.traces()
    assert keys(traces) == [("right_v1", 1), ("right_v1", 8)]
    for trace in traces:
        evaluation = trace.evaluation
        assert evaluation.performance.timer == "cpu_clock"
        assert 1 <= evaluation.performance.samples <= 3, "those that did not wait for a core"
        assert evaluation.environment.libs["torch"]
        assert evaluation.correctness.extra["tolerance"]["out"] == {"rtol": 1e-3, "atol": 4 * 2.0**-24}


def test_workloads_with_the_same_axes_are_told_apart_and_shown_by_that_name(registry, bench, fib):
    definition = next(iter(registry.definitions().values()))
    both = [*generate_workloads(definition, [1]), *generate_workloads(definition, [1], scalars={"eps": 0.1})]
    registry.write_workloads(definition, both)
    add_kernel(registry, "wrong_v1", WRONG)
    found = bench()
    told = [line.split("  ")[0] for line in found.lines if "INCORRECT" in line and line.startswith("batch")]
    assert told == ["batch=1, eps=1e-06", "batch=1, eps=0.1"]
    (command,) = [line.partition("fib-rmsnorm ")[2] for line in found.lines if line.startswith("Full failure logs")]
    assert command == "show wrong_v1@batch=1,eps=1e-06"
    assert fib(*command.split()).code == 0


LITTERS = """\
import os
from pathlib import Path

print("home", os.environ["HOME"], flush=True)
with open(Path(os.environ["TRITON_CACHE_DIR"]).parent / "much", "wb") as file:
    file.truncate(2 << 30)
os.chdir(os.environ["HOME"])
for _ in range(3000):
    os.mkdir("d")
    os.chdir("d")
raise ValueError
"""


def test_what_a_failed_build_leaves_is_removed(registry, bench, tmp_path, cold_cache):
    """Gigabytes in the cache, and a home that is nested deeper than Python recurses."""
    add_sources(registry, "litters_v1", {"kernel.py": LITTERS + RIGHT})
    assert bench("--batch-sizes", "1", "--output", tmp_path / "traces.json").code == 1
    (trace,) = read_output(tmp_path / "traces.json")
    home = re.search(r"^home (.+)$", trace.evaluation.log, re.MULTILINE)
    assert home and not Path(home[1]).exists()
    assert sum(path.stat().st_size for path in cold_cache.rglob("*") if path.is_file()) < 1 << 30


def test_where_nothing_is_confined_a_run_that_requires_it_is_refused(registry, bench, monkeypatch):
    add_kernel(registry, "right_v1")
    monkeypatch.setattr(landlock, "landlock_version", lambda: 0)
    said = "--require-sandbox: no Landlock that suffices in this kernel"
    assert bench("--require-sandbox").refusal.startswith(said)
    assert registry.traces() == []


@pytest.fixture
def two_definitions(registry):
    """A registry whose rmsnorm_d256 has Workloads of batch 1 and 4, and whose rmsnorm_d128 of 1 and 8."""
    add_definition(registry, RmsNorm().define(256), (1, 4))
    add_sources(registry, "right_v1", {"kernel.py": RIGHT})
    add_sources(registry, "wide_v1", {"kernel.py": RIGHT}, definition="rmsnorm_d256")
    return registry


def test_a_definition_without_a_batch_size_does_not_stop_the_others(two_definitions, bench):
    found = bench("--batch-sizes", "4")
    assert found.code == 0, found.err
    assert keys(two_definitions.traces()) == [("wide_v1", 4)]
    (line,) = [line for line in found.err.splitlines() if "rmsnorm_d128" in line and not line.startswith("Made")]
    command = "fib-rmsnorm workload --definition rmsnorm_d128 --batch-sizes 4"
    assert line == f"Skipped: no Workload of batch 4: rmsnorm_d128; run: {command}"


def test_a_definition_without_workloads_gets_those_of_the_batch_sizes_too(two_definitions, bench):
    two_definitions.layout.workload_file("norm", "rmsnorm_d128").unlink()
    assert bench("--batch-sizes", "3", "--definitions", "rmsnorm_d128").code == 0
    (trace,) = two_definitions.traces()
    assert keys([trace]) == [("right_v1", 3)]
    assert 4 * 3 * 128 < trace.performance.peak_memory_bytes < 20 * 3 * 128  # x in float32, and its product
    assert [each.axes["batch"] for each in two_definitions.workloads("rmsnorm_d128")] == [1, 3, 8, 32, 128, 512]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--batch-sizes", "4", "--definitions", "rmsnorm_d256,rmsnorm_d128"), "no Workload of batch 4: rmsnorm_d128;"),
        (("--batch-sizes", "1,4", "--solutions", "right_v1"), "no Workload of batch 4: rmsnorm_d128;"),
        (("--batch-sizes", "1,16"), "no Workload of batch 16: rmsnorm_d128, rmsnorm_d256;"),
    ],
)
def test_a_batch_size_that_was_asked_for_by_name_must_be_there(two_definitions, bench, arguments, said):
    assert bench(*arguments).refusal.startswith(said)


@pytest.mark.parametrize(
    ("solutions", "said"),
    [
        (("python_v1",), "python_v1: targets cuda, not cpu (target_hardware of its spec)"),
        ((), "{root} has no Solution of rmsnorm_d128; see: fib-rmsnorm list"),
        (("cuda_v1",), "cuda_v1: "),
        (("cuda_v1", "cuda_v2"), "(and 1 more; see: fib-rmsnorm list solutions)"),
    ],
)
def test_if_nothing_can_be_evaluated_it_says_so_and_writes_nothing(registry, bench, tmp_path, solutions, said):
    for name in solutions:
        manifest = python_manifest(name).replace('["cpu"]', '["cuda"]')
        if name.startswith("cuda"):
            manifest = manifest.replace('"python"', '"cuda"').replace("kernel.py", "kernel.cu")
        add_sources(registry, name, {"kernel.py": RIGHT, "kernel.cu": "// no GPU runs this here"}, manifest)
    before = sorted(tmp_path.rglob("*"))
    refusal = bench("--output", tmp_path / "traces.json").refusal
    assert refusal.startswith("nothing to evaluate on cpu: ") and said.format(root=registry.root) in refusal
    assert sorted(tmp_path.rglob("*")) == before  # what would have been packed is not either


@pytest.fixture
def full_disk(tmp_path):
    """One with little room."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", disk], capture_output=True, check=False)
    if mounted.returncode:
        pytest.skip("this user may mount nothing")
    yield disk
    subprocess.run(["umount", "--lazy", disk], check=True)  # temporary files may still be open


@pytest.mark.parametrize(("variable", "what"), [("FIB_RMSNORM_CACHE", "the cache"), ("TMPDIR", "temporary files")])
def test_a_full_disk_is_not_a_fault_of_a_kernel(registry, bench, full_disk, monkeypatch, variable, what):
    add_kernel(registry, "right_v1")
    monkeypatch.setenv(variable, str(full_disk))
    monkeypatch.setattr(tempfile, "tempdir", None)  # which remembers the variable
    output = registry.root / "t.json"
    found = bench("--output", output)
    assert found.code == 2 and not output.exists()
    assert found.err.endswith(
        f"fib-rmsnorm: {what}, {full_disk}: less than 16 MB is left on its disk; free some, or name another folder in"
        f" ${variable}\n"
    )


def test_half_a_character_in_a_message_stops_no_other(registry, bench):
    """Traces are UTF-8, which cannot hold it."""
    add_kernel(registry, "half_v1", "def run(x, weight, eps):\n    raise ValueError('half \\ud800')\n")
    add_kernel(registry, "right_v1")
    assert bench().code == 1
    found = {trace.solution: trace.evaluation for trace in registry.traces()}
    statuses = {name: each.status.value for name, each in found.items()}
    assert statuses == {"half_v1": "RUNTIME_ERROR", "right_v1": "PASSED"}
    assert "half ?" in found["half_v1"].log


def test_the_table_is_in_the_order_of_names(registry, bench):
    """Whatever came first: here a result of an earlier run, with several GPUs any of their Workloads."""
    for name in ("first_v1", "second_v1"):
        add_kernel(registry, name)
    assert bench("--batch-sizes", "1", "--solutions", "second_v1").code == 0
    found = bench("--resume")
    printed_first = [line.split()[1] for line in found.out.splitlines() if line.startswith("batch=1 ")]
    assert printed_first == ["second_v1", "first_v1"]
    table = found.out.partition("median latency")[2].splitlines()[1:]
    assert table[1].split() == ["batch=1", "batch=8"]
    assert [line.split()[0] for line in table[2:5]] == ["reference", "first_v1", "second_v1"]


def test_a_cpu_takes_large_workloads_only_if_they_are_named(registry, bench):
    (definition,) = registry.definitions().values()
    registry.write_workloads(definition, generate_workloads(definition, [8, 512, 513, 4096]))
    add_kernel(registry, "right_v1")
    found = bench()
    assert (found.code, printed(found.out)) == (0, [("right_v1", 8), ("right_v1", 512)])
    assert "Skipped: batch 513, 4096 (slow on a CPU); to run them, add: --batch-sizes 513,4096\n" in found.err
    named = bench("--batch-sizes", "513")
    assert (named.code, printed(named.out), "slow" in named.err) == (0, [("right_v1", 513)], False)
    registry.write_workloads(definition, generate_workloads(definition, [4096]))
    what = "batch 4096 (slow on a CPU); to run them, add: --batch-sizes 4096"
    assert bench().refusal == f"nothing to evaluate on cpu: {what}"
    add_sources(registry, "gpu_v1", {"kernel.py": RIGHT}, python_manifest("gpu_v1").replace('["cpu"]', '["cuda"]'))
    assert "cpu: gpu_v1: targets cuda, not cpu" in bench("--solutions", "gpu_v1").refusal
