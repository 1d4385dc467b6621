"""The judge compares what was transferred for this comparison, and nothing else."""

from __future__ import annotations

import time

import pytest
import torch

from fib_rmsnorm.evaluation import JUDGE, ROLES
from fib_rmsnorm.evaluation.judging.judge_messages import (
    Compare,
    OutputsTaken,
    TakeOutputs,
    Verdict,
)
from fib_rmsnorm.evaluation.tensors.inputs import generate_inputs
from fib_rmsnorm.operators import recognise_source
from fib_rmsnorm.sandbox.asking import RefusedError, ask
from fib_rmsnorm.sandbox.fork_server import ForkServer
from fib_rmsnorm.sandbox.output_transfer import write_outputs
from fib_rmsnorm.sandbox.transferred import DeviceMemory
from fib_rmsnorm.schema import Settings

FALSE = DeviceMemory("ab" * 64, 0, 1 << 30)


def compare_request(registry, path) -> Compare:
    (definition,) = registry.definitions().values()
    workload = registry.workloads(definition.name)[1]
    inputs = generate_inputs(definition, workload, "cpu")
    exact = recognise_source(definition).compute_exact(inputs)
    with path.open("wb") as file:
        write_outputs(file.fileno(), [each.values for each in exact])
    return Compare(
        definition=definition,
        recognition=recognise_source(definition),
        workload=workload,
        case=0,
        device="cpu",
        dataset=None,
        settings=Settings(),
        outputs_path=str(path),
    )


def test_false_memory_ends_a_judge_and_the_next_one_judges_what_was_transferred(registry, tmp_path):
    right = compare_request(registry, tmp_path / "outputs")
    device = "cuda:0" if torch.cuda.is_available() else "cpu"
    with ForkServer(ROLES) as fork_server:
        judge, deadline = fork_server.spawn(JUDGE), time.monotonic() + 100
        take = TakeOutputs(device=device, memory=[FALSE], are_expected=False)
        with pytest.raises(RefusedError):
            ask(judge, take, OutputsTaken, deadline)
        assert not judge.alive
        judge = fork_server.spawn(JUDGE)
        missing = ask(judge, right.model_copy(update={"outputs_path": None}), Verdict, deadline)
        assert "were transferred" in missing.missing
        verdict = ask(judge, right, Verdict, deadline)
        assert verdict.missing is None
        assert [output.comparison.mismatched for output in verdict.outputs] == [0]
