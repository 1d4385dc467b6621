"""Clients of the server for agents, by the SDK's own, and the server on loopback."""

import asyncio
import json
import threading
from contextlib import contextmanager
from typing import Any

import httpx2
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp_types import Implementation

from fib_rmsnorm.serving.transports import HOST, PATH, listen, make_http
from support.registries import HANGS

TOKEN = "a token of the test"


def kernel(source: str, **options) -> dict:
    return {"source": source, "language": "python", "batch_sizes": [2], **options}


async def ask(client: Any, tool: str, arguments: dict, **options) -> dict:
    """The structured result of a tool, which its text repeats."""
    found = await client.call_tool(tool, arguments, **options)
    assert not found.is_error, found
    (told,) = found.content
    assert json.loads(told.text) == found.structured_content and "\n" not in told.text
    return found.structured_content


async def refused(client: Any, tool: str, arguments: dict) -> str:
    found = await client.call_tool(tool, arguments)
    assert found.is_error
    return found.content[0].text


async def start_hanging(client: Any) -> asyncio.Task:
    """Have a kernel judged that hangs; it runs when this returns."""
    runs = asyncio.Event()

    async def note(*_: object) -> None:
        runs.set()

    task = asyncio.create_task(client.call_tool("check", kernel(HANGS), progress_callback=note))
    await runs.wait()
    return task


@contextmanager
def on_loopback(server):
    """The address of a server that runs in a thread."""
    listening = listen(0)
    serving = make_http(server, TOKEN)
    thread = threading.Thread(target=serving.run, kwargs={"sockets": [listening]})
    thread.start()
    try:
        yield f"http://{HOST}:{listening.getsockname()[1]}{PATH}"
    finally:
        serving.should_exit = True
        thread.join()
        listening.close()


def connect(url: str, name: str) -> Any:
    http = httpx2.AsyncClient(headers={"Authorization": f"Bearer {TOKEN}"}, timeout=600)
    return Client(streamable_http_client(url, http_client=http), client_info=Implementation(name=name, version="1"))
