"""Float8 outputs: distances in units in the last place, the tolerance of each format, and poison."""

from __future__ import annotations

import pytest
import torch

from fib_rmsnorm.evaluation.judging.judge import describe_unwritten
from fib_rmsnorm.evaluation.judging.output_comparison import OutputPair, compare, measure_ulp

FLOAT8 = {torch.float8_e4m3fn: 0x7E, torch.float8_e5m2: 0x7B}
"""The bits of the largest number of each format."""


@pytest.mark.parametrize("dtype", FLOAT8)
def test_the_numbers_of_float8_are_one_step_apart(dtype):
    positive = torch.arange(FLOAT8[dtype] + 1, dtype=torch.uint8).view(dtype)
    found = measure_ulp(OutputPair(positive[1:], positive[:-1]))
    assert (found.maximum, found.mean) == (1, 1.0)
    mirrored = measure_ulp(OutputPair((positive.float() * -1).to(dtype), positive))
    assert mirrored.maximum == 2 * FLOAT8[dtype]


@pytest.mark.parametrize("dtype", FLOAT8)
def test_nan_is_far_from_a_number_and_equals_itself(dtype):
    nan = torch.tensor([torch.nan, torch.nan]).to(dtype)
    one = torch.tensor([torch.nan, 1.0]).to(dtype)
    assert measure_ulp(OutputPair(nan, one)).histogram == {
        "0": 1,
        "1": 0,
        "2": 0,
        "3-4": 0,
        "5-8": 0,
        "9-16": 0,
        "17+": 1,
    }


@pytest.mark.parametrize("dtype", FLOAT8)
def test_a_step_of_float8_is_within_its_tolerance_and_two_are_not(dtype):
    numbers = torch.arange(FLOAT8[dtype] + 1, dtype=torch.uint8).view(dtype)
    assert compare(OutputPair(numbers[1:], numbers[:-1])).mismatched == 0
    assert compare(OutputPair(numbers[2:], numbers[:-2])).mismatched >= 0.6 * numbers.numel()


@pytest.mark.parametrize(("dtype", "said"), [(torch.float8_e5m2, "contents, or are NaN"), (torch.float16, "contents")])
def test_what_was_never_written_may_be_a_computed_nan_in_8_bits_alone(dtype, said):
    poison = torch.full((4 * dtype.itemsize,), 255, dtype=torch.uint8).view(dtype)
    found = describe_unwritten([poison], [torch.zeros(4, dtype=dtype)])
    assert found == f"4 elements were never written, or were computed from the buffer's old {said}; the first is at [0]"
