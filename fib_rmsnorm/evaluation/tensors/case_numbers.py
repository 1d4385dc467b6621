"""The cases that a solution is judged on, by their numbers. Without torch: the scheduler counts them."""

from math import prod

from fib_rmsnorm.operators import Recognition
from fib_rmsnorm.schema import Definition, SafetensorsInput, Workload

FEW_ROWS = 32
"""Rows enough for every kind of hard row in one case. Triton's interpreter takes 1 to 10 ms for each."""


def count_cases(
    definition: Definition, recognition: Recognition | None, workload: Workload, *, few_rows: bool = False
) -> int:
    """The number of cases: the Workload's own inputs, the operator's hard ones, and an awkward size.

    Without an operator there is one. With `few_rows`, all but the first have few.
    """
    if recognition is None:
        return 1
    if few_rows:
        workload = make_few_rows(definition, recognition, workload)
    awkward = make_awkward_workload(definition, recognition, workload)
    hard = recognition.count_hard_cases({**definition.const_axes, **workload.axes})
    return 1 + hard + (awkward is not None)


def make_awkward_workload(definition: Definition, recognition: Recognition, workload: Workload) -> Workload | None:
    """A Workload of an awkward size; None if a file or the Definition determines the size."""
    return _resize(definition, workload, recognition.choose_awkward_axes(workload.axes))


def make_few_rows(definition: Definition, recognition: Recognition | None, workload: Workload) -> Workload:
    """A Workload of at most FEW_ROWS rows; the same one if it has no more, or if nobody or a file knows the size."""
    if recognition is None:
        return workload
    axis, sizes = recognition.row_axis or "", {**definition.const_axes, **workload.axes}
    of_others = prod(sizes[each] for each in recognition.row_axes if each != axis)
    few = max(1, FEW_ROWS // max(1, of_others))
    if workload.axes.get(axis, 0) <= few:
        return workload
    return _resize(definition, workload, {**workload.axes, axis: few}) or workload


def _resize(definition: Definition, workload: Workload, axes: dict[str, int]) -> Workload | None:
    changed = {name for name, size in axes.items() if size != workload.axes[name]}
    for name, spec in definition.inputs.items():
        if changed.intersection(spec.shape or ()) and isinstance(workload.inputs.get(name), SafetensorsInput):
            return None
    # Another uuid gives other inputs: with the same seed, a smaller tensor would begin like the Workload's own.
    return workload.model_copy(update={"axes": axes, "uuid": f"{workload.uuid} {axes}"}) if changed else None
