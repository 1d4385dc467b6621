"""What is refused before a bench on a cluster: options, and nodes."""

from __future__ import annotations

import sys
import time
from dataclasses import replace
from importlib.util import find_spec

import pytest

from fib_rmsnorm.cluster.device_actor import describe_node, reason_to_refuse
from fib_rmsnorm.machine.devices import cpu_device
from support.registries import add_kernel

REFUSED = {
    "models without a cluster": (["--gpus", "H100"], "--gpus chooses devices of a Ray cluster: add --ray"),
    "a device of this machine": (["--ray", "--device", "cuda:1"], "with --ray: auto, cpu or cuda"),
    "a graph on a CPU": (["--device", "cpu", "--ray", "--context", "graph"], "--context graph needs a CUDA device"),
    "an address without a port": (["--ray", "somewhere"], "--ray somewhere: expected HOST:PORT"),
    "Ray's client": (["--ray", "ray://127.0.0.1:10001"], "--ray ray://127.0.0.1:10001: expected HOST:PORT"),
    "an address where nothing is": (["--ray", "127.0.0.1:1"], "--ray 127.0.0.1:1: no Ray cluster answers there"),
    "both --against and --resume": (["--ray", "--resume", "--against", "right_v1"], "give one of them"),
}


@pytest.mark.skipif(find_spec("ray") is None, reason="needs Ray")
@pytest.mark.parametrize("name", REFUSED)
def test_a_refused_option_is_one_line_and_exit_code_2(registry, fib, name):
    add_kernel(registry, "right_v1")
    arguments, said = REFUSED[name]
    found = fib("bench", "--root", registry.root, *arguments)
    assert found.code == 2
    assert said in found.err
    assert len(found.err.splitlines()) == 1
    assert registry.traces() == []


def test_a_missing_ray_is_named_with_the_command_that_installs_it(registry, fib, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    found = fib("bench", "--root", registry.root, "--ray")
    assert found.code == 2
    assert found.err == "fib-rmsnorm: --ray needs Ray; run: pip install 'ray>=2.40'\n"


HERE = describe_node(cpu_device())


def test_this_node_may_take_part():
    assert reason_to_refuse(replace(HERE, gaps=("no Landlock",)), require_sandbox=False) is None


@pytest.mark.parametrize(
    ("facts", "said"),
    [
        (replace(HERE, tool="0.1.0 (another)"), "it has fib-rmsnorm 0.1.0 (another), this machine "),
        (replace(HERE, clock=time.time() + 10_000), "s ahead of this machine's"),
        (replace(HERE, gaps=("no Landlock",)), "--require-sandbox: no Landlock"),
    ],
)
def test_a_node_is_refused(facts, said):
    assert said in reason_to_refuse(facts, require_sandbox=True)
