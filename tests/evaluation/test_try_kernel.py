"""What a kernel that is tried is measured beside."""

from __future__ import annotations

from fib_rmsnorm.evaluation.try_kernel import plan_try
from fib_rmsnorm.machine.devices import choose_devices
from fib_rmsnorm.registry import Registry
from support.registries import add_kernel


def test_a_registered_solution_that_is_tried_is_no_rival_of_itself(registry):
    """Both would share one worker, which answers one request at a time."""
    add_kernel(registry, "first_v1")
    add_kernel(registry, "second_v1")
    found = Registry.find(registry.root)
    tried = found.packed_solutions()["first_v1"]
    plan = plan_try(found, found.definition("rmsnorm_d128"), tried, (2,), choose_devices("cpu")[0])
    assert [rival.name for rival in plan.rivals] == ["second_v1"]
