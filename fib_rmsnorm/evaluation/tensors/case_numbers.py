"""The cases that a solution is judged on, by their numbers. Without torch: the scheduler counts them."""

from __future__ import annotations

from fib_rmsnorm.operators import Recognition
from fib_rmsnorm.schema import Definition, SafetensorsInput, Workload


def count_cases(definition: Definition, recognition: Recognition | None, workload: Workload) -> int:
    """The number of cases: the Workload's own inputs, the operator's hard ones, and an awkward size.

    Without an operator there is one.
    """
    if recognition is None:
        return 1
    awkward = make_awkward_workload(definition, recognition, workload)
    return 1 + count_hard_cases(definition, recognition, workload) + (awkward is not None)


def count_hard_cases(definition: Definition, recognition: Recognition, workload: Workload) -> int:
    """The number of the operator's hard cases."""
    return recognition.count_hard_cases({**definition.const_axes, **workload.axes})


def make_awkward_workload(definition: Definition, recognition: Recognition, workload: Workload) -> Workload | None:
    """A Workload of an awkward size; None if a file or the Definition determines the size."""
    axes = recognition.choose_awkward_axes(workload.axes)
    changed = {name for name, size in axes.items() if size != workload.axes[name]}
    for name, spec in definition.inputs.items():
        if changed.intersection(spec.shape or ()) and isinstance(workload.inputs.get(name), SafetensorsInput):
            return None
    # Another uuid gives other inputs: with the same seed, a smaller tensor would begin like the Workload's own.
    return workload.model_copy(update={"axes": axes, "uuid": f"{workload.uuid} {axes}"}) if changed else None
