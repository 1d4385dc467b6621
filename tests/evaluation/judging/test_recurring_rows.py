"""Rows that recur are compared bit for bit, and those of kernels that have failed do not pile up."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import torch

from fib_rmsnorm.evaluation.judging import recurring_rows
from fib_rmsnorm.evaluation.judging.recurring_rows import RecurringRows
from fib_rmsnorm.operators import RmsNorm, recognise_source
from fib_rmsnorm.schema import Recurrence

DEFINITION = RmsNorm().define(128)
ROWS = torch.arange(8 * 128, dtype=torch.float32).view(8, 128)


def compare(rows: RecurringRows, worker: int, case: int, output: torch.Tensor) -> Recurrence | None:
    request: Any = SimpleNamespace(
        worker=worker,
        case=case,
        definition=DEFINITION,
        recognition=recognise_source(DEFINITION),
        workload=SimpleNamespace(axes={"batch": 8}),
    )
    made: Any = SimpleNamespace(recurring=4 if case else 0)
    return rows.compare(request, made, {"out": output})


def test_the_first_row_with_other_bits_is_named_by_its_place_in_both_batches():
    rows, later = RecurringRows(), ROWS[1:].clone()
    assert compare(rows, 1, 0, ROWS) is None
    later[-3, 5] *= 1 + 2**-20
    assert compare(rows, 1, 1, later) == Recurrence(rows=4, different=1, row=4, before=5)


def test_rows_of_kernels_that_failed_make_room_for_later_ones(monkeypatch):
    monkeypatch.setattr(recurring_rows, "_MOST_BYTES", 3 * ROWS.nbytes)
    rows = RecurringRows()
    for worker in range(10):
        compare(rows, worker, 0, ROWS)
    found = [compare(rows, worker, 1, ROWS) is not None for worker in range(10)]
    assert found == [False] * 7 + [True] * 3
