"""Rows that recur are compared bit for bit."""

from types import SimpleNamespace
from typing import Any

import torch

from fib_rmsnorm.evaluation.judging.judge import Judge
from fib_rmsnorm.operators import RmsNorm, recognise_source
from fib_rmsnorm.schema import Recurrence


def test_the_first_row_with_other_bits_is_named_by_its_place_in_both_batches():
    definition, judge = RmsNorm().define(128), Judge([])
    asked: Any = SimpleNamespace(definition=definition, recognition=recognise_source(definition), worker=1, case=0)
    first: Any = SimpleNamespace(recurring=0)
    last: Any = SimpleNamespace(recurring=4)
    asked.workload = SimpleNamespace(axes={"batch": 8})
    rows = torch.arange(8 * 128, dtype=torch.float32).view(8, 128)
    assert judge.compare_recurring(asked, first, {"out": rows}) is None
    asked.case, later = 1, rows[1:].clone()
    later[-3, 5] *= 1 + 2**-20
    found = judge.compare_recurring(asked, last, {"out": later})
    assert found == Recurrence(rows=4, different=1, row=4, before=5)
    assert not judge._kept_rows
    asked.case = 0
    for asked.worker in range(200):  # of kernels that fail before their rows recur
        judge.compare_recurring(asked, first, {"out": rows})
    assert len(judge._kept_rows) < 100 and 199 in judge._kept_rows
