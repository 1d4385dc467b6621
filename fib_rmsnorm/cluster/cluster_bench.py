"""A bench on a Ray cluster."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from fib_rmsnorm.cluster.connection import ClusterOptions, connect
from fib_rmsnorm.errors import InputError
from fib_rmsnorm.evaluation.bench import BenchOptions, LocalDevices, check_options


@contextmanager
def open_cluster(options: BenchOptions, cluster: ClusterOptions) -> Iterator[LocalDevices]:
    """The devices of a cluster. Raises InputError if it cannot be reached, or if a device may not take part."""
    if options.device not in ("auto", "cpu", "cuda"):
        raise InputError(f"--device {options.device} names a device of this machine; with --ray: auto, cpu or cuda")
    with connect(cluster.address):
        # They import Ray: not before `connect`.
        from fib_rmsnorm.cluster.cluster_devices import ClusterDevices
        from fib_rmsnorm.cluster.device_pool import DevicePool

        pool = DevicePool(options, cluster)
        check_options(options, pool.kind)
        pool.open()
        yield ClusterDevices(options, pool)
