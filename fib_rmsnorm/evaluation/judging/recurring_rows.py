"""Whether a row has the same bits in every batch: rows of the first case recur in the case of another size."""

from collections.abc import Mapping, Sequence
from hashlib import blake2b

import torch

from fib_rmsnorm.evaluation.judging.judge_messages import Compare
from fib_rmsnorm.evaluation.tensors.inputs import Case
from fib_rmsnorm.evaluation.tensors.output_buffers import as_bytes
from fib_rmsnorm.schema import Recurrence

_MOST_ROWS = 512
_MOST_WORKERS = 64
"""A kernel that fails before its rows recur leaves them: beyond this, those of the first worker go."""


def compare_recurring(
    request: Compare, case: Case, outputs: Mapping[str, torch.Tensor], kept_by_worker: dict[int | None, list[bytes]]
) -> Recurrence | None:
    """How many rows of a call's outputs differ from those of the first case, whose last rows are its last.

    None if no row recurs. Until they recur, digests of the last rows of a worker's first case are kept.
    """
    axis = (request.recognition.row_axis if request.recognition else None) or ""
    shapes = {name: spec.shape or () for name, spec in request.definition.outputs.items()}
    by_row = [each.movedim(shapes[name].index(axis), 0) for name, each in outputs.items() if axis in shapes[name]]
    if request.case == 0:
        kept_by_worker.pop(request.worker, None)
        kept_by_worker[request.worker] = _digest_last_rows(by_row)
        for worker in [*kept_by_worker][:-_MOST_WORKERS]:
            del kept_by_worker[worker]
    if not case.recurring or not (kept := kept_by_worker.pop(request.worker, [])):
        return None
    now, count = _digest_last_rows(by_row), min(case.recurring, len(kept))
    from_end = [place for place in range(count, 0, -1) if now[-place] != kept[-place]]
    if not from_end:
        return Recurrence(rows=count)
    here, before = len(by_row[0]) - from_end[0], request.workload.axes[axis] - from_end[0]
    return Recurrence(rows=count, different=len(from_end), row=here, before=before)


def _digest_last_rows(outputs: Sequence[torch.Tensor]) -> list[bytes]:
    last = [each[-_MOST_ROWS:] for each in outputs]
    rows = [as_bytes(each).view(len(each), each.nbytes // max(1, len(each))).cpu().numpy() for each in last]
    return [blake2b(b"".join(of_row)).digest() for of_row in zip(*rows, strict=True)]
