from __future__ import annotations

import pytest

from fib_rmsnorm.errors import InputError
from fib_rmsnorm.operators import RmsNorm
from fib_rmsnorm.registry import bytes_moved, generate_workloads
from fib_rmsnorm.schema import AxisVar, Definition, ScalarInput, TensorSpec

DEFINITION = RmsNorm().define(4096)


def test_the_same_request_gives_the_same_workloads():
    assert generate_workloads(DEFINITION) == generate_workloads(DEFINITION)
    assert [w.axes for w in generate_workloads(DEFINITION, [8, 1, 8])] == [{"batch": 8}, {"batch": 1}]


def test_uuids_never_change():
    """They name the tensors of every trace ever recorded."""
    assert [w.uuid for w in generate_workloads(DEFINITION, [1, 8])] == [
        "3c8cd9a5-fc5f-5269-9fa1-17c3ebc365ef",
        "9c539cc4-6fc3-5bfc-aa40-6bdd2c9149d3",
    ]


def test_everything_that_differs_has_a_uuid_of_its_own():
    workloads = [
        *generate_workloads(DEFINITION),
        *generate_workloads(DEFINITION, eps=1e-5),
        *generate_workloads(RmsNorm().define(8192)),
        *generate_workloads(RmsNorm().define(4096, "bfloat16")),
    ]
    assert len({w.uuid for w in workloads}) == len(workloads) == 32


@pytest.mark.parametrize("eps", [0.0, 1e-6, 1e-2])
def test_eps_is_always_explicit(eps):
    for workload in generate_workloads(DEFINITION, eps=eps):
        assert workload.inputs["eps"] == ScalarInput(value=eps)
        assert list(workload.inputs) == ["x", "weight", "eps"]


@pytest.mark.parametrize("batch", [0, -1])
def test_a_batch_that_is_not_positive_is_refused(batch):
    with pytest.raises(InputError, match=f"batch sizes must be positive, not {batch}"):
        generate_workloads(DEFINITION, [8, batch])


@pytest.mark.parametrize("eps", [-1e-6, float("nan"), float("inf"), 1e300, 1e-50])
def test_a_meaningless_eps_is_refused(eps):
    with pytest.raises(InputError, match="eps must be"):
        generate_workloads(DEFINITION, eps=eps)


def test_a_definition_with_other_axes_or_scalars_is_refused():
    two_axes = Definition.model_validate({**DEFINITION.model_dump(), "axes": {**DEFINITION.axes, "heads": AxisVar()}})
    with pytest.raises(InputError, match="for variable axes"):
        generate_workloads(two_axes)
    scale = TensorSpec(shape=None, dtype="float32")
    two_scalars = DEFINITION.model_copy(update={"inputs": {**DEFINITION.inputs, "scale": scale}})
    with pytest.raises(InputError, match="cannot generate a value for its scalar input 'scale'"):
        generate_workloads(two_scalars)


@pytest.mark.parametrize(("dtype", "size"), [("float16", 2), ("bfloat16", 2), ("float32", 4)])
def test_bytes_moved_counts_every_tensor_once(dtype, size):
    definition = RmsNorm().define(128, dtype)
    (workload,) = generate_workloads(definition, [3])
    assert bytes_moved(definition, workload) == size * (2 * 3 * 128 + 128)
