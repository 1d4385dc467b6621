"""The elements in which an output differs from the right one: all of them, found once where they are few."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fib_rmsnorm.evaluation.judging import output_comparison
from fib_rmsnorm.evaluation.judging.output_comparison import OutputPair
from fib_rmsnorm.evaluation.tensors.output_buffers import as_integers

DTYPES = (torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.float8_e4m3fn, torch.int32, torch.bool)


def make_pair(rows: int, columns: int, dtype: torch.dtype, seed: int, device: str = "cpu") -> OutputPair:
    generator = torch.Generator().manual_seed(seed)
    size = (rows, columns * dtype.itemsize)
    raw = torch.randint(0, 2 if dtype is torch.bool else 256, size, dtype=torch.uint8, generator=generator)
    changed = raw.clone()
    changed[torch.rand(size, generator=generator) < 0.2] ^= 1
    bound = torch.rand(rows, columns, generator=generator)
    return OutputPair(changed.view(dtype).to(device), raw.view(dtype).to(device), bound.to(device))


def list_all(pair: OutputPair) -> list[tuple]:
    return [
        (place, a, e, bound)
        for block in pair.list_differing()
        for place, a, e, bound in zip(
            block.places.tolist(),
            as_integers(block.actual).tolist(),
            as_integers(block.expected).tolist(),
            block.bound.tolist(),
            strict=True,
        )
    ]


def expect_all(pair: OutputPair) -> list[tuple]:
    tensors = [each.cpu().reshape(-1) for each in (as_integers(pair.actual), as_integers(pair.expected), pair.bound)]
    values = zip(*(each.tolist() for each in tensors), strict=True)
    return [(place, *each) for place, each in enumerate(values) if each[0] != each[1]]


@given(st.integers(0, 9), st.integers(1, 9), st.sampled_from(DTYPES), st.integers(0, 99), st.sampled_from([1, 7, 1024]))
@settings(deadline=None)
def test_finds_every_element_whatever_the_blocks(rows, columns, dtype, seed, block):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(output_comparison, "_BLOCK", block)
        pair = make_pair(rows, columns, dtype, seed)
        assert list_all(pair) == expect_all(pair) == list_all(pair)


@pytest.mark.parametrize(("few", "times"), [(1 << 16, 1), (10, 2)])
def test_looks_once_where_they_are_few(monkeypatch, few, times):
    monkeypatch.setattr(output_comparison, "_FEW", few)
    pair = make_pair(4, 256, torch.float16, 0)
    looked = []
    monkeypatch.setattr(OutputPair, "_pick", lambda *given, pick=OutputPair._pick: looked.append(1) or pick(*given))
    assert list_all(pair) == list_all(pair)
    assert len(looked) == times


@pytest.mark.gpu
@pytest.mark.parametrize("few", [1 << 16, 10])
@pytest.mark.parametrize("dtype", DTYPES)
def test_finds_the_same_on_a_gpu(monkeypatch, dtype, few):
    monkeypatch.setattr(output_comparison, "_FEW", few)
    pair = make_pair(8, 256, dtype, 1, "cuda")
    assert list_all(pair) == expect_all(pair)
    assert [block.places.device.type for block in pair.list_differing()] == ["cpu" if few > 10 else "cuda"]
