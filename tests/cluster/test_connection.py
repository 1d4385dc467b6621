"""What is refused before a bench on a cluster: a machine without Ray, and nodes."""

import sys
import time
from dataclasses import replace

import pytest

from fib_rmsnorm.cluster.device_actor import describe_node, reason_to_refuse
from fib_rmsnorm.machine.devices import cpu_device


def test_a_missing_ray_is_named_with_the_command_that_installs_it(registry, fib, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    said = "--ray needs Ray; run: pip install 'ray>=2.40'"
    assert fib("bench", "--root", registry.root, "--ray").refusal == said


HERE = describe_node(cpu_device())


@pytest.mark.parametrize(
    ("facts", "said"),
    [
        (replace(HERE, tool="0.1.0 (another)"), "it has fib-rmsnorm 0.1.0 (another), this machine "),
        (replace(HERE, clock=time.time() + 10_000), "s ahead of this machine's"),
        (replace(HERE, gaps=("no Landlock",)), "--require-sandbox: no Landlock"),
    ],
)
def test_a_node_is_refused_but_for_its_sandbox_only_where_that_is_required(facts, said):
    assert said in reason_to_refuse(facts, require_sandbox=True)
    assert (reason_to_refuse(facts, require_sandbox=False) is None) == ("Landlock" in said)
