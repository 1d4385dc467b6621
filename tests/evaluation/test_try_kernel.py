"""What a kernel that is tried is measured beside."""

from __future__ import annotations

from fib_rmsnorm.evaluation import ROLES
from fib_rmsnorm.evaluation.run_config import RunConfig
from fib_rmsnorm.evaluation.scheduler import Evaluated
from fib_rmsnorm.evaluation.try_kernel import plan_try, run_try
from fib_rmsnorm.machine.devices import choose_devices
from fib_rmsnorm.registry import Registry
from support.lent_fork_server import LentForkServer
from support.registries import QUICK, WRONG, add_kernel


def test_a_registered_solution_that_is_tried_is_no_rival_of_itself(registry):
    """Both would share one worker, which answers one request at a time."""
    add_kernel(registry, "first_v1")
    add_kernel(registry, "second_v1")
    found = Registry.find(registry.root)
    tried = found.packed_solutions()["first_v1"]
    plan = plan_try(found, found.definition("rmsnorm_d128"), tried, (2,), choose_devices("cpu")[0])
    assert [rival.name for rival in plan.rivals] == ["second_v1"]


def test_nothing_waits_for_the_rival_of_a_wrong_kernel(registry):
    """The rival sleeps for longer than any test may take when it is called."""
    add_kernel(registry, "first_v1", WRONG)
    add_kernel(registry, "rival_v1", "import time\n\n\ndef run(x, weight, eps):\n    time.sleep(900)\n")
    found = Registry.find(registry.root)
    wrong = found.packed_solutions()["first_v1"]
    plan = plan_try(found, found.definition("rmsnorm_d128"), wrong, (2,), choose_devices("cpu")[0])
    with LentForkServer(ROLES) as fork_server:
        events = list(run_try(fork_server, plan, RunConfig(QUICK, 600.0, found.root)))
    assert [each.trace.solution for each in events if isinstance(each, Evaluated)] == ["first_v1"]
