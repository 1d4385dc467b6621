"""Many clients share a server on loopback, which lets in only who has the token."""

import asyncio
import os
import subprocess
import sys

import pytest

from support.paths import REPOSITORY, TESTS
from support.registries import NO_EPS, RIGHT

pytest.importorskip("mcp")

import httpx2

from support.mcp_clients import TOKEN, ask, connect, kernel, on_loopback, start_hanging


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
