"""Which nodes may take part, and why others may not."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest

from fib_rmsnorm.cluster.device_actor import describe_node, reason_to_refuse
from fib_rmsnorm.machine.devices import cpu_device

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
