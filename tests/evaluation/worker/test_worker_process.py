"""A trial whose measurement fails is repeated, and the answer says so."""

import json
import os

import pytest

from fib_rmsnorm.building import prepare_build
from fib_rmsnorm.building.cache import cache_folder
from fib_rmsnorm.evaluation.timing.cpu_clock import CpuClock
from fib_rmsnorm.evaluation.timing.timer import MAX_ATTEMPTS, MeasurementError, Trial
from fib_rmsnorm.evaluation.worker import timed_calls
from fib_rmsnorm.evaluation.worker import worker_process as worker_module
from fib_rmsnorm.evaluation.worker.timed_calls import LibraryCalls
from fib_rmsnorm.evaluation.worker.worker_messages import Build, Prepare, PrepareTiming, Reveal, Time
from fib_rmsnorm.operators import find_operator
from fib_rmsnorm.registry import Registry, generate_workloads
from fib_rmsnorm.sandbox.channel import RefusalError
from support.command_line import QUICK_OPTIONS
from support.kernels import change
from support.registries import RIGHT, add_kernel, add_sources, make_empty_registry, python_manifest

CALLS = 5


class LosesRecords:
    """A timer that loses the records of its first measurements."""

    name, tick_ms, cause = CpuClock.name, CpuClock.tick_ms, "lost a record"

    def __init__(self, failures: int) -> None:
        self._clock = CpuClock()
        self.failures_left = failures

    def measure(self, *arguments):
        samples = self._clock.measure(*arguments)
        if self.failures_left:
            self.failures_left -= 1
            raise MeasurementError(self.cause, len(samples))
        return samples


def build(worker, registry, solution):
    definition = registry.definition(solution.definition)
    request = Build(definition=definition, solution=solution, device="cpu", dataset=None, cache=cache_folder())
    worker.build(request)
    return definition


def make_worker(registry, monkeypatch, failures, judged_calls=1):
    monkeypatch.setattr(worker_module, "choose_timer", lambda _: LosesRecords(failures))
    worker = worker_module.Worker(None, os.memfd_create("outputs"))
    definition = build(worker, registry, add_kernel(registry, "right", RIGHT))
    workload = registry.workloads(definition.name)[0]
    request = PrepareTiming(workload=workload, warmup_runs=1, budget_s=1.0, judged_calls=judged_calls)
    worker.prepare_timing(request)
    return worker


def test_a_solution_is_prepared_once_while_the_device_is_opened(registry, monkeypatch):
    prepared: list = []
    monkeypatch.setattr(worker_module, "prepare_build", lambda *given: prepared.append(given) or prepare_build(*given))
    solution = add_kernel(registry, "right", RIGHT)
    worker = worker_module.Worker(None, os.memfd_create("outputs"))
    opening = Prepare(device="cuda:99", solution=solution, cache=cache_folder())
    assert worker.prepare(opening).fault
    build(worker, registry, solution)
    worker.check()
    assert len(prepared) == 1


untraced = pytest.mark.usefixtures("untraced")
REQUEST = Time(trial=Trial(CALLS, cold=True, budget_s=60.0))


@untraced
@pytest.mark.parametrize("failures", range(MAX_ATTEMPTS))
def test_a_failed_trial_is_measured_again_and_reported(registry, monkeypatch, failures):
    worker = make_worker(registry, monkeypatch, failures)
    answer = worker.time(REQUEST)
    assert len(answer.samples) == CALLS
    assert answer.repeated == ["lost a record"] * failures
    assert worker.time(REQUEST).repeated == []
    assert worker.reveal(Reveal()).numbers  # the calls of a lost trial can be judged too


@untraced
@pytest.mark.parametrize("judged_calls", [1, 2, CALLS, CALLS + 1])
def test_several_calls_are_chosen_to_be_judged(registry, monkeypatch, judged_calls):
    worker = make_worker(registry, monkeypatch, 0, judged_calls)
    for _ in range(2):
        worker.time(REQUEST)
        revealed = worker.reveal(Reveal()).numbers
        assert len(set(revealed)) == len(revealed) == min(judged_calls, CALLS)
        with pytest.raises(RefusalError, match="0 of 0 timed calls were seen"):
            worker.reveal(Reveal())


def test_what_is_written_to_an_output_too_early_is_erased(registry, monkeypatch):
    calls = make_worker(registry, monkeypatch, 0)._timing
    for buffers in calls._ring:
        buffers.tensors[0].zero_()
    for _ in calls._ring.copy():
        calls.prepare()
        assert calls.buffers.tensors[0].isnan().all()


@untraced
def test_a_trial_that_fails_three_times_is_a_failure_with_every_cause(registry, monkeypatch):
    worker = make_worker(registry, monkeypatch, MAX_ATTEMPTS)
    causes = iter(["lost a record", "was deferred", "lost a record"])
    monkeypatch.setattr(LosesRecords, "cause", property(lambda _: next(causes)))
    with pytest.raises(RefusalError, match=r"^lost a record; was deferred, in 3 trials in a row$"):
        worker.time(REQUEST)


def test_the_first_call_does_not_wait_for_the_import_of_dynamo():
    """Torch wraps the method of other modes in a function of its own, which imports Dynamo when it is called first."""
    method = LibraryCalls.__dict__["__torch_dispatch__"]
    assert method.__code__.co_filename == timed_calls.__file__


DEFINITION = find_operator("fused_add_rmsnorm").define(128)
BOTH = {"out": "x", "new_residual": "residual"}
SUM = """\
import torch


def run(x, residual, weight, eps{more}):
    total = x.float() + residual.float()
    rstd = torch.rsqrt(total.square().mean(dim=-1, keepdim=True) + eps)
    {out}.copy_(total * rstd * weight.float())
    residual.copy_(total)
"""
IN_BOTH = SUM.format(more="", out="x")
IN_ONE = SUM.format(more=", out", out="out")
KERNELS = {
    "in_both": (IN_BOTH, BOTH),
    "in_one": (IN_ONE, {"new_residual": "residual"}),
    "weight_too": (f"{IN_BOTH}    weight.zero_()\n", BOTH),
    "not_added": (IN_BOTH.replace("    residual.copy_(total)\n", ""), BOTH),
    "not_declared": (change(DEFINITION.reference, "    return ", "    residual.mul_(2)\n    return "), {}),
}


def manifest_of(name: str, in_place: dict[str, str]) -> str:
    if not in_place:
        return python_manifest(name)
    pairs = ", ".join(f'{output} = "{source}"' for output, source in in_place.items())
    return python_manifest(name).replace("style = false", f"style = true\nin_place = {{{pairs}}}")


@pytest.fixture
def sums(tmp_path) -> Registry:
    """A registry with the Definition, a Workload, and the kernels as folders of sources."""
    registry = make_empty_registry(tmp_path / "registry")
    registry.write_definition(DEFINITION)
    registry.write_workloads(DEFINITION, generate_workloads(DEFINITION, [8]))
    for name, (source, in_place) in KERNELS.items():
        add_sources(registry, name, {"kernel.py": source}, manifest_of(name, in_place))
    return registry


@pytest.mark.parametrize(
    ("in_place", "style", "said"),
    [
        ('{y = "x"}', "true", "has no output 'y' (available: out, new_residual)"),
        ('{out = "y"}', "true", "has no input 'y' (available: x, residual, weight, eps)"),
        ('{out = "weight"}', "true", "'out' and 'weight' differ in shape or dtype"),
        ('{out = "x", new_residual = "x"}', "true", "two outputs have the same input"),
        ('{out = "x"}', "false", "in_place needs destination_passing_style = true"),
    ],
)
def test_what_cannot_be_in_place_is_refused_in_a_line(fib, sums, in_place, style, said):
    manifest = next(sums.root.rglob("in_one/solution.toml"))
    text = manifest.read_text().replace('{new_residual = "residual"}', in_place)
    manifest.write_text(text.replace("style = true", f"style = {style}"))
    solved = fib("solve", "--root", sums.root)
    assert solved.code == 2 and said in solved.err and len(solved.err.splitlines()) == 1
    tried = fib("try", manifest.parent, "--definition", DEFINITION.name, "--root", sums.root)
    assert said in tried.kernel_fault


@pytest.mark.process
def test_its_timed_calls_are_judged_too(fib, sums, tmp_path):
    benched = fib("bench", *QUICK_OPTIONS, "--root", sums.root, "--output", tmp_path / "traces.jsonl")
    assert benched.code == 1, benched.err
    found = map(json.loads, (tmp_path / "traces.jsonl").read_text().splitlines())
    traces = {each["solution"]: each["evaluation"] for each in found}
    passed = {name for name, each in traces.items() if each["status"] == "PASSED"}
    assert passed == {"in_both", "in_one"}
    assert "changed its input 'weight'; an output may take its place if" in traces["weight_too"]["log"]
    assert "changed its input 'residual'" in traces["not_declared"]["log"]
    first = traces["not_added"]["log"].splitlines()[0]
    assert first == "new_residual: the output equals the residual that was passed: write x + residual"
