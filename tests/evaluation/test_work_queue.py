"""How groups are shared out over devices, by devices that take one whenever they are free."""

from __future__ import annotations

import heapq

import pytest

from fib_rmsnorm.evaluation.plan import Group
from fib_rmsnorm.evaluation.scheduler import WorkQueue, estimate_work
from fib_rmsnorm.operators import RmsNorm
from fib_rmsnorm.registry import generate_workloads
from support.norms import kernel_for
from support.registries import RIGHT

BATCH_SIZES = (1, 8, 32, 128, 512, 4096, 16384, 65536, 262144)


def make_groups(hidden: int, batch_sizes=BATCH_SIZES, solutions: int = 3) -> list[Group]:
    definition = RmsNorm().define(hidden)
    some = tuple(kernel_for(definition, f"kernel_{number}", RIGHT) for number in range(solutions))
    return [Group(definition, workload, some) for workload in generate_workloads(definition, batch_sizes)]


def run(groups, devices: int) -> tuple[float, list[list[Group]]]:
    """Simulate devices that take as long as is estimated: the time until all are done, and what each has taken."""
    queue = WorkQueue(groups, devices)
    taken: list[list[Group]] = [[] for _ in range(devices)]
    free, end = [(0, number) for number in range(devices)], 0
    while free:
        now, number = heapq.heappop(free)
        if group := queue.take(number):
            taken[number].append(group)
            heapq.heappush(free, (now + estimate_work(group), number))
        end = max(end, now)
    return end, taken


def batch_sizes(groups) -> list[int]:
    return [group.workload.axes["batch"] for group in groups]


def test_one_device_takes_the_groups_in_their_order():
    groups = [*make_groups(256), *make_groups(128), *make_groups(512)]
    _, (taken,) = run(groups, 1)
    assert taken == groups


def test_the_longest_workload_starts_first_and_every_group_is_taken_once():
    groups = make_groups(4096)
    _, taken = run(groups, 4)
    assert batch_sizes(taken[0])[0] == 262144
    assert sorted(size for each in taken for size in batch_sizes(each)) == list(BATCH_SIZES)


@pytest.mark.parametrize("devices", [2, 3, 4, 8])
def test_devices_end_at_about_the_same_time(devices):
    groups = [*make_groups(4096), *make_groups(2048), *make_groups(1024)]
    end, _ = run(groups, devices)
    work = [estimate_work(group) for group in groups]
    assert end <= max(*work, 1.25 * sum(work) / devices)


def test_a_device_stays_with_a_definition_until_it_is_done():
    """It holds workers for the Definition's Solutions, which another device would have to build again."""
    _, taken = run([*make_groups(128), *make_groups(256), *make_groups(512)], 3)
    assert [len({group.definition.name for group in each}) for each in taken] == [1, 1, 1]


def test_a_device_that_is_done_helps_with_another_definition():
    _, taken = run([*make_groups(512, (1, 2, 3, 4, 5, 6)), *make_groups(128, (1, 2, 3, 4))], 2)
    names = [[group.definition.name for group in each] for each in taken]
    assert names == [["rmsnorm_d512"] * 5, ["rmsnorm_d128"] * 4 + ["rmsnorm_d512"]]


@pytest.mark.parametrize("devices", [1, 2])
def test_what_a_device_puts_back_is_the_next_that_another_takes(devices):
    queue = WorkQueue(make_groups(128, (1, 8, 32)), devices)
    lost = queue.take(0)
    queue.put_back(0, lost)
    assert queue.take(1) is lost
    assert queue
    assert [queue.take(1), queue.take(1)] != [None, None]
    assert not queue
    assert queue.take(1) is None
