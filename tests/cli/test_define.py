"""`fib-rmsnorm define` as its user meets it."""

from __future__ import annotations

import pytest

from fib_rmsnorm.registry import generate_workloads
from support.full_registry import DEFINITION


def following(outcome) -> str:
    assert outcome.code == 0 and outcome.lines[-2] == "Next:"
    return outcome.lines[-1].strip()


def test_what_follows_is_what_the_definition_lacks(fib, full_registry):
    assert following(fib("define", "--hidden", "128")) == f"fib-rmsnorm bench --definitions {DEFINITION}"
    arguments = ("define", "layernorm", "--bias", "--hidden", "128")
    workloads = following(fib(*arguments))
    assert workloads == "fib-rmsnorm workload --definition layernorm_bias_d128"
    definition = full_registry.definition("layernorm_bias_d128")
    full_registry.write_workloads(definition, generate_workloads(definition, [8]))
    assert following(fib(*arguments)) == "fib-rmsnorm new triton kernel.py --definition layernorm_bias_d128"


@pytest.mark.parametrize("options", [(), ("--bias",)])
def test_what_follows_names_the_registry_that_was_named(fib, registry, options):
    outcome = fib("define", "layernorm", *options, "--hidden", "128", "--root", registry.root)
    assert following(outcome).endswith(f" --root {registry.root}")
