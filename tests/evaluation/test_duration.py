from __future__ import annotations

from dataclasses import replace

from fib_rmsnorm.building.cache import solution_cache
from fib_rmsnorm.evaluation.bench import estimate_seconds
from fib_rmsnorm.evaluation.bench_records import collect_records
from fib_rmsnorm.evaluation.plan import Plan, Selection, make_plan
from fib_rmsnorm.machine.devices import choose_devices
from support.registries import RIGHT, add_kernel


def test_it_counts_evaluations_what_is_to_be_built_and_devices(registry, cold_cache):
    for version in (1, 2):
        add_kernel(registry, f"right_v{version}", f"{RIGHT}# {version}\n")
    plan = make_plan(collect_records(registry), Selection(), choose_devices("cpu")[0])
    assert plan.evaluations == 4
    cold = estimate_seconds(plan, "cpu", 1, ())
    solution_cache(plan.groups[0].solutions[0])
    warm = estimate_seconds(plan, "cpu", 1, ())
    assert 0 < warm < cold
    start = estimate_seconds(replace(plan, groups=[]), "cpu", 1, ())
    assert start == estimate_seconds(Plan(), "cpu", 1, ())
    assert estimate_seconds(plan, "cpu", 2, ()) < warm
    assert warm - estimate_seconds(plan, "cpu", 1, {"one"}) == (warm - estimate_seconds(plan, "cpu", 1, range(4))) / 4
