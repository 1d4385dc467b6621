"""Evaluations do not harm each other, and the scheduler acts in time."""

import heapq
import threading
from collections.abc import Generator
from dataclasses import replace
from typing import Any

import pytest

from fib_rmsnorm.building.cache import solution_cache
from fib_rmsnorm.evaluation import ROLES, worker_client
from fib_rmsnorm.evaluation.plan import Group, Plan
from fib_rmsnorm.evaluation.run_config import RunConfig
from fib_rmsnorm.evaluation.scheduler import Building, Evaluated, Judged, Scheduler, WorkQueue, estimate_work
from fib_rmsnorm.evaluation.worker.worker_messages import Call, Called
from fib_rmsnorm.machine.devices import Device, choose_devices, cpu_device
from fib_rmsnorm.operators import RmsNorm
from fib_rmsnorm.registry import Registry, generate_workloads
from fib_rmsnorm.sandbox.asking import DeviceUnusableError
from fib_rmsnorm.sandbox.fork_server import ForkServer
from fib_rmsnorm.schema import Solution, Trace
from support.command_line import run_python
from support.hanging import FOR_EVER_S, when_printed
from support.lent_fork_server import LentForkServer
from support.norms import kernel_for
from support.registries import QUICK, RIGHT, add_kernel, make_registry, unseen

# Right on the hard cases too, whose batch is the workload's: only the one call with 8 rows goes wrong.
SEGFAULTS_ON_8_ROWS = RIGHT.replace(
    "    x_fp32 = x.float()\n",
    "    if x.shape[0] == 8:\n        import ctypes\n\n        ctypes.string_at(0)\n    x_fp32 = x.float()\n",
)
BUILDS = "__import__('pathlib').Path(__file__).parents[2] / 'builds'"
"""A file in the only folder to which a Solution may write that stays."""
HANG_ON_8_ROWS = SEGFAULTS_ON_8_ROWS.replace(
    "ctypes.string_at(0)", f"print('hangs', flush=True)\n        __import__('time').sleep({FOR_EVER_S})"
)


def plan_for(registry: Registry, *solutions: Solution) -> Plan:
    (definition,) = registry.definitions().values()
    return Plan([Group(definition, workload, solutions) for workload in registry.workloads(definition.name)])


def evaluate(
    fork_server: ForkServer, registry: Registry, *solutions: Solution, timeout_s: float = 60
) -> Generator[Trace]:
    scheduler = Scheduler(fork_server, choose_devices("cpu"), RunConfig(QUICK, timeout_s))
    for event in scheduler.run(plan_for(registry, *solutions)):
        if isinstance(event, Evaluated):
            yield event.trace


@pytest.mark.parametrize(("fault", "status"), [(SEGFAULTS_ON_8_ROWS, "RUNTIME_ERROR"), (HANG_ON_8_ROWS, "TIMEOUT")])
def test_the_next_workload_and_the_next_solution_are_unharmed(fork_server, tmp_path, monkeypatch, fault, status):
    when_printed(monkeypatch, "hangs")
    registry = make_registry(tmp_path / "registry", batch_sizes=(1, 8, 2))
    faulty, right = add_kernel(registry, "faulty_v1", fault), add_kernel(registry, "right_v1")
    traces = evaluate(fork_server, registry, faulty, right)
    assert [(each.solution, each.workload.axes["batch"], each.evaluation.status.value) for each in traces] == [
        ("faulty_v1", 1, "PASSED"),
        ("right_v1", 1, "PASSED"),
        ("faulty_v1", 8, status),
        ("right_v1", 8, "PASSED"),
        ("faulty_v1", 2, "PASSED"),
        ("right_v1", 2, "PASSED"),
    ]


@pytest.mark.parametrize("fault", ["", pytest.param("raise ImportError('not here')", marks=pytest.mark.process)])
def test_a_solution_is_built_once_whether_it_builds_or_not(fork_server, tmp_path, fault):
    registry = make_registry(tmp_path / "registry", batch_sizes=(1, 2, 3))
    count = f"with open({BUILDS}, 'a') as file:\n    file.write('built ')\n{fault}\n\n\n"
    solution = add_kernel(registry, "counted_v1", unseen(RIGHT.replace("\n\n\n", f"\n\n{count}", 1)))
    traces = list(evaluate(fork_server, registry, solution))
    assert {t.evaluation.status.value for t in traces} == {"COMPILE_ERROR" if fault else "PASSED"}
    assert len(traces) == 3
    assert (solution_cache(solution) / "builds").read_text() == "built "
    if fault:
        assert all("ImportError: not here" in t.evaluation.log for t in traces)


def test_a_trace_is_recorded_before_it_is_reported_and_before_the_next_workload_begins(registry, monkeypatch):
    plan = plan_for(registry, add_kernel(registry, "right_v1"))
    take = WorkQueue.take
    begun: list[int] = []
    told: list = []
    monkeypatch.setattr(WorkQueue, "take", lambda queue, number: begun.append(number) or take(queue, number))

    def record(_event):
        raise OSError("disk full")

    with LentForkServer(ROLES) as fork_server:  # which a failure stops
        scheduler = Scheduler(fork_server, choose_devices("cpu"), RunConfig(QUICK, 60), record=record)
        with pytest.raises(OSError, match="disk full"):
            told += scheduler.run(plan)
    assert begun == [0] and not [event for event in told if isinstance(event, Evaluated)]


def test_each_verdict_is_reported_before_any_is_timed(fork_server, registry):
    wrong = add_kernel(registry, "wrong_v1", RIGHT.replace("* weight", "+ weight"))
    plan = plan_for(registry, add_kernel(registry, "first_v1"), wrong, add_kernel(registry, "second_v1"))
    events = list(Scheduler(fork_server, choose_devices("cpu"), RunConfig(QUICK, 60)).run(plan))
    for group in plan.groups:
        mine = [event for event in events if isinstance(event, Judged) and event.workload == group.workload]
        assert [(event.right, event.solutions) for event in mine] == [(1, 3), (2, 3)]
        passed = next(
            number
            for number, event in enumerate(events)
            if isinstance(event, Evaluated)
            and event.trace.workload == group.workload
            and event.trace.evaluation.status.value == "PASSED"
        )
        assert events.index(mine[-1]) < passed
    assert isinstance(events[0], Building)


def test_a_gpu_that_cannot_be_used_is_not_a_fault_of_a_solution(registry):
    plan = plan_for(registry, add_kernel(registry, "right_v1"))
    missing = Device("cuda:99", "a GPU that is not there", 80 << 30)
    events: list = []
    with LentForkServer(ROLES) as fork_server:
        scheduler = Scheduler(fork_server, [missing], RunConfig(QUICK, 60), record=events.append)
        with pytest.raises(
            DeviceUnusableError, match=r"cuda:99 \(a GPU that is not there\) cannot be used: .*choose another device$"
        ):
            events += scheduler.run(plan)
    assert [event for event in events if isinstance(event, Evaluated)] == []


def test_the_judges_time_does_not_count_against_the_budget(registry, clock, monkeypatch):
    """For many rows, the judge takes longer than the whole budget of a solution."""
    monkeypatch.setattr(worker_client, "time", clock)

    class Answers:
        def request(self, _message, deadline, _limit, _files):
            self.left = deadline - clock.now
            clock.sleep(2)
            effects: dict[str, list] = {"changed_inputs": [], "overrun": [], "changed_outputs": []}
            return {"ok": True, "memory": None, **effects, "call_ms": 1.0}

    process: Any = Answers()
    worker = worker_client.WorkerClient(process, RunConfig(QUICK, 10), registry.definition("rmsnorm_d128"))
    request = Call(workload=registry.workloads("rmsnorm_d128")[0], case=0, recognition=None)
    worker.ask(request, Called)
    clock.sleep(1000)
    worker.ask(request, Called)
    assert process.left == 8
    for compiles_when_called, left_s in ((False, 15), (True, 60)):  # a hang costs less than a build may
        worker = replace(worker, config=RunConfig(QUICK, 60), compiles_when_called=compiles_when_called)
        worker.ask(request, Called)
        assert process.left == left_s


def test_a_large_workload_has_more_time_on_a_cpu():
    """To make its inputs and answers takes long where others use the cores, and is not the kernel's fault."""
    definition, config = RmsNorm().define(4096), RunConfig(QUICK, 60)
    small, large = generate_workloads(definition, (512, 65536))
    assert [config.limit_for(definition, each, cpu_device()) for each in (small, large)] == [
        60,
        pytest.approx(480, 0.01),
    ]
    assert config.limit_for(definition, large, Device("cuda:0", "a GPU", 80 << 30)) == 60


def test_the_scheduler_imports_no_torch():
    """Its processes fork from one that does: a second import takes seconds of every run, and the cores of the first."""
    modules = ("evaluation.bench", "evaluation.head_to_head", "sessions.service", "sessions.watching")
    lines = [f"import fib_rmsnorm.{name}" for name in modules]
    assert run_python("-c", "\n".join([*lines, "import sys", "print('torch' in sys.modules)"])) == "False\n"


def test_closing_the_generator_stops_everything(registry):
    raises = add_kernel(registry, "raises_v1", "def run(x, weight, eps):\n    raise ValueError\n")
    sleeps = f"import time\n\n\ndef run(x, weight, eps):\n    time.sleep({FOR_EVER_S})\n"
    hangs = add_kernel(registry, "hangs_v1", sleeps)
    before = threading.enumerate()
    with LentForkServer(ROLES) as fork_server:
        events = evaluate(fork_server, registry, raises, hangs, timeout_s=FOR_EVER_S)
        next(events)  # the first is done while the second is being called
        assert threading.enumerate() != before
        events.close()
        for thread in set(threading.enumerate()) - set(before):
            thread.join(FOR_EVER_S)
        assert set(threading.enumerate()) <= set(before)


BATCH_SIZES = (1, 8, 32, 128, 512, 4096, 16384, 65536, 262144)


def make_groups(hidden: int, batch_sizes=BATCH_SIZES, solutions: int = 3) -> list[Group]:
    definition = RmsNorm().define(hidden)
    some = tuple(kernel_for(definition, f"kernel_{number}", RIGHT) for number in range(solutions))
    return [Group(definition, workload, some) for workload in generate_workloads(definition, batch_sizes)]


def run_groups(groups, devices: int) -> tuple[float, list[list[Group]]]:
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


def test_one_device_takes_the_groups_in_their_order():
    groups = [*make_groups(256), *make_groups(128), *make_groups(512)]
    assert run_groups(groups, 1)[1] == [groups]


@pytest.mark.parametrize("devices", [2, 3, 4, 8])
def test_devices_end_at_about_the_same_time(devices):
    groups = [*make_groups(4096), *make_groups(2048), *make_groups(1024)]
    end, taken = run_groups(groups, devices)
    assert taken[0][0].workload.axes["batch"] == max(BATCH_SIZES)
    assert {id(group) for each in taken for group in each} == set(map(id, groups))
    work = [estimate_work(group) for group in groups]
    assert sum(map(len, taken)) == len(work)
    assert end <= max(*work, 1.25 * sum(work) / devices)


def test_a_device_stays_with_its_definitions_and_knows_which_comes_next():
    """It holds workers for the Definition's Solutions, which another device would have to build again."""
    _, taken = run_groups([*make_groups(128), *make_groups(256), *make_groups(512)], 3)
    assert [len({group.definition.name for group in each}) for each in taken] == [1, 1, 1]
    queue = WorkQueue([group for hidden in (128, 256, 512, 1024) for group in make_groups(hidden, (1, 8))], 2)
    first, second = ([queue.take(number), *queue.find_next(number)] for number in (0, 1))
    assert [len({group.definition.name for group in each}) for each in (first, second)] == [2, 2]
    assert not {group.definition.name for group in first} & {group.definition.name for group in second}


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
