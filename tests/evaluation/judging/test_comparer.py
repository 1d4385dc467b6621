"""Who is to blame if the judge cannot copy outputs from a GPU's memory: without a GPU, by judges that refuse to."""

import time
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

from fib_rmsnorm.evaluation import JUDGE
from fib_rmsnorm.evaluation.judging.comparer import Comparer, ReferenceFailedError, Subject, Transferred
from fib_rmsnorm.evaluation.judging.judge_client import JudgeClient
from fib_rmsnorm.evaluation.judging.judge_messages import Compare, Expect, TakeOutputs, Verdicts
from fib_rmsnorm.evaluation.run_config import RunConfig
from fib_rmsnorm.evaluation.tensors.inputs import DeviceWorkload, generate_inputs
from fib_rmsnorm.evaluation.worker.worker_messages import Revealed
from fib_rmsnorm.evaluation.worker_client import EvaluationFailedError
from fib_rmsnorm.machine.devices import Device
from fib_rmsnorm.operators import recognise_source
from fib_rmsnorm.sandbox.asking import DeviceMemory, Done, ask
from fib_rmsnorm.sandbox.channel import RefusalError
from fib_rmsnorm.sandbox.confinement import find_gaps
from fib_rmsnorm.sandbox.output_transfer import write_outputs
from fib_rmsnorm.schema import SafetensorsInput
from support.mistakes import ask_to_compare
from support.registries import QUICK

GPU = Device("cuda:0", "Fake GPU", 80 << 30)
MEMORY = [DeviceMemory("ab" * 64, 0, 1 << 20)]
VERDICT = {"case": "workload", "kind": "workload", "missing": None, "outputs": {}, "hint": None, "mistakes": {}}
REFUSAL = {"ok": False, "status": "RUNTIME_ERROR", "message": "CUDA error 400", "fatal": True}


class Judges:
    """Starts judges. Each copies what `copies` says, and ends when it cannot."""

    def __init__(self, *copies: bool) -> None:
        self.copies = list(copies)
        self.asked: list[dict] = []
        self.started = 0

    def spawn(self, _role, **_how):
        self.started += 1
        judge = SimpleNamespace(pid=self.started, alive=True)

        def answer(message, _deadline, _limit, files):
            self.asked.append(message | {"files": files})
            if message["do"] == "TakeOutputs" and not self.copies.pop(0):
                return REFUSAL
            if message["do"] == "OpenDevice":
                return {"ok": True, "fault": None}
            return {"ok": True, "verdicts": [VERDICT]}

        judge.request, judge.kill = answer, lambda: setattr(judge, "alive", False)
        return judge


class FakeWorker:
    def __init__(self, memory) -> None:
        self.memory = memory
        self.process = SimpleNamespace(outputs_file=17, clear_outputs=lambda: None)
        self.asked: list[str] = []

    def ask(self, request, kind):
        self.asked.append(type(request).__name__)
        return SimpleNamespace(memory=self.memory)


@pytest.fixture
def subject(registry):
    (definition,) = registry.definitions().values()
    return Subject(definition, registry.workloads(definition.name)[0], recognise_source(definition))


def make_workers(judges, device: Device, reference_memory=None) -> Any:
    worker = FakeWorker(reference_memory)
    config = RunConfig(QUICK, 10)
    return SimpleNamespace(fork_server=judges, device=device, config=config, find_reference=lambda _: worker)


def make_comparer(judges, reference_memory=None) -> Comparer:
    return Comparer(make_workers(judges, GPU, reference_memory))


def test_a_solution_fails_if_no_other_judge_can_copy_its_outputs_either_and_the_next_one_is_compared(subject):
    judges, worker = Judges(True, False, True, False, False, True), FakeWorker(MEMORY)
    compare = partial(make_comparer(judges).compare, subject, Transferred(worker, MEMORY), case=1)
    for _ in range(2):
        compare()
    assert judges.started == 2
    with pytest.raises(EvaluationFailedError, match="could not copy the outputs: CUDA error 400"):
        compare()
    compare()
    assert judges.started == 4
    assert (judges.asked[-1]["outputs_file"], judges.asked[-1]["files"]) == (None, [])
    assert worker.asked == []


def test_where_nothing_can_be_copied_outputs_pass_through_files(subject):
    judges, worker = Judges(False, False), FakeWorker(MEMORY)
    comparer = make_comparer(judges)
    for _ in range(2):
        comparer.compare(subject, Transferred(worker, MEMORY), case=1)
        assert (judges.asked[-1]["outputs_file"], judges.asked[-1]["files"]) == (0, [17])
    assert worker.asked == ["WriteOutputs", "WriteOutputs"]


def test_the_references_outputs_are_not_a_fault_of_a_solution(subject):
    judges, worker = Judges(True, True, False, False), FakeWorker(MEMORY)
    comparer = make_comparer(judges, MEMORY)
    comparer.compare(subject, Transferred(worker, MEMORY), case=0)
    with pytest.raises(ReferenceFailedError, match="outputs of the reference"):
        comparer.compare(Subject(subject.definition, subject.workload, None), Transferred(worker, MEMORY), case=0)


@pytest.mark.parametrize("numbers", [[], [7], [7, 7, 7, 7]])
def test_fewer_calls_than_were_timed_are_a_failure(subject, numbers):
    client = JudgeClient(make_workers(None, Device("cpu", "a CPU", 1 << 30)))
    killed: list[bool] = []
    process = SimpleNamespace(kill=lambda: killed.append(True))
    worker: Any = SimpleNamespace(process=process, ask=lambda *_: Revealed(None, [], [], [], numbers=numbers))
    with pytest.raises(EvaluationFailedError, match=rf"{len(set(numbers))} were revealed, not 4"):
        client.judge_timed_calls(subject.workload, worker, 4)
    assert killed


FALSE = DeviceMemory("ab" * 64, 0, 1 << 30)


def compare_request(registry, path) -> Compare:
    (definition,) = registry.definitions().values()
    workload = registry.workloads(definition.name)[1]
    inputs = generate_inputs(DeviceWorkload(definition, workload, "cpu"))
    exact = recognise_source(definition).compute_exact(inputs)
    with path.open("wb") as file:
        write_outputs(file.fileno(), [each.values for each in exact.values()])
    return ask_to_compare(definition, workload)


def test_false_memory_ends_a_judge_and_the_next_one_judges_what_was_transferred(fork_server, registry, tmp_path):
    right = compare_request(registry, tmp_path / "outputs")
    device = "cuda:0" if torch.cuda.is_available() else "cpu"
    judge, deadline = fork_server.spawn(JUDGE), time.monotonic() + 100
    take = TakeOutputs(device=device, memory=[FALSE], are_expected=False)
    with pytest.raises(RefusalError):
        ask(judge, take, Done, deadline)
    assert not judge.alive
    judge = fork_server.spawn(JUDGE)
    (missing,) = ask(judge, right.model_copy(update={"outputs_file": None}), Verdicts, deadline).verdicts
    assert "were transferred" in missing.missing
    with (tmp_path / "outputs").open("rb") as file:
        (verdict,) = ask(judge, right, Verdicts, deadline, files=[file.fileno()]).verdicts
    assert verdict.missing is None
    assert [output.mismatched for output in verdict.outputs.values()] == [0]


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
        judge = fork_server.spawn(JUDGE)
        with pytest.raises(RefusalError, match="No such file"):
            ask(judge, expect, Verdicts, deadline)
        judge = fork_server.spawn(JUDGE, readable=[tmp_path])
        assert ask(judge, expect, Verdicts, deadline) == Verdicts([])
        assert ask(judge, right, Verdicts, deadline, files=[file.fileno()]).verdicts[0].missing is None
