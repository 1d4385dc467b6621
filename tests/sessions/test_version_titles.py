"""What a version's line calls its Workloads."""

from __future__ import annotations

import tempfile
import threading
from pathlib import Path

from fib_rmsnorm import Session
from fib_rmsnorm.registry import generate_workloads
from fib_rmsnorm.sessions.session_server import SessionServer
from support.registries import make_scaling_registry


def test_workloads_with_the_same_axes_are_told_apart_by_their_scalars(fib, tmp_path):
    registry = make_scaling_registry(tmp_path / "registry")
    definition = registry.definition("scaled")
    both = [generate_workloads(definition, [2], scalars={"factor": factor})[0] for factor in (2, 3)]
    registry.write_workloads(definition, both)
    kernel = tmp_path / "kernel.py"
    kernel.write_text("def run(x, factor):\n    return x * 2\n")
    with (
        Session(registry, "scaled", device="cpu") as session,
        tempfile.TemporaryDirectory() as private,
        SessionServer(session, Path(private, "s")) as server,
    ):
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        told = fib("try", "--socket", Path(private, "s"), kernel, "--check")
        server.shutdown()
        thread.join()
    assert told.code == 1 and "INCORRECT_NUMERICAL as scaled  batch=2, factor=3: " in told.out
