"""The judge compares what was transferred for this comparison, and nothing else."""

from __future__ import annotations

import time

import pytest
import torch
from safetensors.torch import save_file

from fib_rmsnorm.evaluation import JUDGE
from fib_rmsnorm.evaluation.judging.judge_messages import (
    Compare,
    Expect,
    TakeOutputs,
    Verdicts,
)
from fib_rmsnorm.evaluation.tensors.inputs import generate_inputs
from fib_rmsnorm.operators import recognise_source
from fib_rmsnorm.sandbox.asking import Done, RefusedError, ask
from fib_rmsnorm.sandbox.confinement import find_gaps
from fib_rmsnorm.sandbox.output_transfer import write_outputs
from fib_rmsnorm.sandbox.transferred import DeviceMemory
from fib_rmsnorm.schema import SafetensorsInput, Settings

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
        outputs_file=0,
    )


def test_false_memory_ends_a_judge_and_the_next_one_judges_what_was_transferred(fork_server, registry, tmp_path):
    right = compare_request(registry, tmp_path / "outputs")
    device = "cuda:0" if torch.cuda.is_available() else "cpu"
    judge, deadline = fork_server.spawn(JUDGE), time.monotonic() + 100
    take = TakeOutputs(device=device, memory=[FALSE], are_expected=False)
    with pytest.raises(RefusedError):
        ask(judge, take, Done, deadline)
    assert not judge.alive
    judge = fork_server.spawn(JUDGE)
    (missing,) = ask(judge, right.model_copy(update={"outputs_file": None}), Verdicts, deadline).verdicts
    assert "were transferred" in missing.missing
    with (tmp_path / "outputs").open("rb") as file:
        (verdict,) = ask(judge, right, Verdicts, deadline, files=[file.fileno()]).verdicts
    assert verdict.missing is None
    assert [output.comparison.mismatched for output in verdict.outputs] == [0]


@pytest.mark.process
@pytest.mark.skipif(bool(find_gaps()), reason="this machine confines less: see fib-rmsnorm env")
def test_a_confined_judge_reads_the_dataset_and_the_files_that_it_is_sent(fork_server, registry, tmp_path):
    right = compare_request(registry, tmp_path / "outputs")
    save_file({"x": torch.randn(8, 128, dtype=torch.float16)}, tmp_path / "x.safetensors")
    given = {**right.workload.inputs, "x": SafetensorsInput(path="x.safetensors", tensor_key="x")}
    workload = right.workload.model_copy(update={"inputs": given, "uuid": "of a file"})
    same = right.model_dump(include={"definition", "recognition", "device"})
    expect = Expect(**same, workload=workload, case=0, dataset=tmp_path)
    with (tmp_path / "outputs").open("rb") as file:
        deadline = time.monotonic() + 100
        judge = fork_server.spawn(JUDGE, is_confined=True)
        with pytest.raises(RefusedError, match="No such file"):
            ask(judge, expect, Verdicts, deadline)
        judge = fork_server.spawn(JUDGE, is_confined=True, readable=[tmp_path])
        assert ask(judge, expect, Verdicts, deadline) == Verdicts([])
        assert ask(judge, right, Verdicts, deadline, files=[file.fileno()]).verdicts[0].missing is None
