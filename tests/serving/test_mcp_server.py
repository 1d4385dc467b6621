"""Agents drive the server by the SDK's own client, on stdio and on loopback, where it lets in who has the token."""

import asyncio
import json
import os
import subprocess
import sys
from typing import Any

import psutil
import pytest

from support.command_line import cli_command
from support.paths import REPOSITORY, TESTS, write
from support.registries import NO_EPS, RIGHT

pytest.importorskip("mcp")

import httpx2
from mcp import Client, StdioServerParameters

from fib_rmsnorm.serving.mcp_server import make_server
from fib_rmsnorm.serving.requests import Requests
from fib_rmsnorm.serving.transports import listen
from support.mcp_clients import TOKEN, ask, connect, kernel, on_loopback, refused, start_hanging


@pytest.fixture
def serve_mcp(serve, rival_registry, monkeypatch, tmp_path):
    """Start a service and its server; both are returned."""
    monkeypatch.chdir(tmp_path)

    def start(**options):
        service = serve(**options)
        return make_server(Requests(service)), service

    return start


def test_an_agent_gets_the_mistake_or_the_speed(serve_mcp):
    steps: list[tuple[float, float | None]] = []

    async def note(done: float, total: float | None, message: str | None) -> None:
        steps.append((done, total))

    async def drive() -> None:
        async with Client(serve_mcp()[0]) as client:
            tools = {tool.name: tool for tool in (await client.list_tools()).tools}
            assert client.server_info.version
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
            misread = RIGHT.replace("x.float()", "x.as_strided(x.shape, (x.shape[1], 1)).float()")
            strided = await ask(client, "check", kernel(misread, strided=True))
            assert strided["mistake"] == "the rows of x are read as if contiguous"
            right = await ask(client, "measure", kernel(RIGHT), progress_callback=note)
            assert right["status"] == "PASSED" and right["speedup"] > 0 and right["rivals"]
            assert steps[-1] == (2, 2) and steps == sorted(steps)
            known: Any = await client.read_resource(f"fib-rmsnorm://results/{right['id']}")
            assert json.loads(known.contents[0].text) == right

    asyncio.run(drive())


def test_what_is_named_wrong_is_reported_in_a_line(serve_mcp, tmp_path):
    (tmp_path / "mine.py").write_text(RIGHT)
    outside = write(tmp_path.parent / "outside.py", RIGHT)
    (tmp_path / "link.py").symlink_to(outside)
    bad = [
        ("check", {}, "give either `source`"),
        ("check", {"source": RIGHT, "path": "mine.py"}, "give either `source`"),
        ("check", {"source": RIGHT}, "needs its `language`"),
        ("check", kernel(RIGHT, language="fortran"), "unknown language 'fortran'"),
        ("check", kernel(RIGHT, definition="nonesuch"), "no Definition 'nonesuch'"),
        ("check", kernel(RIGHT, call="nonesuch"), "no function 'nonesuch'"),
        ("check", kernel(RIGHT, batch_sizes=[-1]), "batch"),
        ("check", kernel(RIGHT, batch_sizes=["many"]), "batch_sizes"),
        ("check", {"path": "gone.py"}, "no such file"),
        ("check", {"path": "a\0b.py"}, "is not a path"),
        *(
            ("check", {"path": f"{path}"}, "a client may name files in")
            for path in (outside, "link.py", "../outside.py")
        ),
        ("new", {"language": "fortran"}, "unknown language"),
        ("best", {}, "no Traces"),
        ("explain", kernel(RIGHT), "has no code of a GPU to explain"),
        ("compare", {"old": "nonesuch", "new": "mine.py"}, "neither a Solution"),
        ("compare", {"old": "mine.py", "new": str(outside)}, "a client may name files in"),
    ]

    async def drive() -> None:
        async with Client(serve_mcp()[0]) as client:
            for tool, arguments, said in bad:
                assert said in await refused(client, tool, arguments), arguments
            with pytest.raises(Exception, match="no request 'nonesuch'"):
                await client.read_resource("fib-rmsnorm://results/nonesuch")
            assert (await ask(client, "check", {"path": "mine.py", "batch_sizes": [2]}))["status"] == "PASSED"

    asyncio.run(drive())


def test_an_agent_starts_from_a_kernel_and_reads_what_it_must_do(serve_mcp):
    async def drive() -> None:
        async with Client(serve_mcp()[0]) as client:
            new = await ask(client, "new", {"language": "python"})
            assert new["kind"] == "reference" and new["source"].startswith("# definition: rmsnorm_d128\n")
            assert (await ask(client, "check", kernel(new["source"])))["status"] == "PASSED"
            for name, said in (
                ("definitions", "rmsnorm_d128"),
                ("definitions/rmsnorm_d128", '"reference"'),
                ("rules", "hard ones"),
                ("legend", "speedup: "),
            ):
                page: Any = await client.read_resource(f"fib-rmsnorm://{name}")
                assert said in page.contents[0].text

    asyncio.run(drive())


@pytest.mark.process
def test_two_kernels_are_timed_in_turn(serve_mcp, tmp_path):
    for name in ("old.py", "new.py"):
        (tmp_path / name).write_text(RIGHT)

    async def drive() -> None:
        async with Client(serve_mcp()[0]) as client:
            sides = {"old": "old.py", "new": "new.py", "batch_sizes": [2], "rounds": 1}
            (found,) = (await ask(client, "compare", sides))["comparison"]["comparisons"]
            assert found["axes"] == {"batch": 2} and found["verdict"] in ("faster", "slower", "tie")

    asyncio.run(drive())


@pytest.mark.process
def test_the_command_serves_on_stdio_and_ends_with_its_client(rival_registry, tmp_path):
    command, *arguments = map(str, cli_command("serve", "--mcp", "--device", "cpu", "--root", rival_registry.root))

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


def test_nobody_is_let_in_without_the_token(serve_mcp):
    with on_loopback(serve_mcp()[0]) as url:
        for headers in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": TOKEN}):
            answer = httpx2.post(url, json={}, headers=headers)
            assert answer.status_code == 401 and "Authorization: Bearer" in answer.text
        other = {"Authorization": f"Bearer {TOKEN}", "Host": "evil.example"}
        assert httpx2.post(url, json={}, headers=other).status_code == 421


def test_a_client_that_asks_too_much_keeps_no_other_waiting(serve_mcp):
    async def drive(url: str) -> None:
        async with connect(url, "greedy") as greedy, connect(url, "other") as other:
            hangs = await start_hanging(greedy)
            both = [asyncio.create_task(greedy.call_tool("check", kernel(RIGHT))) for _ in range(2)]
            (full,), (waits,) = await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
            assert full.result().is_error and "wait already" in full.result().content[0].text
            asked = asyncio.create_task(ask(other, "check", kernel(NO_EPS)))
            hangs.cancel()
            assert (await asked)["status"] == "INCORRECT_NUMERICAL"
            assert (await waits).structured_content["status"] == "PASSED"

    with on_loopback(serve_mcp(most_queued=1)[0]) as url:
        asyncio.run(drive(url))


VANISHES = """\
import asyncio, sys
from support import mcp_clients as its

async def drive():
    async with its.connect(sys.argv[1], "gone") as client:
        await its.start_hanging(client)
        print("runs", flush=True)
        await asyncio.sleep(600)

asyncio.run(drive())
"""


def test_the_request_of_a_client_that_vanishes_ends(serve_mcp):
    async def drive(url: str) -> None:
        async with connect(url, "other") as other:
            assert (await ask(other, "check", kernel(RIGHT)))["status"] == "PASSED"

    server, service = serve_mcp()
    with on_loopback(server) as url:
        command = [sys.executable, "-c", VANISHES, url]
        tests = os.pathsep.join([str(TESTS), str(REPOSITORY)])
        with subprocess.Popen(command, stdout=subprocess.PIPE, env={**os.environ, "PYTHONPATH": tests}) as gone:
            assert gone.stdout.readline() == b"runs\n"
            (hanging,) = service._jobs.values()
            gone.kill()
        asyncio.run(drive(url))
    assert hanging.version.status == "ABANDONED"


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
