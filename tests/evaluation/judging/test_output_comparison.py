import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fib_rmsnorm.evaluation.judging import output_comparison
from fib_rmsnorm.evaluation.judging.judge import describe_unwritten
from fib_rmsnorm.evaluation.judging.judge_messages import Total
from fib_rmsnorm.evaluation.judging.output_comparison import (
    OutputPair,
    compare,
    count_roundings,
    measure_bias,
    measure_ulp,
    tolerance,
)
from fib_rmsnorm.operators.norms.float64_rows import float32_statistic_error, round_once

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


@given(tensors(), st.data())
def test_everything_equals_itself_and_a_nan_or_infinity_only_the_same(expected, data):
    found = compare(OutputPair(expected.clone(), expected))
    assert (found.mismatched, found.max_absolute_error, found.max_relative_error) == (0, 0, 0)
    assert found.elements == expected.numel()
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


@pytest.mark.parametrize(
    ("actual", "expected", "options", "mismatched"),
    [
        (one(-1e-5), one(1e-5), {}, 1),
        (one(0.0), one(-0.0), {}, 0),
        (one(1.05), one(1.0), {}, 1),  # given tolerances replace the dtype's own
        (one(1.05), one(1.0), {"rtol": 0.1}, 0),
        (one(1.05), one(1.0), {"rtol": 0, "atol": 0.06}, 0),
        (one(1.05), one(1.0), {"rtol": 0, "atol": 0}, 1),
        *(
            (
                torch.tensor([2**24, largest - less], dtype=dtype),
                torch.tensor([2**24 + less, largest], dtype=dtype),
                {},
                2 * less,
            )
            for dtype, largest in ((torch.int32, 2**31 - 1), (torch.int64, 2**62 + 1))
            for less in (0, 1)
        ),
        (torch.tensor([True, False]), torch.tensor([True, True]), {}, 1),
        (torch.tensor(1.0), torch.tensor(1.0), {}, 0),
        (torch.tensor(1.0), torch.tensor(2.0), {}, 1),
    ],
)
def test_an_element_is_wrong_beyond_the_tolerances_which_are_reported(actual, expected, options, mismatched):
    found = compare(OutputPair(actual, expected), **options)
    given = [options.get(name) for name in ("rtol", "atol")]
    assert (found.mismatched, found.rtol, found.atol) == (mismatched, *tolerance(expected.dtype, *given))


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


def test_counts_the_wrong_elements_and_names_the_worst_and_the_kinds_of_its_rows():
    expected = torch.ones(6, 4, dtype=torch.float16)
    actual = expected.clone()
    actual[1, 2], actual[4, 3] = 1.5, 3.0
    found = compare(OutputPair(actual, expected), row_kinds=("plain", "zero", "huge"))
    assert (found.mismatched, found.max_absolute_error) == (2, 2)
    assert found.max_relative_error == pytest.approx(2)
    assert found.worst == "[4, 3]: got 3, expected 1"
    assert found.failing_kinds == ["zero"]


FLOAT8 = {torch.float8_e4m3fn: 0x7E, torch.float8_e5m2: 0x7B}
"""The bits of the largest number of each format."""


@pytest.mark.parametrize("dtype", FLOAT8)
def test_the_numbers_of_float8_are_one_step_apart_which_is_within_its_tolerance(dtype):
    positive = torch.arange(FLOAT8[dtype] + 1, dtype=torch.uint8).view(dtype)
    near = OutputPair(positive[1:], positive[:-1])
    found = measure_ulp(near)
    assert (found.maximum, found.mean) == (1, 1.0) and compare(near).mismatched == 0
    assert compare(OutputPair(positive[2:], positive[:-2])).mismatched >= 0.6 * positive.numel()
    mirrored = measure_ulp(OutputPair((positive.float() * -1).to(dtype), positive))
    assert mirrored.maximum == 2 * FLOAT8[dtype]
    nan, other = (torch.tensor([torch.nan, value]).to(dtype) for value in (torch.nan, 1.0))
    histogram = {"0": 1, "1": 0, "2": 0, "3-4": 0, "5-8": 0, "9-16": 0, "17+": 1}
    assert measure_ulp(OutputPair(nan, other)).histogram == histogram


@pytest.mark.parametrize(("dtype", "said"), [(torch.float8_e5m2, "contents, or are NaN"), (torch.float16, "contents")])
def test_what_was_never_written_may_be_a_computed_nan_in_8_bits_alone(dtype, said):
    poison = torch.full((4 * dtype.itemsize,), 255, dtype=torch.uint8).view(dtype)
    found = describe_unwritten({"y": poison}, {"y": torch.zeros(4, dtype=dtype)})
    assert found == f"4 elements were never written, or were computed from the buffer's old {said}; the first is at [0]"


DTYPES = (torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.float8_e4m3fn, torch.int32, torch.bool)


def make_pair(rows: int, columns: int, dtype: torch.dtype, seed: int, device: str = "cpu") -> OutputPair:
    generator = torch.Generator().manual_seed(seed)
    size = (rows, columns * dtype.itemsize)
    raw = torch.randint(0, 2 if dtype is torch.bool else 256, size, dtype=torch.uint8, generator=generator)
    changed = raw.clone()
    changed[torch.rand(size, generator=generator) < 0.2] ^= 1
    bound = torch.rand(rows, columns, generator=generator)
    return OutputPair(changed.view(dtype).to(device), raw.view(dtype).to(device), bound.to(device))


@given(st.integers(0, 9), st.integers(1, 9), st.sampled_from(DTYPES), st.integers(0, 99), st.sampled_from([1, 7, 1024]))
def test_finds_the_same_whatever_the_blocks(rows, columns, dtype, seed, block):
    pair, whole = make_pair(rows, columns, dtype, seed), compare(make_pair(rows, columns, dtype, seed))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(output_comparison, "_BLOCK", block)
        assert str(compare(pair)) == str(compare(pair)) == str(whole)


@pytest.mark.gpu
@pytest.mark.parametrize("few", [1 << 16, 10])
@pytest.mark.parametrize("dtype", DTYPES)
def test_finds_the_same_on_a_gpu(monkeypatch, dtype, few):
    monkeypatch.setattr(output_comparison, "_FEW", few)
    pair = make_pair(8, 256, dtype, 1, "cuda")
    found, right = compare(pair), compare(make_pair(8, 256, dtype, 1))
    assert (found.mismatched, found.wrong_rows, found.worst) == (right.mismatched, right.wrong_rows, right.worst)
    assert [block.places.device.type for block in pair.list_differing()] == ["cpu" if few > 10 else "cuda"]


HIDDEN, ROWS = 4096, 32
COMMON_ERROR = float32_statistic_error(HIDDEN)
ROUNDED = (torch.float16, torch.bfloat16)


def make_rows(seed: int = 0) -> torch.Tensor:
    return torch.randn(ROWS, HIDDEN, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("dtype", ROUNDED)
@pytest.mark.parametrize("error", [4.5e-4, -4.5e-4, 1.2e-4, -1.2e-4])
@pytest.mark.parametrize("direction", [torch.Tensor.clone, torch.abs], ids=["outward", "upward"])
def test_finds_an_error_of_all_elements_within_their_tolerance(dtype, error, direction):
    exact = make_rows()
    right, wrong = round_once(exact, dtype), round_once(exact + error * direction(exact), dtype)
    assert compare(OutputPair(wrong, right)).mismatched < 0.02 * right.numel()
    bias = measure_bias(OutputPair(wrong, right), 0.0, COMMON_ERROR)
    assert bias.is_wrong and bias.row is None and bias.value == pytest.approx(error, rel=0.2)


@pytest.mark.parametrize("dtype", ROUNDED)
@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def test_finds_an_error_of_a_single_row(dtype, device):
    """Each row has an error of its own, of either sign, as where its statistic is rounded."""
    exact = make_rows().to(device)
    wrong = exact.clone()
    wrong[7] *= 1 - 1.5e-4
    wrong[8] *= 1 + 1.2e-4
    bias = measure_bias(OutputPair(round_once(wrong, dtype), round_once(exact, dtype)), 0.0, COMMON_ERROR)
    assert bias.is_wrong and bias.row == [7] and bias.value == pytest.approx(-1.5e-4, rel=0.2)


@pytest.mark.parametrize("dtype", ROUNDED)
@pytest.mark.parametrize("error", [2.0**-22, -(2.0**-22), 0.9 * COMMON_ERROR])
@pytest.mark.parametrize("seed", range(5))
def test_allows_what_float32_shares(dtype, error, seed):
    """2 ulp are what an approximate reciprocal root of a GPU may be off by; the last is a sum in a plain loop."""
    exact = make_rows(seed)
    for rows in (1, ROWS):
        right, found = round_once(exact[:rows], dtype), round_once(exact[:rows] * (1 + error), dtype)
        assert not measure_bias(OutputPair(found, right), 0.0, COMMON_ERROR).is_wrong
        assert not count(found, right).is_wrong


def count(found, right, bound=None, alike=1.0):
    pair = OutputPair(found, right, bound)
    return count_roundings(pair, compare(pair).roundings.value, COMMON_ERROR, alike)


@pytest.mark.parametrize("dtype", ROUNDED)
@pytest.mark.parametrize("rows", [1, ROWS])
def test_counts_what_is_rounded_once_more(dtype, rows):
    exact, factor = make_rows()[:rows], make_rows(1)[:1]
    right, twice = round_once(exact * factor, dtype), round_once(round_once(exact, dtype).double() * factor, dtype)
    found = count(twice, right)
    assert found.is_wrong and 0.2 < found.value / right.numel() < 0.4


@pytest.mark.parametrize("dtype", ROUNDED)
@pytest.mark.parametrize("seed", range(20))
def test_numbers_of_the_same_digits_round_alike(dtype, seed):
    """Without a weight, an error of the row's statistic may change all elements of some digits of x."""
    x = round_once(make_rows(seed)[:1], dtype).double()
    right, found = (round_once(x * 0.7123 * factor, dtype) for factor in (1, 1 + 0.9 * COMMON_ERROR))
    assert not count(found, right, alike=2 * HIDDEN * torch.finfo(dtype).eps).is_wrong


@pytest.mark.parametrize("dtype", ROUNDED)
def test_what_cancels_may_be_rounded_otherwise(dtype):
    exact, error = make_rows() * 2.0**-20, make_rows(1) * 2.0**-24
    right, found = round_once(exact, dtype), round_once(exact + error, dtype)
    assert count(found, right).is_wrong
    assert not count(found, right, error.abs()).is_wrong
    assert count(found, right, error.abs() * 2.0**-10).is_wrong


def test_zeros_and_nans_are_not_rounded_otherwise():
    right = torch.tensor([[0.0, -0.0, float("nan"), float("inf")]] * 99, dtype=torch.float16)
    found = torch.tensor([[-0.0, 0.0, -float("nan"), float("inf")]] * 99, dtype=torch.float16)
    assert count(found, right).value == 0


@pytest.mark.parametrize("dtype", ROUNDED)
def test_chance_has_no_direction(dtype):
    """One in four elements is off by a unit, up or down."""
    right = round_once(make_rows(), dtype)
    step = torch.randint(-1, 2, right.shape, generator=torch.Generator().manual_seed(1), dtype=torch.int16)
    found = (right.view(torch.int16) + step).view(dtype)
    assert not measure_bias(OutputPair(found, right), 0.0, COMMON_ERROR).is_wrong


def test_a_bound_and_values_that_are_not_finite():
    right = torch.tensor([1.0, -2.0, float("inf"), float("nan"), 0.0], dtype=torch.float32)
    wrong = torch.tensor([1.5, -2.5, float("inf"), float("nan"), 0.0], dtype=torch.float32)
    bias = measure_bias(OutputPair(wrong, right, torch.tensor([0.5, 0.5, 0.0, 0.0, 0.0])), 0.25, 0.0)
    assert (bias.value, bias.allowed) == pytest.approx((1 / 3, (1.0 + 5 * 0.25 + 7 * 0.5**0.5) / 3))
    assert measure_bias(OutputPair(right * 0, right * 0), 0.0, 0.0) == Total()
