"""About how long a bench takes: a few seconds for each evaluation, and more for what has to be built first.

Estimates. On an H100 with 16 cores, 48 evaluations of rmsnorm_d4096 with nothing built took 37 s, 30 with all built 21;
on two cores, 30 took 140 s beside other work. A busy machine takes several times as long.
"""

from __future__ import annotations

from collections.abc import Collection

from fib_rmsnorm.building.cache import is_in_cache
from fib_rmsnorm.evaluation.plan import Plan
from fib_rmsnorm.languages import DeviceKind

_START_S: dict[DeviceKind, float] = {"cpu": 10, "cuda": 6}
_EVALUATION_S: dict[DeviceKind, float] = {"cpu": 2, "cuda": 0.5}
_BUILD_S: dict[DeviceKind, dict[str, float]] = {
    "cpu": {"cpp": 20, "tilelang": 8},
    "cuda": {"cuda": 10, "tilelang": 5},
}
_OTHER_BUILD_S = 2


def estimate_seconds(plan: Plan, kind: DeviceKind, devices: int, done: Collection[object]) -> float:
    """About how long the evaluations of a plan take, of which some are done, on devices of a kind."""
    solutions = {solution.name: solution for group in plan.groups for solution in group.solutions}
    unbuilt = [each for each in solutions.values() if not is_in_cache(each)]
    building = sum(_BUILD_S[kind].get(each.spec.language.value, _OTHER_BUILD_S) for each in unbuilt)
    evaluations = max(0, plan.evaluations - len(done))
    return _START_S[kind] + building + evaluations * _EVALUATION_S[kind] / devices
