"""Choosing records by name."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from fib_rmsnorm.errors import InputError
from fib_rmsnorm.registry.selection import choose_peers

SOLUTIONS = [
    SimpleNamespace(name=name, definition=definition)
    for name, definition in (("a_quack_v1", "a"), ("a_torch_v1", "a"), ("b_quack_v1", "b"), ("c_torch_v1", "c"))
]


def test_a_glob_names_one_solution_of_each_definition_that_has_it():
    found = choose_peers(SOLUTIONS, ["a", "b", "c"], "*_quack_v1")
    assert {definition: peer.name for definition, peer in found.items()} == {"a": "a_quack_v1", "b": "b_quack_v1"}
    assert list(choose_peers(SOLUTIONS, ["b"], "*_quack_v1")) == ["b"]


@pytest.mark.parametrize(
    ("glob", "told"),
    [("a_*", "a has several: a_quack_v1, a_torch_v1; choose one"), ("liger", "no Solution of a, b, c matches")],
)
def test_several_and_none_are_refused(glob, told):
    with pytest.raises(InputError) as refused:
        choose_peers(SOLUTIONS, ["a", "b", "c"], glob)
    assert str(refused.value) == f"--against {glob}: {told}"
