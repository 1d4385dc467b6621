"""Every operator's Definitions: each is named for what differs, is recognised, and has a right reference."""

from __future__ import annotations

import pytest

from fib_rmsnorm.operators import define_by_name, find_operator, recognise_source
from support.mistakes import judge
from support.norms import NORMS


@pytest.mark.parametrize(("dtype", "suffix"), [("float16", ""), ("bf16", "_bf16"), ("fp32", "_fp32")])
@pytest.mark.parametrize("name", NORMS)
def test_it_is_named_and_recognised_and_its_reference_is_right(tmp_path, name, dtype, suffix):
    definition = find_operator(name).define(1152, dtype)
    assert definition.name == f"{name}_d1152{suffix}"
    assert ("stage:training" in definition.tags) == ("backward" in name)
    assert recognise_source(definition).operator == name
    assert define_by_name(definition.name) == definition
    assert judge(definition.reference, definition, tmp_path, 14) == {}


@pytest.mark.parametrize(("hidden", "dtype", "batch"), [(128, "float32", 1), (256, "bf16", 1), (16384, "float16", 7)])
@pytest.mark.parametrize("name", NORMS)
def test_its_reference_is_right_in_short_and_long_rows_and_in_one(tmp_path, name, hidden, dtype, batch):
    definition = find_operator(name).define(hidden, dtype)
    assert judge(definition.reference, definition, tmp_path, batch) == {}
