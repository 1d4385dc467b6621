"""Whether a row has the same bits in every batch: rows of the first case recur in the case of another size."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping

import torch

from fib_rmsnorm.evaluation.judging.judge_messages import Compare
from fib_rmsnorm.evaluation.tensors.inputs import Case
from fib_rmsnorm.evaluation.tensors.output_buffers import as_bytes
from fib_rmsnorm.schema import Recurrence

_MOST_ROWS = 512
_MOST_BYTES = 256 << 20
"""A kernel that fails before its rows recur leaves them: beyond this, those that were kept the longest go."""


class RecurringRows:
    """The last rows of the outputs of the first case, by the worker that made them, until they recur."""

    def __init__(self) -> None:
        self._kept: OrderedDict[int | None, list[torch.Tensor]] = OrderedDict()

    def compare(self, request: Compare, case: Case, outputs: Mapping[str, torch.Tensor]) -> Recurrence | None:
        """How many rows of a call's outputs differ from those of the first case, whose last rows are its last.

        None if no row recurs. The outputs of the first case are kept.
        """
        axis = (request.recognition.row_axis if request.recognition else None) or ""
        shapes = {name: spec.shape or () for name, spec in request.definition.outputs.items()}
        by_row = [each.movedim(shapes[name].index(axis), 0) for name, each in outputs.items() if axis in shapes[name]]
        if request.case == 0:
            self._keep(request.worker, [each[-_MOST_ROWS:].clone() for each in by_row])
        if not case.recurring or not (kept := self._kept.pop(request.worker, [])):
            return None
        count = min(case.recurring, len(kept[0]))
        differs = [
            (_bytes_by_row(now[-count:]) != _bytes_by_row(before[-count:])).any(dim=1)
            for now, before in zip(by_row, kept, strict=True)
        ]
        different = torch.stack(differs).any(dim=0).nonzero().flatten().tolist()
        if not different:
            return Recurrence(rows=count)
        from_end = count - different[0]
        here, before = len(by_row[0]) - from_end, request.workload.axes[axis] - from_end
        return Recurrence(rows=count, different=len(different), row=here, before=before)

    def _keep(self, worker: int | None, rows: list[torch.Tensor]) -> None:
        self._kept[worker] = rows
        self._kept.move_to_end(worker)
        kept_bytes = sum(each.nbytes for kept in self._kept.values() for each in kept)
        while kept_bytes > _MOST_BYTES and len(self._kept) > 1:
            kept_bytes -= sum(each.nbytes for each in self._kept.popitem(last=False)[1])


def _bytes_by_row(rows: torch.Tensor) -> torch.Tensor:
    return as_bytes(rows).view(len(rows), rows.nbytes // len(rows))
