"""Outputs that a Solution keeps between calls are found."""

from __future__ import annotations

import torch

from fib_rmsnorm.evaluation.worker.kept_outputs import KeptOutputs


def test_a_few_kept_outputs_are_ignored_but_many_are_found():
    kept_outputs = KeptOutputs()
    outputs = [torch.randn(4, 32) for _ in range(5)]
    for output in outputs:
        kept_outputs.remember([output])
    kept = [output.clone() for output in outputs]
    del outputs, output
    assert kept_outputs.find_kept() == 5
    del kept[2:]
    assert kept_outputs.find_kept() == 0


def test_outputs_of_equal_elements_are_ignored():
    kept_outputs = KeptOutputs()
    kept = [torch.full((4, 32), float(value)) for value in range(5)]
    for output in kept:
        kept_outputs.remember([output])
    assert kept_outputs.find_kept() == 0
