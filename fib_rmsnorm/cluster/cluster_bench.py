"""A bench on the devices of a Ray cluster: `evaluation.bench`, with devices of other machines."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import closing, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fib_rmsnorm.cluster import Progress, Told
from fib_rmsnorm.cluster.connection import connect
from fib_rmsnorm.errors import FibRmsnormError, InputError
from fib_rmsnorm.evaluation.bench import BenchOptions, Made, Started, check_options, find_done, write_missing
from fib_rmsnorm.evaluation.bench_records import BenchRecords, collect_records
from fib_rmsnorm.evaluation.plan import Plan, make_plan
from fib_rmsnorm.evaluation.recorder import OutputFile, Recorder
from fib_rmsnorm.evaluation.scheduler import Event, ResultKey
from fib_rmsnorm.registry import Registry
from fib_rmsnorm.registry.files.locking import locked
from fib_rmsnorm.registry.seals import Sealer
from fib_rmsnorm.schema import Trace

if TYPE_CHECKING:
    from fib_rmsnorm.cluster.device_pool import DevicePool
    from fib_rmsnorm.cluster.pooled_device import PooledDevice


@dataclass(frozen=True)
class ClusterOptions:
    """Which cluster, and which of its devices."""

    address: str
    """`HOST:PORT`, `auto`, or `local` for a Ray that is started for this bench."""
    models: tuple[str, ...] = ()
    """Words of the names of models, to bench on each; empty if the cluster has one model."""
    require_sandbox: bool = False


ClusterEvent = Event | Made | Started | Progress | Told


def bench_on_cluster(registry: Registry, options: BenchOptions, cluster: ClusterOptions) -> Generator[ClusterEvent]:
    """Evaluate every chosen Solution on every chosen Workload, once for each model of device; yield events.

    As `evaluation.bench.bench`: each Trace is on disk before its event is yielded, and sealed by this user's key.
    Closing the iterator early ends every process of the run on every node. Raises InputError before anything is written
    or evaluated.
    """
    check_options(options, options.device)
    if options.device not in ("auto", "cpu", "cuda"):
        raise InputError(f"--device {options.device} names a device of this machine; with --ray: auto, cpu or cuda")
    sealer = Sealer.of_this_machine(create=True)
    with (
        OutputFile(options.output) if options.output else nullcontext() as output,
        connect(cluster.address),
        closing(_open_pool(options, cluster)) as pool,
    ):
        models = pool.choose_models()
        with locked(writing=[registry.root]):
            records = collect_records(registry)
            plans = {model: _make_plan(records, options, devices) for model, devices in models.items()}
            made = write_missing(records, [*plans.values()])
        yield from made
        yield from map(Told, pool.describe_differences())
        done: dict[ResultKey, Trace] = {}
        for model, plan in plans.items():
            foreign = 0
            if options.resume:
                of_model, foreign = find_done(registry, sealer, plan, {model}, options.settings)
                done |= of_model
            many = len(models[model])
            yield Started(plan, [f"{many} x {model}" if many > 1 else model], foreign)
            yield from plan.skips
        pool.expect([solution for plan in plans.values() for group in plan.groups for solution in group.solutions])
        from fib_rmsnorm.cluster.dispatcher import Dispatcher

        recorder = Recorder(registry, records, output)
        dispatcher = Dispatcher(pool, plans, registry.root, options.settings, sealer=sealer, record=recorder, done=done)
        yield from dispatcher.run()


def _open_pool(options: BenchOptions, cluster: ClusterOptions) -> DevicePool:
    from fib_rmsnorm.cluster.device_pool import DevicePool, PoolOptions  # imports Ray: not before `connect`

    pool = DevicePool(
        PoolOptions(options.device, cluster.models, options.settings, options.timeout_s, cluster.require_sandbox)
    )
    try:
        check_options(options, pool.kind)
        pool.open()
    except BaseException:
        pool.close()
        raise
    return pool


def _make_plan(records: BenchRecords, options: BenchOptions, devices: list[PooledDevice]) -> Plan:
    """The plan for devices of one model: what all of them can run, and what fits the smallest."""
    from ray.exceptions import RayError

    from fib_rmsnorm.cluster.pooled_device import describe_error, find_readiness

    try:
        found = find_readiness(devices, [*records.solutions.values()])
    except RayError as error:
        raise FibRmsnormError(
            f"--ray: a node was lost before anything ran; run it again: {describe_error(error)}"
        ) from None
    smallest = min((device.facts.device for device in devices if device.facts), key=lambda each: each.memory_bytes)
    return make_plan(records, options.selection, smallest, lambda solution: found[solution.name])
