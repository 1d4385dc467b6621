from __future__ import annotations

import pytest
import torch

from fib_rmsnorm.errors import InputError
from fib_rmsnorm.operators import RmsNorm
from support.paths import REPOSITORY


def compute_exact(x, weight):
    found = RmsNorm().compute_exact({"x": x, "weight": weight, "eps": 1e-6}, {"out": x.dtype})
    return found["out"].values


def test_has_the_schema_asked_for():
    definition = RmsNorm().define(4096)
    assert definition.name == "rmsnorm_d4096"
    assert definition.op_type == "norm"
    assert (definition.axes["batch"].type, definition.axes["hidden"].value) == ("var", 4096)
    tensors = {**definition.inputs, **definition.outputs}
    assert {name: (spec.shape, spec.dtype.value) for name, spec in tensors.items()} == {
        "x": (["batch", "hidden"], "float16"),
        "weight": (["hidden"], "float16"),
        "eps": (None, "float32"),
        "out": (["batch", "hidden"], "float16"),
    }
    assert list(definition.inputs) == ["x", "weight", "eps"]
    assert definition.tags == ["stage:inference", "op:norm", "status:verified"]
    assert definition.constraints == ["hidden % 128 == 0"]
    assert all(part.description for part in [*definition.axes.values(), *tensors.values(), definition])


def test_what_is_committed_is_what_define_writes():
    committed = (REPOSITORY / "definitions/norm/rmsnorm_d4096.json").read_text()
    assert committed == RmsNorm().define(4096).model_dump_json(indent=2) + "\n"


@pytest.mark.parametrize("hidden", [0, -128, 100, 4097])
def test_a_hidden_size_that_breaks_the_constraint_is_refused(hidden):
    with pytest.raises(InputError, match="multiple of 128"):
        RmsNorm().define(hidden)
    with pytest.raises(InputError, match="unknown dtype 'int8'"):
        RmsNorm().define(128, "int8")


def test_the_exact_answer_of_many_blocks_is_that_of_each_row(monkeypatch):
    x, weight = torch.randn(10, 128, dtype=torch.float16), torch.randn(128, dtype=torch.float16)
    whole = compute_exact(x, weight)
    monkeypatch.setattr("fib_rmsnorm.operators.norms.float64_rows._BLOCK_ELEMENTS", 300)
    assert torch.equal(whole, compute_exact(x, weight))
