"""Outputs pass from one process to another in a GPU's memory, and the one that takes them survives any offer."""

import pytest

from fib_rmsnorm.sandbox import Role
from fib_rmsnorm.sandbox.fork_server import ForkServer
from support.sandboxed import ask

pytestmark = pytest.mark.gpu

OFFERS = """
from dataclasses import asdict
from types import SimpleNamespace

import torch

from fib_rmsnorm.sandbox.channel import serve
from fib_rmsnorm.sandbox.output_transfer import offer

kept = []


def offer_numbers(message):
    first = message["first"]
    kept[:] = [torch.arange(first, first + count, device="cuda:0") for count in message["counts"]]
    return SimpleNamespace(memory=[asdict(one) for one in offer(kept)])


def overwrite(message):
    for tensor in kept:
        tensor.zero_()
    torch.cuda.synchronize()
    return SimpleNamespace()


def main(channel, _):
    serve(channel, {"offer": offer_numbers, "overwrite": overwrite})
"""
TAKES = """
from types import SimpleNamespace

import torch

from fib_rmsnorm.sandbox.channel import RefusalError, serve
from fib_rmsnorm.sandbox.output_transfer import DeviceMemoryError, take
from fib_rmsnorm.sandbox.asking import DeviceMemory

taken = []


def take_numbers(message):
    try:
        taken[:] = take([DeviceMemory(**one) for one in message["memory"]], "cuda:0")
    except DeviceMemoryError as error:
        raise RefusalError("RUNTIME_ERROR", str(error)) from None
    return SimpleNamespace()


def describe(message):
    found = [tensor.view(torch.int64) for tensor in taken]
    torch.zeros(1000, device="cuda:0").sum().item()  # the device still works
    return SimpleNamespace(found=[[int(t[0]), int(t[-1]), int(t.sum())] for t in found])


def main(channel, _):
    serve(channel, {"take": take_numbers, "describe": describe})
"""
COUNTS = [1000, 300_000, 4_000_000]
"""Torch keeps small tensors together in one allocation, and gives large ones an allocation of their own."""


class Pair:
    """A process that offers and one that takes."""

    def __init__(self, fork_server, roles):
        self.fork_server, self.roles = fork_server, roles
        self.offers, self.takes = (fork_server.spawn(role) for role in roles)

    def offer(self, first=0):
        return ask(self.offers, "offer", first=first, counts=COUNTS)["memory"]

    def take(self, memory):
        return ask(self.takes, "take", memory=memory)

    def holds(self, first=0):
        """Whether what was taken is what was offered."""
        expected = [[first, first + count - 1, sum(range(first, first + count))] for count in COUNTS]
        return ask(self.takes, "describe")["found"] == expected


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    folder = tmp_path_factory.mktemp("roles")
    (folder / "offers_memory.py").write_text(OFFERS)
    (folder / "takes_memory.py").write_text(TAKES)
    roles = [Role("offers_memory", runs_untrusted_code=True), Role("takes_memory", runs_untrusted_code=False)]
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(folder)
        with ForkServer(roles) as fork_server:
            yield Pair(fork_server, roles)


def test_what_was_taken_is_what_was_offered(pair):
    for first in (5, 10**6, 0):
        assert pair.take(pair.offer(first))["ok"]
        assert pair.holds(first)
    assert ask(pair.offers, "overwrite")["ok"]  # what the other process writes later changes nothing
    assert pair.holds()


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"handle": "00" * 64}, "CUDA error"),
        ({"handle": "ff" * 64}, "CUDA error"),
        ({"handle": "0123456789abcdef" * 8}, "CUDA error"),
        ({"nbytes": 1 << 40}, "were offered of"),
        ({"offset": 1 << 40}, "were offered of"),
    ],
)
def test_a_false_offer_is_refused_and_the_next_one_is_taken(pair, change, reason):
    answer = pair.take([{**one, **change} for one in pair.offer()])
    assert not answer["ok"] and reason in answer["message"]
    assert pair.take(pair.offer(7))["ok"]
    assert pair.holds(7)


def test_a_spoiled_handle_harms_only_the_process_that_opens_it(pair):
    """Each byte changed in turn: CUDA refuses some such handles, and ignores the change in others."""
    memory = pair.offer()
    for place in range(64):
        spoiled = bytearray.fromhex(memory[2]["handle"])
        spoiled[place] ^= 0x40
        pair.take([{**memory[2], "handle": spoiled.hex()}])
    pair.takes.kill()
    pair.takes = pair.fork_server.spawn(pair.roles[1])
    assert pair.take(memory)["ok"]
    assert pair.holds()
