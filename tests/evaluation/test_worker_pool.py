"""A worker reads the tensors that Workloads name and nothing else of the registry, and makes room on a full GPU."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest
import torch
from safetensors.torch import save_file

from fib_rmsnorm.evaluation import correctness_gate
from fib_rmsnorm.evaluation.building_ahead import BuildsAhead
from fib_rmsnorm.evaluation.correctness_gate import CorrectnessGate
from fib_rmsnorm.evaluation.judging.comparer import ReferenceFailedError
from fib_rmsnorm.evaluation.plan import Group
from fib_rmsnorm.evaluation.run_config import RunConfig
from fib_rmsnorm.evaluation.worker_pool import EvaluationFailedError, WorkerPool
from fib_rmsnorm.machine.devices import Device
from fib_rmsnorm.operators import RmsNorm
from fib_rmsnorm.registry import generate_workloads
from fib_rmsnorm.sandbox.asking import DeviceUnusableError
from fib_rmsnorm.schema import RandomInput, SafetensorsInput, ScalarInput, SupportedLanguages, Workload
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


class ShortOfMemory:
    """A GPU that holds one worker: a second cannot open it until the first has ended."""

    def __init__(self) -> None:
        self.alive: list[SimpleNamespace] = []

    def spawn(self, _role, *_, **__):
        process = SimpleNamespace(alive=True, take_log=str)

        def answer(message, *_):
            if message["do"] == "prepare":
                return {"ok": True, "fault": "CUDA error: out of memory" if len(self.alive) > 1 else None}
            return {"ok": True, "build_s": 0.0}

        def end():
            process.alive = False
            if process in self.alive:
                self.alive.remove(process)

        process.request, process.kill, process.signal_kill = answer, end, lambda: None
        self.alive.append(process)
        return process


def test_a_worker_that_was_killed_is_replaced_though_its_end_is_not_known_yet(tmp_path):
    registry = make_registry(tmp_path)
    (definition,) = registry.definitions().values()
    pool = WorkerPool(ShortOfMemory(), Device("cpu", "a CPU", 1 << 30), RunConfig(QUICK, 10))
    solution = add_kernel(registry, "first_v1")
    killed = pool.find(definition, solution)
    pool.end(solution)
    assert killed.process.alive  # as far as is known
    pool.end_others([solution])
    found = pool.find(definition, solution)
    assert found.process.alive and found.process is not killed.process
    pool.close()
    assert not killed.process.alive and not found.process.alive


class CheatsWhenBuilt:
    """Starts processes that refuse to build: the code of the Solution has replaced something."""

    def __init__(self) -> None:
        self.started = 0

    def spawn(self, _role, *_, **__):
        self.started += 1
        refusal = {"ok": False, "status": "RUNTIME_ERROR", "message": "it cheats", "fatal": True, "is_cheat": True}
        return SimpleNamespace(alive=True, take_log=str, kill=lambda: None, request=lambda *_: refusal)


def test_a_cheat_that_is_found_while_it_is_built_stays_one(tmp_path):
    registry = make_registry(tmp_path / "registry")
    (definition,) = registry.definitions().values()
    solution = add_kernel(registry, "cheats_v1")
    forks = CheatsWhenBuilt()
    pool = WorkerPool(forks, Device("cpu", "a CPU", 1 << 30), RunConfig(QUICK, 10))
    failures = []
    for _ in range(2):
        with pytest.raises(EvaluationFailedError, match="it cheats") as raised:
            pool.find(definition, solution)
        failures.append(raised.value)
    assert forks.started == 1 and failures[0] is not failures[1]
    assert [failure.is_cheat for failure in failures] == [True, True]


class WhenAwaited:
    """An executor that does what it was given only once somebody waits for the last of it."""

    def __init__(self) -> None:
        self.jobs: list[Callable[[], object]] = []

    def submit(self, job):
        self.jobs.append(job)
        return SimpleNamespace(result=lambda: [each() for each in self.jobs])


def test_workers_of_other_definitions_make_room_on_a_full_gpu(tmp_path, monkeypatch):
    registries = [make_registry(tmp_path / str(hidden), hidden=hidden) for hidden in (128, 256)]
    gpu = ShortOfMemory()
    pool = WorkerPool(gpu, Device("cuda:0", "a small GPU", 1 << 30), RunConfig(QUICK, 10))
    first, second = (next(iter(registry.definitions().values())) for registry in registries)
    solution = add_kernel(registries[0], "first_v1")
    monkeypatch.setattr(pool, "_ending", WhenAwaited())
    kept = pool.find(first, solution)
    with pytest.raises(DeviceUnusableError, match="out of memory"):
        pool.find(first, add_kernel(registries[0], "beside_it_v1"))
    assert kept.process.alive
    pool.find(second, add_kernel(registries[1], "second_v1"))
    assert not kept.process.alive and pool.count_unbuilt([solution]) == 1


def test_the_workers_of_finished_definitions_end_and_no_others(tmp_path):
    registries = [make_registry(tmp_path / str(hidden), hidden=hidden) for hidden in (128, 256)]
    pool = WorkerPool(ShortOfMemory(), Device("cpu", "a CPU", 1 << 30), RunConfig(QUICK, 10))
    workers = []
    for registry in registries:
        (definition,) = registry.definitions().values()
        workers.append(pool.find(definition, add_kernel(registry, "right_v1")))
    finished, kept = workers
    pool.end_finished({kept.definition.name})
    assert (kept.process.alive, len(pool)) == (True, 1)
    pool.close()
    assert not finished.process.alive


def solution_in(language, name):
    return SimpleNamespace(name=name, spec=SimpleNamespace(language=SupportedLanguages(language)))


def make_gate(**stubs):
    workers, judge_client = (
        SimpleNamespace(find=stubs["find"], build_cores=[0]),
        SimpleNamespace(call=stubs.get("call")),
    )
    device = Device("cpu", "a CPU", 1 << 30)
    return CorrectnessGate(workers, BuildsAhead(workers, judge_client, device), judge_client, device)


def make_group(*languages):
    definition = RmsNorm().define(1024)
    solutions = (solution_in(language, f"{language} {number}") for number, language in enumerate(languages))
    return Group(definition, generate_workloads(definition, [1])[0], tuple(solutions))


def test_once_the_reference_has_failed_no_other_solution_is_built(monkeypatch):
    monkeypatch.setattr(correctness_gate, "ThreadPoolExecutor", lambda _: ThreadPoolExecutor(1))
    built = []

    def build(_definition, solution):
        time.sleep(0.05)
        built.append(solution.name)

    def fail(*_):
        raise ReferenceFailedError("the reference failed")

    with pytest.raises(ReferenceFailedError):
        list(make_gate(find=build, call=fail).admit(make_group(*["triton"] * 20)))
    assert len(built) < 20


def refuse(*_):
    raise EvaluationFailedError("RUNTIME_ERROR", "it does not build")


def test_solutions_are_built_at_once_though_their_outputs_are_too_large_to_be(monkeypatch):
    monkeypatch.setattr(correctness_gate, "_MAX_BYTES_AT_ONCE", 1)
    monkeypatch.setattr("fib_rmsnorm.evaluation.correctness_gate.os.cpu_count", lambda: 2)
    both = threading.Barrier(2, timeout=10)
    verdicts = make_gate(find=lambda *_: both.wait() + refuse()).admit(make_group("python", "python"))
    assert len(list(verdicts)) == 2


def test_what_verdicts_need_begins_first_then_what_takes_long_and_the_rest_when_all_have_begun(monkeypatch):
    monkeypatch.setattr(correctness_gate, "ThreadPoolExecutor", lambda _: ThreadPoolExecutor(1))
    begun = []
    gate = make_gate(find=lambda _, solution: begun.append(solution.spec.language.value) or refuse())
    group = make_group("triton", "tilelang", "python", "cuda")
    assert len(list(gate.admit(group, [lambda: begun.append("judge")], lambda: begun.append("copy")))) == 4
    assert begun == ["judge", "cuda", "python", "triton", "tilelang", "copy"]
