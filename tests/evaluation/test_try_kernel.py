"""What a kernel that is tried is measured beside."""

from __future__ import annotations

import pytest

from fib_rmsnorm.evaluation import ROLES, device_runner
from fib_rmsnorm.evaluation.run_config import RunConfig
from fib_rmsnorm.evaluation.scheduler import Building, Evaluated
from fib_rmsnorm.evaluation.try_kernel import plan_try, run_try
from fib_rmsnorm.machine.devices import choose_devices
from fib_rmsnorm.registry import Registry
from fib_rmsnorm.schema import Check
from support.lent_fork_server import LentForkServer
from support.registries import QUICK, RIGHT, WRONG, add_kernel


def test_a_registered_solution_that_is_tried_is_no_rival_of_itself(registry):
    """Both would share one worker, which answers one request at a time."""
    add_kernel(registry, "first_v1")
    add_kernel(registry, "second_v1")
    found = Registry.find(registry.root)
    tried = found.packed_solutions()["first_v1"]
    plan = plan_try(found, found.definition("rmsnorm_d128"), tried, (2,), choose_devices("cpu")[0])
    assert [rival.name for rival in plan.rivals] == ["second_v1"]


@pytest.mark.parametrize("cores", [0, 1 << 20], ids=["cores to spare", "none"])
def test_rivals_are_built_while_the_kernel_is_judged_if_there_are_cores_to_spare(registry, monkeypatch, cores):
    monkeypatch.setattr(device_runner, "_CORES_TO_BUILD_RIVALS", cores)
    events = try_beside_a_rival(registry, "first_v1")
    assert [each.trace.evaluation.status.value for each in events if isinstance(each, Evaluated)] == ["PASSED"] * 2
    judged = next(index for index, each in enumerate(events) if isinstance(each, Check))
    assert [each for each in events[judged:] if isinstance(each, Building)] == (
        [] if cores == 0 else [events[judged + 1]]
    )


def test_nothing_waits_for_the_rival_of_a_wrong_kernel(registry, monkeypatch):
    """The rival sleeps for longer than any test may take when it is called."""
    monkeypatch.setattr(device_runner, "_CORES_TO_BUILD_RIVALS", 0)
    events = try_beside_a_rival(
        registry, "first_v1", WRONG, "import time\n\n\ndef run(x, weight, eps):\n    time.sleep(900)\n"
    )
    assert [each.trace.solution for each in events if isinstance(each, Evaluated)] == ["first_v1"]


def try_beside_a_rival(registry, name: str, source: str = RIGHT, rivals: str = RIGHT) -> list:
    add_kernel(registry, name, source)
    add_kernel(registry, "rival_v1", rivals)
    found = Registry.find(registry.root)
    plan = plan_try(
        found, found.definition("rmsnorm_d128"), found.packed_solutions()[name], (2,), choose_devices("cpu")[0]
    )
    with LentForkServer(ROLES) as fork_server:
        return list(run_try(fork_server, plan, RunConfig(QUICK, 600.0, found.root)))
