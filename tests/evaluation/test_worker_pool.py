"""A worker reads the tensors that Workloads name and nothing else of the registry, and makes room on a full GPU."""

from collections.abc import Callable
from types import SimpleNamespace

import pytest
import torch
from safetensors.torch import save_file

from fib_rmsnorm.evaluation.run_config import RunConfig
from fib_rmsnorm.evaluation.worker_client import EvaluationFailedError
from fib_rmsnorm.evaluation.worker_pool import WorkerPool
from fib_rmsnorm.machine.devices import Device, choose_devices
from fib_rmsnorm.operators import RmsNorm
from fib_rmsnorm.sandbox.asking import DeviceUnusableError
from fib_rmsnorm.schema import RandomInput, SafetensorsInput, ScalarInput, Workload
from support.norms import kernel_for
from support.registries import QUICK, RIGHT, add_kernel, bench_all, make_registry

READS = """
from pathlib import Path


def run(x, weight, eps):
    return print(next(Path({!r}).iterdir()))
"""


@pytest.mark.process
def test_a_worker_reads_the_tensors_of_workloads_alone(tmp_path):
    registry = make_registry(tmp_path / "registry")
    (definition,) = registry.definitions().values()
    (registry.root / "blob").mkdir()
    save_file({"x": torch.randn(2, 128, dtype=torch.float16)}, registry.root / "blob" / "x.safetensors")
    x = SafetensorsInput(path="blob/x.safetensors", tensor_key="x")
    inputs = {"x": x, "weight": RandomInput(), "eps": ScalarInput(value=1e-6)}
    registry.write_workloads(
        definition, [Workload.model_validate({"axes": {"batch": 2}, "inputs": inputs, "uuid": "u"})]
    )
    add_kernel(registry, "right_v1", RIGHT)
    add_kernel(registry, "reads_v1", READS.format(str(registry.layout.workloads)))
    found = {trace.solution: trace.evaluation for trace in bench_all(registry)}
    assert found["right_v1"].status.value == "PASSED", found["right_v1"].log
    assert found["reads_v1"].status.value == "RUNTIME_ERROR"
    assert "PermissionError" in found["reads_v1"].log


@pytest.mark.parametrize(
    ("code", "told", "compiles"),
    [("", "2\n", False), ("# torch.compile, on a torch.cuda.Stream()", "as many as there are\n", True)],
)
def test_a_source_tells_what_its_worker_needs(fork_server, registry, monkeypatch, code, told, compiles):
    """Kernels on several streams would wait for each other with two queues, and a call that compiles takes long."""
    monkeypatch.delenv("CUDA_DEVICE_MAX_CONNECTIONS", raising=False)
    (definition,) = registry.definitions().values()
    tells = "print(__import__('os').environ.get('CUDA_DEVICE_MAX_CONNECTIONS', 'as many as there are'))\n"
    solution = add_kernel(registry, "tells_v1", tells + RIGHT + code)
    pool = WorkerPool(fork_server, choose_devices("cpu")[0], RunConfig(QUICK, 60))
    worker = pool.find(definition, solution)
    assert (worker.process.take_log(), worker.compiles_when_called) == (told, compiles)
    pool.close()


class ShortOfMemory:
    """A GPU that holds one worker: a second cannot open it until the first has ended."""

    def __init__(self) -> None:
        self.alive: list[SimpleNamespace] = []

    def spawn(self, _role, *_, **__):
        process = SimpleNamespace(alive=True, take_log=str)

        def answer(message, *_):
            if message["do"] == "Prepare":
                return {"ok": True, "fault": "CUDA error: out of memory" if len(self.alive) > 1 else None}
            return {"ok": True, "build_s": 0.0}

        def end():
            process.alive = False
            if process in self.alive:
                self.alive.remove(process)

        process.request, process.kill, process.signal_kill = answer, end, lambda: None
        self.alive.append(process)
        return process


FIRST, SECOND = (RmsNorm().define(hidden) for hidden in (128, 256))
ONE, BESIDE_IT = (kernel_for(FIRST, name, RIGHT) for name in ("one_v1", "beside_it_v1"))
OTHER = kernel_for(SECOND, "other_v1", RIGHT)


def make_pool(spawn, device="cpu"):
    return WorkerPool(SimpleNamespace(spawn=spawn), Device(device, "small", 1 << 30), RunConfig(QUICK, 10))


def test_a_worker_that_was_killed_is_replaced_though_its_end_is_not_known_yet():
    pool = make_pool(ShortOfMemory().spawn)
    killed = pool.find(FIRST, ONE)
    pool.end(ONE)
    assert killed.process.alive  # as far as is known
    pool.end_others([ONE])
    found = pool.find(FIRST, ONE)
    assert found.process.alive and found.process is not killed.process
    pool.close()
    assert not killed.process.alive and not found.process.alive


def test_a_cheat_that_is_found_while_it_is_built_stays_one():
    refusal = {"ok": False, "status": "RUNTIME_ERROR", "message": "it cheats", "fatal": True, "is_cheat": True}
    process = SimpleNamespace(alive=True, take_log=str, kill=lambda: None, request=lambda *_: refusal)
    processes = [process]
    pool = make_pool(lambda *_, **__: processes.pop())
    failures = []
    for _ in range(2):  # it is started once
        with pytest.raises(EvaluationFailedError, match="it cheats") as raised:
            pool.find(FIRST, ONE)
        failures.append(raised.value)
    assert failures[0] is not failures[1]
    assert [failure.is_cheat for failure in failures] == [True, True]


class WhenAwaited:
    """An executor that does what it was given only once somebody waits for the last of it."""

    def __init__(self) -> None:
        self.jobs: list[Callable[[], object]] = []

    def submit(self, job):
        self.jobs.append(job)
        return SimpleNamespace(result=lambda: [each() for each in self.jobs])


def test_workers_of_other_definitions_make_room_on_a_full_gpu(monkeypatch):
    pool = make_pool(ShortOfMemory().spawn, "cuda:0")
    monkeypatch.setattr(pool, "_ending", WhenAwaited())
    kept = pool.find(FIRST, ONE)
    with pytest.raises(DeviceUnusableError, match="out of memory"):
        pool.find(FIRST, BESIDE_IT)
    assert kept.process.alive
    pool.find(SECOND, OTHER)
    assert not kept.process.alive and pool.count_unbuilt([ONE]) == 1


def test_the_workers_of_finished_definitions_end_and_no_others():
    pool = make_pool(ShortOfMemory().spawn)
    finished, kept = pool.find(FIRST, ONE), pool.find(SECOND, OTHER)
    pool.end_finished({kept.definition.name})
    assert (kept.process.alive, len(pool)) == (True, 1)
    pool.close()
    assert not finished.process.alive
