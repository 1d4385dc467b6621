"""A bench on several Ray nodes of this machine: the verdicts of a plain bench, whatever dies meanwhile."""

import json
import os
import random
import shutil
import subprocess
import threading
import time
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from fib_rmsnorm.registry import Registry
from fib_rmsnorm.registry.seals import Sealer, TraceOrigin
from fib_rmsnorm.schema import SafetensorsInput
from support.command_line import QUICK_OPTIONS, printed, run_cli, start_cli
from support.paths import REPOSITORY
from support.ray_cluster import ray_cluster
from support.registries import RIGHT, WRONG, add_kernel, add_sources, keys, make_registry, python_manifest

pytestmark = [
    pytest.mark.skipif(find_spec("ray") is None, reason="needs Ray"),
    pytest.mark.process,
    pytest.mark.timeout(600),
]

FIRST_LINE = "    x_fp32 = x.float()\n"
CURIOUS = """\
    import os, socket, sys
    found = [name for name in os.environ if name.startswith("RAY_")]
    found += [path for path in sys.path if "/ray/" in path]
    for path in PATHS:
        try:
            found.append(open(path).read()[:80])
        except OSError:
            pass
    try:
        socket.create_connection(("127.0.0.1", PORT), 1)
        found.append("a port of Ray")
    except OSError:
        pass
    if found:
        raise RuntimeError(str(found))
"""
"""Passes where it finds nothing of Ray and nothing of the registry."""
SLEEPS = RIGHT.replace(FIRST_LINE, "    __import__('time').sleep(0.03)\n" + FIRST_LINE)


@pytest.fixture(scope="module")
def cluster():
    with ray_cluster(nodes=2) as started:
        yield started


def start(registry: Registry, cluster, *arguments: str | Path) -> subprocess.Popen[str]:
    return start_cli("bench", "--root", registry.root, *QUICK_OPTIONS, "--ray", cluster.address, *arguments)


def bench(registry: Registry, cluster, *arguments: str | Path, code: int = 0) -> tuple[str, str]:
    """What a bench that ends with this exit code prints on stdout and on stderr."""
    process = start(registry, cluster, *arguments)
    lines, errors = process.communicate()
    assert process.returncode == code, errors
    return lines, errors


def verdicts(registry: Registry) -> dict[tuple[str, int], str]:
    traces = registry.traces()
    assert len(traces) == len(set(keys(traces))), "an evaluation was repeated"
    return dict(zip(keys(traces), [trace.evaluation.status.value for trace in traces], strict=True))


def forget(registry: Registry) -> None:
    registry.layout.traces.rename(registry.root.with_name(f"traces{time.monotonic_ns()}"))


@pytest.fixture
def mixed(registry, cluster):
    """Kernels that are right, wrong, broken, crash or look around."""
    definition = registry.definition("rmsnorm_d128")
    secrets = [
        registry.layout.definition("norm", definition.name),
        Path.cwd() / "session_latest" / "logs" / "raylet.out",
    ]
    assert all(path.is_file() for path in secrets)
    looks = CURIOUS.replace("PATHS", repr([*map(str, secrets)]))
    looks = looks.replace("PORT", cluster.address.rpartition(":")[2])
    add_kernel(registry, "right_v1")
    add_kernel(registry, "wrong_v1", WRONG)
    add_kernel(registry, "broken_v1", "import not_there\n")
    add_kernel(registry, "crash_v1", "import ctypes\n\n\ndef run(x, weight, eps):\n    ctypes.string_at(0)\n")
    add_kernel(registry, "curious_v1", RIGHT.replace(FIRST_LINE, looks + FIRST_LINE))
    return registry


def test_verdicts_are_those_of_a_plain_bench_and_are_resumed(mixed, cluster):
    assert run_cli("bench", "--root", mixed.root, *QUICK_OPTIONS).returncode == 1
    plain = verdicts(mixed)
    assert plain["curious_v1", 1] == plain["right_v1", 8] == "PASSED"
    forget(mixed)
    output = mixed.root / "traces.json"
    lines, _ = bench(mixed, cluster, "--output", output, "--require-sandbox", code=1)
    assert verdicts(mixed) == plain
    assert set(printed(lines)) == set(plain)
    assert len(json.loads(output.read_text())) == len(plain)
    origins = {Sealer.of_this_machine().find_origin(trace) for trace in mixed.traces()}
    assert origins == {TraceOrigin.OWN}
    passed = sum(status == "PASSED" for status in plain.values())
    _, errors = bench(mixed, cluster, "--resume", "--solutions", "right_v1,curious_v1")
    assert f"({passed} resumed from earlier runs)" in errors
    assert verdicts(mixed) == plain


def test_a_workload_that_reads_files_is_skipped_and_named(registry, cluster):
    definition = registry.definition("rmsnorm_d128")
    first, *others = registry.workloads(definition.name)
    (registry.root / "blob").mkdir()
    save_file({"x": torch.randn(1, 128, dtype=torch.float16)}, registry.root / "blob" / "x.safetensors")
    inputs = {**first.inputs, "x": SafetensorsInput(path="blob/x.safetensors", tensor_key="x")}
    of_file = first.model_copy(update={"uuid": "of-a-file", "inputs": inputs})
    registry.write_workloads(definition, [of_file, *others])
    add_kernel(registry, "right_v1")
    lines, errors = bench(registry, cluster)
    assert printed(lines) == [("right_v1", 8)]
    assert "reads tensors from files, which the nodes do not have" in errors


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (
            "raise ModuleNotFoundError('no fib_rmsnorm')",
            "its actor does not start: ModuleNotFoundError: no fib_rmsnorm",
        ),
        ("", "it has fib-rmsnorm "),
    ],
)
def test_a_node_with_another_tool_is_refused_before_anything_runs(registry, cluster, tmp_path, line, said):
    add_kernel(registry, "right_v1")
    other = tmp_path / "other"
    shutil.copytree(REPOSITORY / "fib_rmsnorm", other / "fib_rmsnorm")
    with (other / "fib_rmsnorm" / "__init__.py").open("a") as file:
        file.write(f"\n{line}  # changed\n")
    cluster.add_with({"PYTHONPATH": str(other)})
    try:
        lines, errors = bench(registry, cluster, code=2)
    finally:
        cluster.kill(cluster.nodes[-1])
    assert lines == ""
    assert errors.startswith("fib-rmsnorm: --ray: node 127.0.0.1:")
    assert said in errors
    assert len(errors.splitlines()) == 1
    assert registry.traces() == []


@pytest.fixture
def one_core(cluster):
    """A node that may use one core only: its CPU is another model, as Traces name it."""
    whole = os.sched_getaffinity(0)
    if len(whole) < 2:
        pytest.skip("needs two cores")
    os.sched_setaffinity(0, {min(whole)})
    try:
        cluster.add()
    finally:
        os.sched_setaffinity(0, whole)
    yield f"1 core,{len(whole)} cores"
    cluster.kill(cluster.nodes[-1])


def test_each_workload_runs_once_on_each_model(registry, cluster, one_core):
    add_kernel(registry, "right_v1")
    _, errors = bench(registry, cluster, code=2)
    assert "--ray: the cluster has devices of 2 models: " in errors
    assert len(errors.splitlines()) == 1
    lines, _ = bench(registry, cluster, "--gpus", one_core)
    found = [(trace.evaluation.environment.hardware, trace.workload.axes["batch"]) for trace in registry.traces()]
    models = {hardware for hardware, _ in found}
    assert len(models) == 2
    assert sorted(found) == sorted((model, batch) for model in models for batch in (1, 8))
    for model in models:
        assert f"rmsnorm_d128 on {model}: median latency" in lines.replace("\n  ", " ")


def test_a_killed_driver_loses_nothing_and_the_next_repeats_nothing(tmp_path, cluster):
    registry = make_registry(tmp_path / "registry", batch_sizes=range(1, 9))
    add_kernel(registry, "sleeps_v1", SLEEPS)
    killed = start(registry, cluster)
    lines = ""
    while len(printed(lines)) < 2:
        lines += killed.stdout.readline()
    killed.kill()
    lines += killed.communicate()[0]
    assert set(printed(lines)) <= verdicts(registry).keys()
    bench(registry, cluster, "--resume")
    assert len(verdicts(registry)) == 8
    while cluster.actors():  # of the killed driver too: Ray ends them
        time.sleep(0.1)


@pytest.mark.timeout(1800)
def test_thirty_killed_nodes_lose_nothing(tmp_path, cluster):
    registry = make_registry(tmp_path / "registry", batch_sizes=range(1, 61))
    add_kernel(registry, "sleeps_v1", SLEEPS)
    moments = random.Random(19)
    kills = 0
    while kills < 30:
        while len(cluster.nodes) < 4:
            cluster.add()
        running = start(registry, cluster)
        lines: list[str] = []
        reader = threading.Thread(target=lambda lines=lines, stdout=running.stdout: lines.extend(stdout))
        reader.start()
        seen = 0
        while running.poll() is None and kills < 30:
            time.sleep(moments.uniform(0, 1))
            if len(lines) > seen and len(cluster.nodes) > 1:  # so that the bench gets on
                seen = len(lines)
                cluster.kill(moments.choice(cluster.nodes))
                kills += 1
        errors = running.stderr.read()
        assert running.wait() == 0, errors
        reader.join()
        assert set(printed("".join(lines))) == verdicts(registry).keys()
        assert verdicts(registry) == dict.fromkeys([("sleeps_v1", batch) for batch in range(1, 61)], "PASSED")
        forget(registry)


@pytest.mark.gpu
def test_each_gpu_of_a_host_takes_part(tmp_path):
    if torch.cuda.device_count() < 2:
        pytest.skip("needs two GPUs")
    registry = make_registry(tmp_path / "registry", batch_sizes=range(1, 9))
    manifest = python_manifest("right_v1").replace('["cpu"]', '["cuda"]')
    add_sources(registry, "right_v1", {"kernel.py": RIGHT}, manifest)
    found = run_cli("bench", "--root", registry.root, *QUICK_OPTIONS, "--device", "cuda", "--ray")
    assert found.returncode == 0, found.stderr
    assert verdicts(registry) == dict.fromkeys([("right_v1", batch) for batch in range(1, 9)], "PASSED")
    sessions = {trace.evaluation.performance.device_session for trace in registry.traces()}
    assert len(sessions) == torch.cuda.device_count()
