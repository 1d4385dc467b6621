"""Solutions are built, called and judged beside each other, and on a GPU the next ones while it times what is ready."""

import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import psutil
import pytest

from fib_rmsnorm.evaluation import correctness_gate
from fib_rmsnorm.evaluation.correctness_gate import Admitted, CorrectnessGate
from fib_rmsnorm.evaluation.judging.comparer import ReferenceFailedError
from fib_rmsnorm.evaluation.plan import Group
from fib_rmsnorm.evaluation.run_config import RunConfig
from fib_rmsnorm.evaluation.worker_client import EvaluationFailedError, WorkerClient
from fib_rmsnorm.machine.devices import Device
from fib_rmsnorm.operators import RmsNorm
from fib_rmsnorm.registry import generate_workloads
from fib_rmsnorm.sandbox.asking import DeviceUnusableError
from fib_rmsnorm.schema import SupportedLanguages
from support.norms import kernel_for
from support.registries import QUICK, RIGHT

GPU, CPU = Device("cuda:0", "a GPU", 80 << 30), Device("cpu", "a CPU", 80 << 30)


@pytest.fixture(autouse=True)
def much_memory(monkeypatch):
    monkeypatch.setattr(psutil, "virtual_memory", lambda: SimpleNamespace(available=1 << 40))


class Workers:
    """Workers that are built at once, and what was asked of them, in order."""

    def __init__(self, faults: dict[str, Exception] | None = None) -> None:
        self.asked: list[str] = []
        self.faults = faults or {}
        self.held: dict[str, WorkerClient] = {}
        self.build_cores = [0]  # one at a time
        self.most_held = 0

    def __len__(self) -> int:
        return len(self.held)

    def find(self, definition: Any, solution: Any, *, ahead: bool = False) -> WorkerClient:
        if solution.name not in self.held:
            self.asked.append(f"{'ahead' if ahead else 'now'} {definition.name} {solution.name.partition(':')[0]}")
            if ahead and (fault := self.faults.pop(solution.name, None)):
                raise fault
            process = SimpleNamespace(take_log=lambda: "its traceback")
            self.held[solution.name] = WorkerClient(process, RunConfig(QUICK, 60), definition)
        return self.held[solution.name]

    def answering(self, _: object) -> Any:
        return threading.Lock()

    def end_finished(self, definitions: Sequence[str]) -> None:
        self.asked.append(f"end all but {sorted(definitions)}")


class JudgeClient:
    """Finds every call right, and counts the calls."""

    def __init__(self, failure: Exception | None = None) -> None:
        self.failure, self.calls = failure, 0

    def call(self, *_: object) -> SimpleNamespace:
        self.calls += 1
        if self.failure:
            raise self.failure
        return SimpleNamespace(call_ms=1.0)

    def judge(self, *_: object) -> None:
        pass


def make_groups(*counts: int, rows: int = 2) -> list[Group]:
    """One for each Definition, with as many Solutions."""
    groups = []
    for number, count in enumerate(counts):
        definition = RmsNorm().define(128 << number).model_copy(update={"name": f"norm_{number}"})
        solutions = [kernel_for(definition, f"kernel_{number}_{each}", RIGHT) for each in range(count)]
        groups.append(Group(definition, generate_workloads(definition, [rows])[0], tuple(solutions)))
    return groups


def want(
    workers: Workers, groups: Sequence[Group], device: Device = GPU, judge: JudgeClient | None = None
) -> CorrectnessGate:
    """Have the groups built ahead; return when all are."""
    gate = CorrectnessGate(workers, judge or JudgeClient(), device)
    gate.want(groups)
    gate._ahead.shutdown(wait=True)
    return gate


def examine(gate: CorrectnessGate, group: Group) -> Admitted | EvaluationFailedError:
    return gate.examine(group.definition, group.workload, group.solutions[0], nullcontext())


def test_the_next_definitions_are_built_in_their_order_and_called_once():
    groups = make_groups(2, 1)
    workers, judge = Workers(), JudgeClient()
    gate = want(workers, groups, judge=judge)
    assert workers.asked[0] == "end all but ['norm_0', 'norm_1']"
    kernels = [each.rpartition(" ")[2] for each in workers.asked[1:] if "kernel" in each]
    assert kernels == ["kernel_0_0", "kernel_0_1", "kernel_1_0"]
    calls = [judge.calls]
    for _ in range(2):
        assert isinstance(examine(gate, groups[1]), Admitted)
        calls.append(judge.calls)
    assert calls == [3, 3, 4]  # the second time it is called as any other
    assert not any(each.startswith("now") for each in workers.asked)


def test_no_more_is_built_ahead_than_memory_holds():
    groups, built = make_groups(20, 2, 1), []
    for gigabytes in (8, 50, 60):
        workers = Workers()
        want(workers, groups, Device("cuda:0", "a GPU", gigabytes << 30))
        built.append((workers.most_held, {each.split()[1] for each in workers.asked if "kernel" in each}))
    first, second, third = "norm_0", "norm_1", "norm_2"
    assert built == [(24, {first}), (25, {first, second}), (30, {first, second, third})]


def test_a_large_workload_is_built_ahead_and_not_called():
    workers, judge = Workers(), JudgeClient()
    want(workers, make_groups(1, rows=1 << 20), judge=judge)
    assert ([*workers.held][1:], judge.calls) == (["kernel_0_0"], 0)


def test_nothing_is_built_ahead_on_a_cpu():
    workers = Workers()
    want(workers, make_groups(1, 1), CPU)
    assert workers.asked == ["end all but ['norm_0', 'norm_1']"]


def test_a_first_call_that_failed_ahead_is_the_failure():
    (group,) = make_groups(1)
    judge = JudgeClient(EvaluationFailedError("RUNTIME_ERROR", "it divides by zero"))
    assert str(examine(want(Workers(), [group], judge=judge), group)) == "it divides by zero\nits traceback"
    assert judge.calls == 1


def test_what_a_full_gpu_could_not_hold_is_built_when_its_turn_comes():
    (group,) = make_groups(1)
    workers = Workers({"kernel_0_0": DeviceUnusableError("out of memory")})
    assert isinstance(examine(want(workers, [group]), group), Admitted)
    assert workers.asked[-2:] == ["ahead norm_0 kernel_0_0", "now norm_0 kernel_0_0"]


def make_gate(find, judge: JudgeClient | None = None) -> CorrectnessGate:
    return CorrectnessGate(SimpleNamespace(find=find, build_cores=[0]), judge or JudgeClient(), CPU)


def refuse(*_):
    raise EvaluationFailedError("RUNTIME_ERROR", "it does not build")


def test_once_the_reference_has_failed_no_other_solution_is_built(monkeypatch):
    monkeypatch.setattr(correctness_gate, "ThreadPoolExecutor", lambda _: ThreadPoolExecutor(1))
    built = []

    def build(definition, solution):
        time.sleep(0.05)
        built.append(solution.name)
        return WorkerClient(SimpleNamespace(), RunConfig(QUICK, 60), definition)

    with pytest.raises(ReferenceFailedError):
        list(make_gate(build, JudgeClient(ReferenceFailedError("it failed"))).admit(*make_groups(20)))
    assert len(built) < 20


def test_solutions_are_built_at_once_though_their_outputs_are_too_large_to_be(monkeypatch):
    monkeypatch.setattr(correctness_gate, "_MAX_BYTES_AT_ONCE", 1)
    monkeypatch.setattr("fib_rmsnorm.evaluation.correctness_gate.os.cpu_count", lambda: 2)
    both = threading.Barrier(2, timeout=10)
    assert len(list(make_gate(lambda *_: both.wait() + refuse()).admit(*make_groups(2)))) == 2


def test_what_verdicts_need_begins_first_then_what_takes_long_and_the_rest_when_all_have_begun(monkeypatch):
    monkeypatch.setattr(correctness_gate, "ThreadPoolExecutor", lambda _: ThreadPoolExecutor(1))
    begun = []
    (group,) = make_groups(4)
    for solution, language in zip(group.solutions, ("triton", "tilelang", "python", "cuda"), strict=True):
        solution.spec.language = SupportedLanguages(language)
    gate = make_gate(lambda _, solution: begun.append(solution.spec.language.value) or refuse())
    assert len(list(gate.admit(group, [lambda: begun.append("judge")], lambda: begun.append("copy")))) == 4
    assert begun == ["judge", "cuda", "python", "triton", "tilelang", "copy"]
