"""Agents drive the server by the SDK's own client, on stdio and on loopback."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import threading
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from fib_rmsnorm.registry import Registry
from fib_rmsnorm.sessions import service as service_module
from fib_rmsnorm.sessions.service import Service
from support.command_line import cli_command
from support.paths import REPOSITORY
from support.registries import QUICK, RIGHT, add_kernel, make_registry

pytest.importorskip("mcp")

import httpx2
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from mcp_types import Implementation

from fib_rmsnorm.serving.mcp_server import make_server
from fib_rmsnorm.serving.requests import Requests
from fib_rmsnorm.serving.transports import HOST, PATH, listen, make_http

CRASHES = "import os\n\n\ndef run(x, weight, eps):\n    os.kill(os.getpid(), 11)\n"
HANGS = "def run(x, weight, eps):\n    while True:\n        pass\n"
NO_EPS = RIGHT.replace("+ eps", "+ 0 * eps")
TOKEN = "a token of the test"


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

    def start(evaluators: int = 1, **options):
        monkeypatch.setattr(service_module, "_count_evaluators", lambda devices: evaluators)
        started.append(Service(registry, device="cpu", settings=QUICK, **options))
        return make_server(Requests(started[-1], registry))

    start.services = started
    yield start
    for service in started:
        service.close()


def kernel(source: str, **options) -> dict:
    return {"source": source, "language": "python", "batch_sizes": [2], **options}


async def ask(client: Client, tool: str, arguments: dict, **options) -> dict:
    """The structured result of a tool, which its text repeats."""
    found = await client.call_tool(tool, arguments, **options)
    assert not found.is_error, found
    if tool in ("check", "measure"):
        assert json.loads(found.content[0].text) == found.structured_content
    return found.structured_content


async def refused(client: Client, tool: str, arguments: dict) -> str:
    found = await client.call_tool(tool, arguments)
    assert found.is_error
    return found.content[0].text


async def start_hanging(client: Client) -> asyncio.Task:
    """Have a kernel judged that hangs; it runs when this returns."""
    runs = asyncio.Event()

    async def note(*_: object) -> None:
        runs.set()

    task = asyncio.create_task(client.call_tool("check", kernel(HANGS), progress_callback=note))
    await runs.wait()
    return task


def test_an_agent_is_told_what_is_wrong_and_how_fast_it_is(serve):
    steps: list[tuple[float, float | None]] = []

    async def note(done: float, total: float | None, message: str | None) -> None:
        steps.append((done, total))

    async def drive() -> None:
        async with Client(serve()) as client:
            tools = {tool.name: tool for tool in (await client.list_tools()).tools}
            assert {*tools} == {"check", "measure", "explain", "compare", "best", "new"}
            assert all(tool.output_schema and tool.description for tool in tools.values())
            wrong = await ask(client, "check", kernel(NO_EPS))
            assert (wrong["status"], wrong["mistake"]) == (
                "INCORRECT_NUMERICAL",
                "the output equals RMSNorm without eps",
            )
            assert wrong["hint"] and wrong["case"].startswith("batch=2, ") and "worst at [" in wrong["log"]
            assert len(json.dumps(wrong, ensure_ascii=False)) < 1200
            unread = await ask(client, "check", kernel("def run(x, weight, eps:\n"))
            assert (unread["status"], unread["file"], unread["line"]) == ("COMPILE_ERROR", "kernel.py", 1)
            right = await ask(client, "measure", kernel(RIGHT), progress_callback=note)
            assert right["status"] == "PASSED" and right["speedup"] > 0 and right["rivals"]
            assert steps[-1] == (2, 2) and steps == sorted(steps)
            known = await client.read_resource(f"fib-rmsnorm://results/{right['id']}")
            assert json.loads(known.contents[0].text) == right

    asyncio.run(drive())


def test_what_is_named_wrong_is_told_in_a_line(serve, tmp_path):
    (tmp_path / "mine.py").write_text(RIGHT)
    outside = tmp_path.parent / "outside.py"
    outside.write_text(RIGHT)
    (tmp_path / "link.py").symlink_to(outside)
    bad = [
        ({}, "give either `source`"),
        ({"source": RIGHT, "path": "mine.py"}, "give either `source`"),
        ({"source": RIGHT}, "needs its `language`"),
        (kernel(RIGHT, language="fortran"), "unknown language 'fortran'"),
        (kernel(RIGHT, definition="nonesuch"), "no Definition 'nonesuch'"),
        (kernel(RIGHT, entry="nonesuch"), "no function 'nonesuch'"),
        (kernel(RIGHT, batch_sizes=[-1]), "batch"),
        (kernel(RIGHT, batch_sizes=["many"]), "batch_sizes"),
        ({"path": "gone.py"}, "no such file"),
        ({"path": "a\0b.py"}, "is not a path"),
        ({"path": str(outside)}, "a client may name files in"),
        ({"path": "link.py"}, "a client may name files in"),
        ({"path": "../outside.py"}, "a client may name files in"),
    ]

    async def drive() -> None:
        async with Client(serve()) as client:
            for arguments, said in bad:
                assert said in await refused(client, "check", arguments), arguments
            for tool, arguments, said in (
                ("new", {"language": "fortran"}, "unknown language"),
                ("best", {}, "no Traces"),
                ("explain", kernel(RIGHT), "has no code of a GPU to explain"),
                ("compare", {"old": "nonesuch", "new": "mine.py"}, "neither a Solution"),
                ("compare", {"old": "mine.py", "new": str(outside)}, "a client may name files in"),
            ):
                assert said in await refused(client, tool, arguments), tool
            with pytest.raises(Exception, match="no request 'nonesuch'"):
                await client.read_resource("fib-rmsnorm://results/nonesuch")
            assert (await ask(client, "check", {"path": "mine.py", "batch_sizes": [2]}))["status"] == "PASSED"

    asyncio.run(drive())


def test_an_agent_starts_from_a_kernel_and_reads_what_it_must_do(serve):
    async def drive() -> None:
        async with Client(serve()) as client:
            new = await ask(client, "new", {"language": "python"})
            assert new["kind"] == "kernel" and new["source"].startswith("# definition: rmsnorm_d128\n")
            assert (await ask(client, "check", kernel(new["source"])))["status"] == "PASSED"
            for name, said in (
                ("definitions", "rmsnorm_d128"),
                ("definitions/rmsnorm_d128", '"reference"'),
                ("rules", "hard ones"),
                ("legend", "speedup: "),
            ):
                assert said in (await client.read_resource(f"fib-rmsnorm://{name}")).contents[0].text

    asyncio.run(drive())


@pytest.mark.process
def test_two_kernels_are_timed_in_turn(serve, tmp_path):
    for name in ("old.py", "new.py"):
        (tmp_path / name).write_text(RIGHT)

    async def drive() -> None:
        async with Client(serve()) as client:
            sides = {"old": "old.py", "new": "new.py", "batch_sizes": [2], "rounds": 1}
            (found,) = (await ask(client, "compare", sides))["comparison"]["comparisons"]
            assert found["axes"] == {"batch": 2} and found["verdict"] in ("faster", "slower", "tie")

    asyncio.run(drive())


def test_a_kernel_that_kills_its_worker_costs_itself_alone(serve):
    async def drive() -> None:
        async with Client(serve()) as client:
            assert "SIGSEGV" in (await ask(client, "check", kernel(CRASHES)))["mistake"]
            assert (await ask(client, "check", kernel(RIGHT)))["status"] == "PASSED"

    asyncio.run(drive())


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


def connect(url: str, name: str = "agent", token: str = TOKEN) -> Client:
    http = httpx2.AsyncClient(headers={"Authorization": f"Bearer {token}"}, timeout=600)
    return Client(streamable_http_client(url, http_client=http), client_info=Implementation(name=name, version="1"))


def test_nobody_is_let_in_without_the_token(serve):
    with on_loopback(serve()) as url:
        for headers in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": TOKEN}):
            answer = httpx2.post(url, json={}, headers=headers)
            assert answer.status_code == 401 and "Authorization: Bearer" in answer.text
        other = {"Authorization": f"Bearer {TOKEN}", "Host": "evil.example"}
        assert httpx2.post(url, json={}, headers=other).status_code == 421


def test_eight_clients_on_loopback_get_each_their_own_verdict(serve):
    kernels = [RIGHT, NO_EPS, CRASHES, f"import nonesuch\n{RIGHT}"] * 2
    said = ["PASSED", "INCORRECT_NUMERICAL", "RUNTIME_ERROR", "COMPILE_ERROR"] * 2

    async def check(url: str, number: int) -> str:
        async with connect(url, f"agent {number}") as client:
            return (await ask(client, "check", kernel(f"{kernels[number]}# {number}\n")))["status"]

    async def drive(url: str) -> None:
        assert await asyncio.gather(*(check(url, number) for number in range(8))) == said

    with on_loopback(serve(evaluators=2)) as url:
        asyncio.run(drive(url))


def test_a_client_that_asks_too_much_keeps_no_other_waiting(serve):
    async def drive(url: str) -> None:
        async with connect(url, "greedy") as greedy, connect(url, "other") as other:
            hangs = await start_hanging(greedy)
            both = [asyncio.create_task(greedy.call_tool("check", kernel(RIGHT))) for _ in range(2)]
            (full,), (waits,) = await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
            assert full.result().is_error and "wait already" in full.result().content[0].text
            asked = asyncio.create_task(ask(other, "check", kernel(RIGHT)))
            hangs.cancel()
            assert (await asked)["status"] == "PASSED"
            assert (await waits).structured_content["status"] == "PASSED"

    with on_loopback(serve(most_queued=1)) as url:
        asyncio.run(drive(url))


VANISHES = """\
import asyncio, sys
from serving import test_mcp_server as its

async def drive():
    async with its.connect(sys.argv[1], "gone") as client:
        await its.start_hanging(client)
        print("runs", flush=True)
        await asyncio.sleep(600)

asyncio.run(drive())
"""


def test_the_request_of_a_client_that_vanishes_ends(serve):
    async def drive(url: str) -> None:
        async with connect(url, "other") as other:
            assert (await ask(other, "check", kernel(RIGHT)))["status"] == "PASSED"

    with on_loopback(serve()) as url:
        command = [sys.executable, "-c", VANISHES, url]
        tests = os.pathsep.join([str(Path(__file__).parents[1]), str(REPOSITORY)])
        with subprocess.Popen(command, stdout=subprocess.PIPE, env={**os.environ, "PYTHONPATH": tests}) as gone:
            assert gone.stdout.readline() == b"runs\n"
            (hanging,) = serve.services[-1]._jobs.values()
            gone.kill()
        asyncio.run(drive(url))
    assert hanging.version.status == "ABANDONED"


@pytest.mark.process
def test_the_command_serves_on_stdio_and_ends_with_its_client(registry, tmp_path):
    command, *arguments = map(str, cli_command("serve", "--mcp", "--device", "cpu", "--root", registry.root))

    async def drive() -> None:
        async with Client(StdioServerParameters(command=command, args=arguments, cwd=tmp_path)) as client:
            assert (await ask(client, "check", kernel(NO_EPS)))["mistake"] == "the output equals RMSNorm without eps"
            task = await start_hanging(client)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            assert (await ask(client, "check", kernel(RIGHT)))["status"] == "PASSED"
            await start_hanging(client)  # and the client goes

    before = {child.pid for child in psutil.Process().children(recursive=True)}
    asyncio.run(drive())
    assert {child.pid for child in psutil.Process().children(recursive=True)} <= before


def test_the_command_says_what_it_lacks(fib, monkeypatch):
    assert "say what to speak: --mcp" in fib("serve").refusal
    with listen(0) as taken:
        port = str(taken.getsockname()[1])
        taken.listen()
        assert f"--port {port}: " in fib("serve", "--mcp", "--http", "--port", port).refusal
    for name in [name for name in sys.modules if name.startswith(("fib_rmsnorm.serving.", "mcp"))]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "mcp", None)
    monkeypatch.setitem(sys.modules, "mcp.server", None)
    assert fib("serve", "--mcp").refusal == "serve --mcp needs its SDK; run: pip install 'mcp>=2.3,<3'"
