"""Choosing records by name."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from fib_rmsnorm.errors import InputError
from fib_rmsnorm.registry.selection import choose, choose_peers

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
    [
        ("a_*", "a has several: a_quack_v1, a_torch_v1; choose one"),
        (
            "liger",
            "no Solution of the chosen Definitions matches (available: a_quack_v1, a_torch_v1, b_quack_v1, c_torch_v1)",
        ),
    ],
)
def test_several_and_none_are_refused(glob, told):
    with pytest.raises(InputError) as refused:
        choose_peers(SOLUTIONS, ["a", "b", "c"], glob)
    assert str(refused.value) == f"--against {glob}: {told}"


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ("layernrm_cpp_v3", "similar: layernorm_cpp_v3, "),
        ("nope", "available: layernorm_cpp_v0, layernorm_cpp_v1, "),
    ],
)
def test_of_many_names_a_mistake_is_told_a_few(wrong, told):
    names = [f"layernorm_cpp_v{number}" for number in range(100)]
    with pytest.raises(InputError) as refused:
        choose("Solution", names, str, [wrong])
    said = str(refused.value)
    assert said.startswith(f"no Solution matches {wrong!r} ({told}") and said.endswith("; 100 in all)")
    assert len(said) < 400
