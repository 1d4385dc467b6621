"""Run a server on stdio, or on a port that only this machine can reach and only by a token."""

import hmac
import socket

import uvicorn
from mcp.server import MCPServer
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from fib_rmsnorm.errors import InputError

HOST = "127.0.0.1"
PATH = "/mcp"


class RequireToken:
    """Lets only requests with the token through; it is compared in constant time."""

    def __init__(self, app: ASGIApp, token: str) -> None:
        self._app = app
        self._expected = f"Bearer {token}".encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer 401 without the token."""
        if scope["type"] != "lifespan":
            given = [value for name, value in scope["headers"] if name == b"authorization"]
            if not hmac.compare_digest(b"".join(given), self._expected):
                answer = PlainTextResponse(
                    "send the header Authorization: Bearer TOKEN\n", 401, {"WWW-Authenticate": "Bearer"}
                )
                await answer(scope, receive, send)
                return
        await self._app(scope, receive, send)


def listen(port: int) -> socket.socket:
    """Take a port of loopback; 0 takes any that is free. Raises InputError if it is taken."""
    found = socket.socket()
    found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        found.bind((HOST, port))
    except OSError as error:
        found.close()
        raise InputError(f"--port {port}: {error.strerror}; choose another, or 0 for any") from None
    return found


def make_http(server: MCPServer, token: str) -> uvicorn.Server:
    """Return a server for HTTP: `run(sockets=[listen(port)])` serves until SIGINT or SIGTERM."""
    app = RequireToken(server.streamable_http_app(streamable_http_path=PATH, host=HOST), token)
    return uvicorn.Server(uvicorn.Config(app, log_level="warning", timeout_graceful_shutdown=1))
