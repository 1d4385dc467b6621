from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fib_rmsnorm.evaluation.tensors.fresh_inputs import FreshInputs
from fib_rmsnorm.evaluation.tensors.output_buffers import as_bytes, same_bits
from fib_rmsnorm.operators import RmsNorm, find_operator
from fib_rmsnorm.registry import generate_workloads
from fib_rmsnorm.schema import Definition, Workload


def make(hidden=4096, batch=3, dtype="float16", device="cpu") -> tuple[Definition, Workload, FreshInputs]:
    definition = RmsNorm().define(hidden, dtype)
    (workload,) = generate_workloads(definition, [batch])
    return definition, workload, FreshInputs(definition, workload, device, None)


def tensors(inputs):
    return {name: value.clone() for name, value in inputs.items() if isinstance(value, torch.Tensor)}


@pytest.mark.parametrize("hidden", [128, 4096, 32768])
def test_not_even_the_mean_square_of_an_earlier_call_is_right(hidden):
    _, _, inputs = make(hidden, 50)
    one, other = (inputs.set(number)["x"].float().pow(2).mean(dim=1).rsqrt() for number in (1, 2))
    assert ((one / other - 1).abs() > 1e-3).float().mean() > 0.95


def test_inputs_made_from_others_still_fit_them_when_asked_again():
    """As on a GPU, where each trial asks before it moves the inputs."""
    definition = find_operator("layernorm_backward").define(128)
    (workload,) = generate_workloads(definition, [3])
    inputs = FreshInputs(definition, workload, "cpu", None)
    inputs.set(1)
    assert [inputs.changed(), inputs.changed()] == [[], []]
    inputs.set(2)["rstd"][1] += 1
    assert inputs.changed() == ["rstd"]


@pytest.mark.parametrize("dtype", ["int32", "bool", "float8_e4m3fn", "bfloat16", "float64"])
def test_other_dtypes(dtype):
    definition = RmsNorm().define(128)
    x = definition.inputs["x"].model_copy(update={"dtype": SimpleNamespace(value=dtype)})
    definition = definition.model_copy(update={"inputs": {**definition.inputs, "x": x}})
    (workload,) = generate_workloads(definition, [4])
    inputs = FreshInputs(definition, workload, "cpu", None)
    for number in range(8):
        inputs.set(number)
    assert inputs.changed() == []


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_setting_inputs_copies_no_whole_tensor(dtype):
    _, _, inputs = make(batch=64, dtype=dtype)
    x = inputs.set(1)["x"]
    with torch.profiler.profile(profile_memory=True) as profile:
        inputs.set(2)
    assert all(abs(event.self_cpu_memory_usage) < x.nbytes // 2 for event in profile.events())


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda:0", marks=pytest.mark.gpu)])
@settings(max_examples=30, deadline=None)
@given(st.lists(st.booleans(), min_size=1, max_size=80))
def test_the_inputs_of_a_number_do_not_depend_on_earlier_numbers(device, further):
    """The next number takes one step. A process that skips numbers, like another process, starts anew."""
    walker, number = make(128, device=device)[2], None
    for once in further:
        number = walker.number_after(number)
        if not once:
            number = walker.number_after(number)
        reached = tensors(walker.set(number))
    afresh = tensors(make(128, device=device)[2].set(number))
    assert reached.keys() == afresh.keys() and all(torch.equal(reached[name], afresh[name]) for name in afresh)
    assert walker.changed() == []


def test_in_every_row_the_next_call_differs_at_two_places():
    _, _, inputs = make(128)
    number = inputs.number_after(None)
    first = inputs.set(number)
    place, before = (first["x"].data_ptr(), first["eps"]), tensors(first)
    for _ in range(100):
        earlier, number = number, inputs.number_after(number)
        current = inputs.set(number)
        assert (current["x"].data_ptr(), current["eps"]) == place
        now = tensors(current)
        for name, value in now.items():
            places = (value != before[name]).sum(dim=-1)
            # A new secret may begin in a row with the place where the one before it ended, but not with the value.
            assert (places == 2).all() or (number != earlier + 1 and ((places == 1) | (places == 2)).all())
        before = now


def test_a_change_by_a_call_is_found_after_the_next_step():
    _, _, inputs = make(128)
    number = inputs.number_after(None)
    inputs.set(number)
    assert inputs.changed() == []
    values = inputs.set(number)
    values["weight"][5:8] += 1  # three, because the two numbers restore one element each, which may be among them
    inputs.set(inputs.number_after(number))
    assert inputs.changed() == ["weight"]


STRIDED = {
    "a column of one row": lambda: torch.randn(1, 8)[:, 3],
    "a column": lambda: torch.randn(5, 8)[:, 3],
    "transposed": lambda: torch.randn(5, 8).T,
    "expanded": lambda: torch.randn(1).expand(4),
    "a part": lambda: torch.randn(40)[7:19],
    "nothing": lambda: torch.randn(0, 3),
    "a number": lambda: torch.tensor(2.5),
}


@pytest.mark.parametrize("make", STRIDED.values(), ids=STRIDED.keys())
def test_the_bytes_are_those_of_a_copy(make):
    tensor = make()
    copy = torch.tensor(tensor.tolist()).reshape(tensor.shape)
    assert as_bytes(tensor).tolist() == as_bytes(copy).tolist()
    assert same_bits(tensor, copy)
    assert not tensor.numel() or not same_bits(tensor, copy + 1)


def test_of_a_contiguous_tensor_they_are_a_view():
    tensor = torch.ones(2, 3)
    as_bytes(tensor).zero_()
    assert not tensor.any()
