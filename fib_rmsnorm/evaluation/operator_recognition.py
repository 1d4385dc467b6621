"""Recognise the operators of Definitions without evaluating a Solution."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from fib_rmsnorm.evaluation.judging.comparer import Comparer
from fib_rmsnorm.evaluation.judging.recogniser import Recogniser
from fib_rmsnorm.evaluation.judging.reference_client import ReferenceFailedError, reference_solution
from fib_rmsnorm.evaluation.run_config import RunConfig
from fib_rmsnorm.evaluation.worker_pool import WorkerClient, WorkerPool
from fib_rmsnorm.machine.devices import Device
from fib_rmsnorm.operators import Recognition
from fib_rmsnorm.sandbox.fork_server import ForkServer
from fib_rmsnorm.schema import Definition, Workload


def recognise_all(
    fork_server: ForkServer, definitions: Iterable[Definition], device: Device, config: RunConfig
) -> Iterator[tuple[Definition, Recognition | str]]:
    """Each Definition with the operator that its reference computes, or why it has none.

    A reference that is an operator's own is known by its source; others are called on probe inputs.
    """
    workers = WorkerPool(fork_server, device, config)

    def find_reference(definition: Definition) -> WorkerClient:
        return workers.find(definition, reference_solution(definition))

    comparer = Comparer(fork_server, device, config, find_reference)
    recogniser = Recogniser(comparer, find_reference, config.timeout_s)
    for definition in definitions:
        try:
            found = recogniser.recognise(definition, Workload(axes={}, inputs={}, uuid="probe"))
        except ReferenceFailedError as failure:
            yield definition, str(failure)
            continue
        yield definition, found or "its reference computes no known operator"
