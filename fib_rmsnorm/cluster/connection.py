"""Connect to a Ray cluster, or start one on this machine that nobody else can reach, and open its devices."""

import importlib
import importlib.util
import os
import secrets
import socket
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from fib_rmsnorm.errors import EnvironmentMissingError, InputError
from fib_rmsnorm.evaluation.bench import BenchOptions, LocalDevices

LOCAL = "local"
"""The address that stands for a Ray of our own."""
_ANSWER_S = 10.0
_LOOPBACK = "127.0.0.1"
# Ray reads them when it is imported. The first keeps all of its ports on 127.0.0.1, on Linux too.
_OF_LOCAL = {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0", "RAY_AUTH_MODE": "token"}
_QUIET: dict[str, Any] = {"log_to_driver": False, "logging_level": "error"}


def require_ray() -> None:
    """Raise EnvironmentMissingError if Ray is not installed."""
    if importlib.util.find_spec("ray") is None:
        raise EnvironmentMissingError("--ray needs Ray; run: pip install 'ray>=2.40'")


@contextmanager
def connect(address: str) -> Iterator[None]:
    """Be a driver of the Ray cluster at `address`, or of one that is started for it. `local` starts one and ends it.

    Raises InputError if Ray is missing or there is no such cluster.
    """
    require_ray()
    if address not in (LOCAL, "auto"):
        _require_answer(address)
    with tempfile.TemporaryDirectory(prefix="fib-ray-") as folder:
        options: dict[str, Any] = {}
        if address == LOCAL:  # Ray's processes inherit the variables
            os.environ.update(_OF_LOCAL, RAY_AUTH_TOKEN=secrets.token_hex(32), RAY_USAGE_STATS_ENABLED="0")
            options = {"include_dashboard": False, "_temp_dir": folder}
        ray = importlib.import_module("ray")
        # Ray has no option for this: for each lost node it prints some 40 lines on stdout, where our JSON goes.
        ray._private.worker._worker_logs_enabled = False
        try:
            # Ray has all workers import from the driver's working folder, where a kernel's author may keep a triton.py.
            before = Path.cwd()
            os.chdir(folder)
            try:
                ray.init(address=address, **_QUIET, **options)
            finally:
                os.chdir(before)
        except (ray.exceptions.RayError, OSError, ValueError, RuntimeError) as error:
            first = str(error).strip().splitlines()[0]
            raise InputError(f"--ray {address}: {first}") from None
        try:
            if address == LOCAL and ray.util.get_node_ip_address() != _LOOPBACK:
                raise InputError("--ray: this program has imported ray before, whose ports would be open to others")
            yield
        finally:
            ray.shutdown()


def _require_answer(address: str) -> None:
    """Raise InputError unless something answers at HOST:PORT: Ray would try for minutes."""
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal() or "/" in host:
        raise InputError(f"--ray {address}: expected HOST:PORT of a cluster's head node, auto, or nothing")
    try:
        socket.create_connection((host, int(port)), _ANSWER_S).close()
    except (OSError, OverflowError) as error:
        raise InputError(f"--ray {address}: no Ray cluster answers there: {error}") from None


@contextmanager
def open_cluster(
    options: BenchOptions, address: str, models: Sequence[str], *, require_sandbox: bool
) -> Iterator[LocalDevices]:
    """The devices of the cluster at `HOST:PORT`, `auto`, or `local` for a Ray that is started for this bench.

    `models` are words of the names of models, to bench on each; empty if the cluster has one model. Raises InputError
    if the cluster cannot be reached, or if a device may not take part.
    """
    if options.device not in ("auto", "cpu", "cuda"):
        raise InputError(f"--device {options.device} names a device of this machine; with --ray: auto, cpu or cuda")
    from fib_rmsnorm.evaluation.bench import check_options

    with connect(address):
        # They import Ray: not before `connect`.
        from fib_rmsnorm.cluster.cluster_devices import ClusterDevices
        from fib_rmsnorm.cluster.device_pool import DevicePool

        pool = DevicePool(options, models, require_sandbox=require_sandbox)
        check_options(options, pool.kind)
        pool.open()
        yield ClusterDevices(options, pool)
