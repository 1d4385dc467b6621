"""While a GPU times what is ready, the Solutions of later Definitions are built and called, as far as memory allows."""

import threading
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import psutil
import pytest

from fib_rmsnorm.evaluation.building_ahead import BuildsAhead, FirstCall
from fib_rmsnorm.evaluation.plan import Group
from fib_rmsnorm.evaluation.worker_client import EvaluationFailedError
from fib_rmsnorm.machine.devices import Device
from fib_rmsnorm.operators import RmsNorm
from fib_rmsnorm.registry import generate_workloads
from fib_rmsnorm.sandbox.asking import DeviceUnusableError
from support.norms import kernel_for
from support.registries import RIGHT

GPU = Device("cuda:0", "a GPU", 80 << 30)


@pytest.fixture(autouse=True)
def much_memory(monkeypatch):
    monkeypatch.setattr(psutil, "virtual_memory", lambda: SimpleNamespace(available=1 << 40))


class Workers:
    """Workers that are built at once, and what was asked of them, in order."""

    def __init__(self, faults: dict[str, Exception] | None = None) -> None:
        self.asked: list[str] = []
        self.faults = faults or {}
        self.held: dict[str, SimpleNamespace] = {}
        self.build_cores = [0]  # one at a time
        self.most_held = 0

    def __len__(self) -> int:
        return len(self.held)

    def find(self, definition: Any, solution: Any, *, ahead: bool = False) -> SimpleNamespace:
        if solution.name not in self.held:
            self.asked.append(f"{'ahead' if ahead else 'now'} {definition.name} {solution.name.partition(':')[0]}")
            if ahead and (fault := self.faults.pop(solution.name, None)):
                raise fault
            self.held[solution.name] = SimpleNamespace(process=SimpleNamespace(take_log=lambda: "its traceback"))
        return self.held[solution.name]

    def answering(self, _: object) -> Any:
        return threading.Lock()

    def end_finished(self, definitions: Sequence[str]) -> None:
        self.asked.append(f"end all but {sorted(definitions)}")


def make_groups(*counts: int, rows: int = 2) -> list[Group]:
    """One for each Definition, with as many Solutions."""
    groups = []
    for number, count in enumerate(counts):
        definition = RmsNorm().define(128 << number).model_copy(update={"name": f"norm_{number}"})
        solutions = [kernel_for(definition, f"kernel_{number}_{each}", RIGHT) for each in range(count)]
        groups.append(Group(definition, generate_workloads(definition, [rows])[0], tuple(solutions)))
    return groups


def want(
    workers: Workers, groups: Sequence[Group], device: Device = GPU, failure: Exception | None = None
) -> BuildsAhead:
    """Have the groups built ahead; return when all are."""

    def call(_: object, worker: SimpleNamespace) -> str:
        if failure:
            raise failure
        return "called"

    ahead = BuildsAhead(workers, SimpleNamespace(call=call), device)
    ahead.want(groups)
    ahead._pool.shutdown(wait=True)
    return ahead


def test_the_next_definitions_are_built_in_their_order_and_called_once():
    groups = make_groups(2, 1)
    workers = Workers()
    ahead = want(workers, groups)
    assert workers.asked[0] == "end all but ['norm_0', 'norm_1']"
    kernels = [each.rpartition(" ")[2] for each in workers.asked[1:] if "kernel" in each]
    assert kernels == ["kernel_0_0", "kernel_0_1", "kernel_1_0"]
    group = groups[1]
    taken: list[Any] = [ahead.take(group.definition, group.workload, group.solutions[0]).answer for _ in range(2)]
    assert taken == ["called", None]  # the second time it is called as any other
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
    (group,) = make_groups(1, rows=1 << 20)
    ahead = want(Workers(), [group])
    assert ahead.take(group.definition, group.workload, group.solutions[0]).answer is None


def test_nothing_is_built_ahead_on_a_cpu():
    workers = Workers()
    want(workers, make_groups(1, 1), Device("cpu", "a CPU", 80 << 30))
    assert workers.asked == ["end all but ['norm_0', 'norm_1']"]


def test_a_first_call_that_failed_ahead_is_the_failure():
    (group,) = make_groups(1)
    ahead = want(Workers(), [group], failure=EvaluationFailedError("RUNTIME_ERROR", "it divides by zero"))
    with pytest.raises(EvaluationFailedError, match=r"(?s)divides by zero.*its traceback"):
        ahead.take(group.definition, group.workload, group.solutions[0])


def test_what_a_full_gpu_could_not_hold_is_built_when_its_turn_comes():
    (group,) = make_groups(1)
    workers = Workers({"kernel_0_0": DeviceUnusableError("out of memory")})
    ahead = want(workers, [group])
    assert isinstance(ahead.take(group.definition, group.workload, group.solutions[0]), FirstCall)
    assert workers.asked[-2:] == ["ahead norm_0 kernel_0_0", "now norm_0 kernel_0_0"]
