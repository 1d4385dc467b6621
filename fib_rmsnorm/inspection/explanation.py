"""What a Solution's compiled code says about its speed: `explain`, with or without a GPU."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from fib_rmsnorm.errors import EnvironmentMissingError, InputError
from fib_rmsnorm.evaluation.run_config import RunConfig
from fib_rmsnorm.evaluation.worker_pool import EvaluationFailedError
from fib_rmsnorm.inspection.compile_messages import Inspected
from fib_rmsnorm.inspection.compiler import inspect_solution
from fib_rmsnorm.inspection.conclusions import conclude
from fib_rmsnorm.inspection.facts import ExplainedLaunch, Explanation, Work
from fib_rmsnorm.inspection.launch_figures import SECTOR_BYTES, explain_launch
from fib_rmsnorm.languages import LANGUAGES
from fib_rmsnorm.machine.architectures import Architecture, find_architecture, is_known
from fib_rmsnorm.machine.capabilities import missing_to_compile
from fib_rmsnorm.machine.cuda_properties import find_properties
from fib_rmsnorm.machine.devices import Device, cpu_flags
from fib_rmsnorm.operators import count_cost
from fib_rmsnorm.registry import bytes_moved, tensor_bytes
from fib_rmsnorm.registry.selection import row_axis
from fib_rmsnorm.sandbox.fork_server import ForkServer
from fib_rmsnorm.schema import Definition, Solution, Workload


def explain(
    fork_server: ForkServer,
    definition: Definition,
    solution: Solution,
    workloads: Sequence[Workload],
    arch: str,
    config: RunConfig,
    device: Device | None = None,
) -> Explanation:
    """Everything `fib-rmsnorm explain` says. `device` is a GPU of that architecture on this machine, if there is one.

    Raises InputError if the Solution cannot be compiled here.
    """
    _check(solution)
    try:
        found = inspect_solution(fork_server, definition, solution, workloads, arch, config)
    except EvaluationFailedError as failure:
        raise InputError(
            f"{solution.name} does not compile for {arch}: {_first_error(str(failure).removeprefix('compiling: '))}"
        ) from None
    on_host = LANGUAGES[solution.spec.language.value].runs_on_host
    limits = find_architecture(arch) if is_known(arch) and not on_host else None
    chip = device.hardware if device else limits.model.name if limits else None
    multiprocessors = _count_multiprocessors(device) or (limits.model.multiprocessors if limits else None)
    explanation = Explanation(
        solution=solution.name,
        definition=definition.name,
        language=solution.spec.language.value,
        arch=None if on_host else arch,
        chip=None if on_host else chip,
        multiprocessors=None if on_host else multiprocessors,
        kernels=found.kernels,
        launches=tuple(_explain_launches(found, workloads, _counted_axis(definition), limits, multiprocessors)),
        functions=found.functions,
        work=tuple(_describe_work(definition, workload) for workload in workloads),
        conclusions=(),
        notes=found.notes if limits or on_host else (*found.notes, _describe_unknown(arch)),
    )
    return explanation.model_copy(update={"conclusions": tuple(conclude(explanation, cpu_flags()))})


def _describe_unknown(arch: str) -> str:
    """What cannot be said of an architecture that the table of models lacks."""
    return (
        f"occupancy and waves are unknown: no GPU model of {arch} is known here; a kernel that asks its device for"
        f" properties is answered as on a {find_architecture(arch).model.name}"
    )


def _explain_launches(
    found: Inspected,
    workloads: Sequence[Workload],
    axis: str | None,
    limits: Architecture | None,
    multiprocessors: int | None,
) -> Iterator[ExplainedLaunch]:
    for workload, launches in zip(workloads, found.launches, strict=False):
        rows = workload.axes.get(axis or "")
        for launch in launches:
            if launch.kernel_number < len(found.kernels):
                kernel = found.kernels[launch.kernel_number]
                yield explain_launch(workload, rows, launch, kernel, limits, multiprocessors)


def _check(solution: Solution) -> None:
    """Raise EnvironmentMissingError if what compiles the Solution is missing, InputError if nothing compiles it."""

    language = LANGUAGES[solution.spec.language.value]
    if not language.has_compiled_code:
        raise InputError(f"{solution.name} is {language.title}: it has no compiled code to explain")
    if not language.runs_on_host and all("cpu" in target.lower() for target in solution.spec.target_hardware):
        raise InputError(f"{solution.name} is made for the CPU: explain reads GPU kernels and C++")
    if missing := missing_to_compile(language.name):
        raise EnvironmentMissingError(f"{solution.name} cannot be compiled here: {missing}")


def _first_error(log: str) -> str:
    """The line of a compiler's output that says what is wrong."""
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    return next((line for line in lines if "error" in line.lower()), lines[0] if lines else "")


def _count_multiprocessors(device: Device | None) -> int | None:
    if device is None:
        return None
    gpu = find_properties(device.name)
    return gpu.multiprocessors if gpu else None


def _describe_work(definition: Definition, workload: Workload) -> Work:
    cost = count_cost(definition, workload.axes)
    flops = cost.flops if cost else None
    moved = bytes_moved(definition, workload)
    rows = workload.axes.get(_counted_axis(definition) or "")
    sizes = tensor_bytes(definition, workload)
    sectors = sum(sizes.values()) / SECTOR_BYTES
    by_row = {name: size / rows if _varies(definition, name) else size for name, size in sizes.items() if rows}
    return Work(
        axes=workload.axes,
        flops=flops,
        bytes_moved=moved,
        flops_per_byte=flops / moved if flops is not None else None,
        least_sectors_per_row=sectors / rows if rows else None,
        input_sectors_per_row=sum(by_row[name] for name in definition.inputs if name in by_row) / SECTOR_BYTES
        if rows
        else None,
    )


def _counted_axis(definition: Definition) -> str | None:
    """The row axis, if transactions can be counted by its rows: not where an output sums over them, as dweight does."""
    axis = row_axis(definition)
    return axis if all(axis in (spec.shape or ()) for spec in definition.outputs.values()) else None


def _varies(definition: Definition, name: str) -> bool:
    """Whether a tensor has a row for each element of the batch."""
    spec = definition.inputs.get(name) or definition.outputs[name]
    return row_axis(definition) in (spec.shape or ())
