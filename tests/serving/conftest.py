from __future__ import annotations

import pytest

from fib_rmsnorm.registry import Registry
from fib_rmsnorm.sessions import service as service_module
from fib_rmsnorm.sessions.service import Service
from support.registries import QUICK, add_kernel, make_registry


@pytest.fixture(scope="module")
def registry(tmp_path_factory) -> Registry:
    found = make_registry(tmp_path_factory.mktemp("serving") / "registry")
    add_kernel(found, "rmsnorm_python_plain_v1")
    return found


@pytest.fixture
def serve(registry, lent, monkeypatch, tmp_path):
    """Start a service and its server."""
    monkeypatch.chdir(tmp_path)
    started: list[Service] = []

    from fib_rmsnorm.serving.mcp_server import make_server
    from fib_rmsnorm.serving.requests import Requests

    def start(evaluators: int = 1, **options):
        monkeypatch.setattr(service_module, "_count_evaluators", lambda devices: evaluators)
        started.append(Service(registry, device="cpu", settings=QUICK, **options))
        return make_server(Requests(started[-1], registry))

    vars(start)["services"] = started
    yield start
    for service in started:
        service.close()
