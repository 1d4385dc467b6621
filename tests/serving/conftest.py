import pytest


@pytest.fixture
def serve_mcp(serve, rival_registry, monkeypatch, tmp_path):
    """Start a service and its server; both are returned."""
    from fib_rmsnorm.serving.mcp_server import make_server
    from fib_rmsnorm.serving.requests import Requests

    monkeypatch.chdir(tmp_path)

    def start(**options):
        service = serve(**options)
        return make_server(Requests(service)), service

    return start
