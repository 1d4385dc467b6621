"""A Ray cluster of several nodes on this machine, all on 127.0.0.1, which tests kill and add."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest

_LOCAL = {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0", "RAY_USAGE_STATS_ENABLED": "0", "RAY_AUTH_MODE": "token"}
_DETECTION = {"health_check_initial_delay_ms": 500, "health_check_period_ms": 300, "health_check_failure_threshold": 3}
"""A dead node is noticed within a second rather than fifteen."""


class RayCluster:
    """Nodes with one core each, beside a head node with none, where the driver runs."""

    def __init__(self, folder: str) -> None:
        """Ray reads its variables when it is imported: nothing may have done so before."""
        from ray.cluster_utils import Cluster

        self._options = {"node_ip_address": "127.0.0.1", "temp_dir": folder}
        head = {"num_cpus": 0, "include_dashboard": False, "_system_config": _DETECTION, **self._options}
        self._cluster = Cluster(initialize_head=True, head_node_args=head)
        self.address: str = self._cluster.address
        self.nodes: list[Any] = []

    def add(self) -> None:
        self.nodes.append(self._cluster.add_node(num_cpus=1, **self._options))

    def add_with(self, variables: dict[str, str]) -> None:
        """Add a node with other variables in its environment."""
        with pytest.MonkeyPatch.context() as patch:
            for name, value in variables.items():
                patch.setenv(name, value)
            self.add()

    def kill(self, node: Any) -> None:
        """Kill all processes of a node, by SIGKILL."""
        self.nodes.remove(node)
        self._cluster.remove_node(node, allow_graceful=False)

    def actors(self) -> list[psutil.Process]:
        """The processes that evaluate on any of the nodes."""
        below = psutil.Process().children(recursive=True)
        return [process for process in below if _name(process).startswith("ray::DeviceActor")]

    def shutdown(self) -> None:
        self._cluster.shutdown()


def _name(process: psutil.Process) -> str:
    try:
        return " ".join(process.cmdline())
    except psutil.Error:
        return ""


@contextmanager
def ray_cluster(nodes: int) -> Iterator[RayCluster]:
    """A cluster whose nodes have another working folder than the test, and know nothing of its registries."""
    folder, here = tempfile.mkdtemp(prefix="fib-ray-"), Path.cwd()
    with pytest.MonkeyPatch.context() as patch:
        # Ray notes the cluster's address here, in a folder that it does not make, and not in the user's.
        (Path(folder) / "ray").mkdir()
        for name, value in {**_LOCAL, "RAY_TMPDIR": folder, "RAY_AUTH_TOKEN": os.urandom(32).hex()}.items():
            patch.setenv(name, value)
        try:
            os.chdir(folder)
            cluster = RayCluster(folder)
            try:
                for _ in range(nodes):
                    cluster.add()
                yield cluster
            finally:
                cluster.shutdown()
        finally:
            os.chdir(here)
            shutil.rmtree(folder, ignore_errors=True)
