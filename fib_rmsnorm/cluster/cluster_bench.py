"""The devices of a Ray cluster, for `evaluation.bench`."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from fib_rmsnorm.cluster.connection import ClusterOptions, connect
from fib_rmsnorm.errors import FibRmsnormError, InputError
from fib_rmsnorm.evaluation.bench import BenchOptions, LocalDevices, Told, check_options
from fib_rmsnorm.evaluation.plan import BenchRecords, Group, Plan, Skip, make_plan
from fib_rmsnorm.evaluation.scheduler import Evaluated, Event, ResultKey
from fib_rmsnorm.languages import DeviceKind
from fib_rmsnorm.registry.seals import Sealer
from fib_rmsnorm.schema import SafetensorsInput, Trace

if TYPE_CHECKING:
    from fib_rmsnorm.cluster.device_pool import DevicePool, PooledDevice


_NO_FILES = "it reads tensors from files, which the nodes do not have; bench it without --ray"


class ClusterDevices(LocalDevices):
    """The devices of a cluster: each Workload runs once on each model."""

    def __init__(self, options: BenchOptions, pool: DevicePool) -> None:
        self._options = options
        self._pool = pool
        self.kind: DeviceKind = "cuda" if pool.kind == "cuda" else "cpu"

    def make_plans(self, records: BenchRecords) -> list[tuple[Plan, list[str]]]:
        """A plan for each model: what all devices of it can run, and what fits the smallest."""
        models = self._pool.choose_models()
        self._plans = {model: self._make_plan(records, devices) for model, devices in models.items()}
        return [(plan, [model] * len(models[model])) for model, plan in self._plans.items()]

    def _make_plan(self, records: BenchRecords, devices: list[PooledDevice]) -> Plan:
        from ray.exceptions import RayError

        from fib_rmsnorm.cluster.device_pool import describe_error, find_readiness

        try:
            found = find_readiness(devices, [*records.solutions.values()])
        except RayError as error:
            raise FibRmsnormError(
                f"--ray: a node was lost before anything ran; run it again: {describe_error(error)}"
            ) from None
        smallest = min((device.facts.device for device in devices if device.facts), key=lambda each: each.memory_bytes)
        plan = make_plan(records, self._options.selection, smallest, lambda solution: found[solution.name])
        for group in [each for each in plan.groups if _reads_files(each)]:
            plan.groups.remove(group)
            plan.skips.append(Skip(group.definition.name, None, _NO_FILES, group.workload))
        if not plan.groups:
            raise InputError(f"nothing to evaluate with --ray: {_NO_FILES}")
        return plan

    def run(
        self, sealer: Sealer, record: Callable[[Evaluated], None], done: dict[ResultKey, Trace]
    ) -> Generator[Event | Told]:
        """Run the plan of each model on its devices."""
        from fib_rmsnorm.cluster.dispatcher import Dispatcher

        settings = self._options.settings
        yield from Dispatcher(self._pool, self._plans, settings, sealer=sealer, record=record, done=done).run()


def _reads_files(group: Group) -> bool:
    return any(isinstance(given, SafetensorsInput) for given in group.workload.inputs.values())


@contextmanager
def open_cluster(options: BenchOptions, cluster: ClusterOptions) -> Iterator[ClusterDevices]:
    """The devices of a cluster. Raises InputError if it cannot be reached, or if a device may not take part."""
    if options.device not in ("auto", "cpu", "cuda"):
        raise InputError(f"--device {options.device} names a device of this machine; with --ray: auto, cpu or cuda")
    with connect(cluster.address):
        from fib_rmsnorm.cluster.device_pool import DevicePool  # imports Ray: not before `connect`

        pool = DevicePool(options, cluster)
        check_options(options, pool.kind)
        pool.open()
        yield ClusterDevices(options, pool)
