from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fib_rmsnorm.evaluation.judging.output_comparison import OutputPair, compare, tolerance

INFINITY, NAN = float("inf"), float("nan")
FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
shapes = st.tuples(st.integers(0, 5), st.integers(0, 7))


@st.composite
def tensors(draw, dtypes=FLOATS):
    """A tensor of arbitrary bits, including subnormals, infinities and NaN."""
    dtype, shape = draw(st.sampled_from(dtypes)), draw(shapes)
    count = shape[0] * shape[1] * dtype.itemsize
    raw = draw(st.binary(min_size=count, max_size=count))
    return torch.frombuffer(bytearray(raw or b"\0"), dtype=torch.uint8)[:count].view(dtype).view(shape)


def one(value: float, dtype=torch.float16) -> torch.Tensor:
    return torch.tensor([[value]], dtype=dtype)


@given(tensors())
@settings(deadline=None)
def test_everything_equals_itself(tensor):
    found = compare(OutputPair(tensor.clone(), tensor))
    assert found.mismatched == 0
    assert found.max_absolute_error == 0
    assert found.max_relative_error == 0
    assert found.elements == tensor.numel()


@given(tensors(), st.data())
@settings(deadline=None)
def test_a_nan_or_infinity_matches_only_the_same(expected, data):
    if expected.numel() == 0:
        return
    index = data.draw(st.integers(0, expected.numel() - 1))
    value = data.draw(st.sampled_from([NAN, INFINITY, -INFINITY]))
    actual = expected.clone()
    actual.view(-1)[index] = value
    before = expected.view(-1)[index].item()
    is_like = math.isnan(before) if math.isnan(value) else before == value
    assert compare(OutputPair(actual, expected)).mismatched == (0 if is_like else 1)
    assert compare(OutputPair(expected, actual)).mismatched == (0 if is_like else 1)


@given(
    st.integers(0, 40).flatmap(
        lambda n: st.tuples(st.just(n), st.lists(st.integers(0, max(0, n - 1)), unique=True, max_size=n))
    )
)
@settings(deadline=None)
def test_counts_exactly_the_wrong_elements(case):
    elements, wrong = case
    expected = torch.ones(elements, 1, dtype=torch.float16)
    actual = expected.clone()
    actual[wrong] = 2
    found = compare(OutputPair(actual, expected))
    assert found.mismatched == len(wrong)
    assert found.max_absolute_error == (1 if wrong else 0)
    assert found.max_relative_error == pytest.approx(1 if wrong else 0)


@given(st.integers(0x0400, 0x7BFF - 2), st.sampled_from([-1, 1]))
@settings(deadline=None, max_examples=300)
def test_one_ulp_of_float16_passes_and_beyond_the_bound_fails(bits, sign):
    """For all normal float16 numbers, one step is right, and two are wrong if they exceed the bound."""
    expected, near, far = (torch.tensor([[bits + step]], dtype=torch.int16).view(torch.float16) for step in range(3))
    expected, near, far = sign * expected, sign * near, sign * far
    rtol, atol = tolerance(torch.float16, None, None)
    assert compare(OutputPair(near, expected)).mismatched == 0
    error = abs(far.item() - expected.item())
    assert compare(OutputPair(far, expected)).mismatched == (error > rtol * abs(expected.item()) + atol)


@pytest.mark.parametrize(
    ("dtype", "at_one", "at_zero"),
    [(torch.float16, 1, 4), (torch.bfloat16, 1, 4), (torch.float32, 83, 4), (torch.float64, 4503, 0)],
)
def test_so_many_steps_of_a_dtype_pass_and_no_more(dtype, at_one, at_zero):
    bits = {2: torch.int16, 4: torch.int32, 8: torch.int64}[dtype.itemsize]
    for value, most in ((1.0, at_one), (0.0, at_zero)):
        right = one(value, dtype)
        found = [compare(OutputPair((right.view(bits) + steps).view(dtype), right)) for steps in (most, most + 1)]
        assert [each.mismatched for each in found] == [0, 1], value


def test_a_flipped_sign_near_zero_fails():
    assert compare(OutputPair(one(-1e-5), one(1e-5))).mismatched == 1
    assert compare(OutputPair(one(0.0), one(-0.0))).mismatched == 0


def test_subnormal_outputs_flushed_to_zero_fail():
    assert compare(OutputPair(one(0.0), one(2.0**-15))).mismatched == 1


def test_given_tolerances_replace_the_dtypes_own_and_are_reported():
    expected, actual = one(1.0), one(1.05)
    assert compare(OutputPair(actual, expected)).mismatched == 1
    loose = compare(OutputPair(actual, expected), rtol=0.1)
    assert (loose.mismatched, loose.rtol, loose.atol) == (0, 0.1, tolerance(torch.float16, None, None)[1])
    assert compare(OutputPair(actual, expected), rtol=0, atol=0.06).mismatched == 0
    assert compare(OutputPair(actual, expected), rtol=0, atol=0).mismatched == 1


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("tolerance", [1e30, 3.4e38, 1e300, INFINITY, NAN])
@pytest.mark.parametrize("name", ["rtol", "atol"])
def test_no_tolerance_lets_a_nan_or_infinity_pass(dtype, name, tolerance):
    finite = torch.tensor([[0.0, 1.0, -torch.finfo(dtype).max]], dtype=dtype)
    for value in (NAN, INFINITY, -INFINITY):
        other = torch.full_like(finite, value)
        assert compare(OutputPair(other, finite), **{name: tolerance}).mismatched == 3
        assert compare(OutputPair(finite, other), **{name: tolerance}).mismatched == 3
        assert compare(OutputPair(other, other.clone()), **{name: tolerance}).mismatched == 0
    assert compare(OutputPair(one(NAN, dtype), one(INFINITY, dtype)), **{name: tolerance}).mismatched == 1


def test_names_the_worst_element_and_the_kinds_of_its_rows():
    expected = torch.ones(6, 4, dtype=torch.float16)
    actual = expected.clone()
    actual[1, 2], actual[4, 3] = 1.5, 3.0
    found = compare(OutputPair(actual, expected), row_kinds=("plain", "zero", "huge"))
    assert found.worst == "[4, 3]: got 3, expected 1"
    assert found.failing_kinds == ["zero"]


def test_float64_is_compared_in_float64():
    expected = one(1.0, torch.float64)
    assert compare(OutputPair(expected * (1 + 1e-9), expected)).mismatched == 1
    assert compare(OutputPair(expected * (1 + 1e-13), expected)).mismatched == 0


@pytest.mark.parametrize(("dtype", "largest"), [(torch.int32, 2**31 - 1), (torch.int64, 2**62 + 1)])
def test_large_integers_are_compared_exactly(dtype, largest):
    expected = torch.tensor([2**24 + 1, largest], dtype=dtype)
    assert compare(OutputPair(expected - 1, expected)).mismatched == 2
    assert compare(OutputPair(expected.clone(), expected)).mismatched == 0


def test_booleans_and_scalars():
    assert compare(OutputPair(torch.tensor([True, False]), torch.tensor([True, True]))).mismatched == 1
    assert compare(OutputPair(torch.tensor(1.0), torch.tensor(1.0))).mismatched == 0
    assert compare(OutputPair(torch.tensor(1.0), torch.tensor(2.0))).mismatched == 1
