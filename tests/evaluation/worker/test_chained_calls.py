"""Timed calls, alone and in a CUDA graph: what they touch wrongly, and what a bench says about cheating kernels."""

import ctypes
from itertools import count
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from fib_rmsnorm.evaluation.tensors.fresh_inputs import FreshInputs
from fib_rmsnorm.evaluation.timing import choose_timer
from fib_rmsnorm.evaluation.timing.latency_statistics import LINKS
from fib_rmsnorm.evaluation.timing.timer import Trial
from fib_rmsnorm.evaluation.worker import chained_calls
from fib_rmsnorm.evaluation.worker.caller import SolutionCaller
from fib_rmsnorm.evaluation.worker.chained_calls import find_produced_input
from fib_rmsnorm.evaluation.worker.timed_calls import TimedCalls
from fib_rmsnorm.operators import find_operator
from support.command_line import run_cli
from support.norms import on_device
from support.registries import add_sources, make_registry, python_manifest, read_output


@pytest.mark.parametrize(
    ("name", "produced"), [("rmsnorm", "x"), ("fused_add_rmsnorm", "x"), ("rmsnorm_backward", "dy")]
)
def test_the_producer_writes_the_first_input_of_a_batch(name, produced):
    definition = find_operator(name).define(4096)
    assert find_produced_input(definition) == produced
    rows_last = dict(sorted(definition.inputs.items(), key=lambda item: "batch" in (item[1].shape or ())))
    assert find_produced_input(definition.model_copy(update={"inputs": rows_last})) == produced


class HostCopies:
    """The copies of producers and consumers, by a CPU."""

    def __init__(self, *, dependent):
        pass

    def copy(self, destination, source, count):
        ctypes.memmove(destination, source, count)

    def close(self):
        pass


class Replays:
    """A graph on a CPU: its links run at each replay."""

    def __init__(self, link, links):
        self._link, self._links = link, links

    def time_replay(self):
        for number in range(self._links):
            self._link(number)
        return 1.0


def prepare(function, in_place, operator="rmsnorm", device="cpu"):
    """A Workload, and what calls a function that returns its outputs, or writes them `in_place` or elsewhere."""
    definition = find_operator(operator).define(128)
    spec = SimpleNamespace(destination_passing_style=in_place is not None, in_place=in_place or {}, language="python")
    solution: Any = SimpleNamespace(spec=spec)
    return on_device(definition, 3, device), SolutionCaller(function, definition, solution, device)


@pytest.fixture
def chained_trial(monkeypatch):
    """Time the calls of a function in a chain on a CPU, whose last link in the first replay is judged.

    Returns the trial, and the inputs of the judged call.
    """

    def run(*options):
        timed, caller = prepare(*options)
        trial = chained_calls.ChainedCalls(timed, caller, dependent=False).time(2, 60)
        return trial, FreshInputs(timed).set(trial.revealed.numbers[0])

    monkeypatch.setattr(chained_calls, "CopyKernel", HostCopies)
    monkeypatch.setattr(chained_calls, "CapturedGraph", Replays)
    monkeypatch.setattr(chained_calls, "randbelow", lambda below: below - 1)
    return run


def norm(x, weight, eps):
    return torch.nn.functional.rms_norm(x, (x.shape[-1],), weight, eps)


def write_norm(x, weight, eps, out):
    out.copy_(norm(x, weight, eps))


def overwrite(x, weight, eps):
    x.copy_(norm(x, weight, eps))


@pytest.mark.parametrize(("function", "in_place"), [(norm, None), (write_norm, {}), (overwrite, {"out": "x"})])
def test_a_link_computes_what_a_call_alone_does(chained_trial, function, in_place):
    trial, inputs = chained_trial(function, in_place)
    assert torch.equal(trial.outputs[0], norm(**inputs))
    assert (trial.revealed.changed_inputs, trial.revealed.overrun) == ([], [])
    assert len(trial.times.with_ms) == len(trial.times.without_ms) == 2


def test_every_link_gets_the_inputs_that_calls_overwrite_anew(chained_trial):
    def add(x, residual, weight, eps):
        residual.add_(x)
        x.copy_(norm(residual, weight, eps))

    trial, inputs = chained_trial(add, {"out": "x", "new_residual": "residual"}, "fused_add_rmsnorm")
    total = inputs["x"] + inputs["residual"]
    assert torch.equal(trial.outputs[1], total)
    assert torch.equal(trial.outputs[0], norm(total, inputs["weight"], inputs["eps"]))


def test_a_link_that_does_nothing_leaves_a_wrong_output(chained_trial):
    calls = count()

    def skip_the_last(x, weight, eps, out):
        if next(calls) % LINKS:  # the first call is not in the graph
            write_norm(x, weight, eps, out)

    trial, inputs = chained_trial(skip_the_last, {})
    assert not torch.allclose(trial.outputs[0], norm(**inputs), rtol=0.1)


def change_inputs(x, weight, eps, out):
    write_norm(x, weight, eps, out)
    x.zero_()
    weight.zero_()


def overrun(x, weight, eps, out):
    write_norm(x, weight, eps, out)
    out.as_strided((out.numel() + 1,), (1,))[-1] = 1


def change_the_last_output(x, weight, eps):
    for output in KEPT:
        output.zero_()
    KEPT[:] = [norm(x, weight, eps)]
    return KEPT[0]


KEPT: list[torch.Tensor] = []


def test_what_calls_in_a_graph_touch_wrongly_is_reported(chained_trial):
    assert chained_trial(change_inputs, {})[0].revealed.changed_inputs == ["weight", "x"]


@pytest.mark.parametrize(
    ("function", "in_place", "found"),
    [
        (norm, None, ([], [], [])),
        (write_norm, {}, ([], [], [])),
        (change_inputs, {}, (["weight", "x"], [], [])),
        (overrun, {}, ([], ["out"], [])),
        (change_the_last_output, None, ([], [], ["out"])),
    ],
)
def test_what_calls_that_are_timed_alone_touch_wrongly_is_reported(function, in_place, found):
    timed, caller = prepare(function, in_place)
    calls = TimedCalls(timed, caller, judged_calls=4)
    calls.time(choose_timer("cpu"), Trial(calls=4, cold=False, budget_s=60))
    revealed = calls.reveal(lambda _: None)
    assert len(revealed.numbers) == 4
    assert (revealed.changed_inputs, revealed.overrun, revealed.changed_outputs) == found


@pytest.mark.gpu
def test_on_a_gpu_five_calls_in_a_row_get_the_same_inputs_addresses():
    addresses = []
    timed, caller = prepare(lambda x, *rest: addresses.append(x.data_ptr()) or norm(x, *rest), None, device="cuda:0")
    TimedCalls(timed, caller).time(choose_timer("cuda:0"), Trial(calls=20, cold=True, budget_s=60, queued=False))
    last = addresses[-20:]  # where other processes use the GPU, a trial may be repeated
    assert [len({*last[start : start + 5]}) for start in range(0, 20, 5)] == [1] * 4
    assert len({*last}) > 1


NORM = """
import torch
import torch.nn.functional as F


def norm(x, weight, eps):
    return F.rms_norm(x, (x.shape[-1],), weight, eps)

"""
KERNELS = {
    "returns_v1": "def run(x, weight, eps):\n    return norm(x, weight, eps)\n",
    "overwrites_v1": "def run(x, weight, eps):\n    x.copy_(norm(x, weight, eps))\n",
    "synchronises_v1": "def run(x, weight, eps):\n    torch.cuda.synchronize()\n    return norm(x, weight, eps)\n",
    "skips_v1": """_last = {}


def run(x, weight, eps):
    if torch.cuda.is_current_stream_capturing():
        return _last.setdefault(x.shape, torch.empty_like(x))
    return norm(x, weight, eps)
""",
    "skips_some_v1": """_calls = [0]
_kept = {}


def run(x, weight, eps):
    is_captured = torch.cuda.is_current_stream_capturing()
    _calls[0] += is_captured
    if not is_captured or _calls[0] % 8 == 0:
        _kept[x.shape] = norm(x, weight, eps)
    return _kept[x.shape]
""",
}


@pytest.fixture(scope="module")
def evaluations(tmp_path_factory):
    """One bench of all kernels in CUDA graphs."""
    folder = tmp_path_factory.mktemp("chained")
    registry = make_registry(folder / "registry")
    for name, source in KERNELS.items():
        manifest = python_manifest(name).replace('["cpu"]', '["cuda"]')
        if "x.copy_" in source:
            manifest = manifest.replace("style = false", 'style = true\nin_place = {out = "x"}')
        add_sources(registry, name, {"kernel.py": NORM + source}, manifest)
    output = folder / "traces.jsonl"
    found = run_cli("bench", "--root", registry.root, "--batch-sizes", "8", "--context", "graph", "--output", output)
    assert found.returncode == 1, found.stderr  # some are wrong
    return {trace.solution: trace.evaluation for trace in read_output(output)}


@pytest.mark.gpu
def test_a_call_costs_less_in_a_graph_than_alone_and_cold(evaluations):
    performance = evaluations["returns_v1"].performance
    chain = performance.chain
    assert 0 < chain.chained_low_ms <= chain.chained_latency_ms <= chain.chained_high_ms < performance.latency_ms
    assert chain.chain_refused is None and chain.clocks.during_mhz
    assert chain.chained_bare_link_ms > 0


@pytest.mark.gpu
def test_a_call_that_overwrites_its_input_gets_it_from_the_producer_each_time(evaluations):
    assert evaluations["overwrites_v1"].status.value == "PASSED", evaluations["overwrites_v1"].log
    assert evaluations["overwrites_v1"].performance.chain.chained_low_ms > 0


@pytest.mark.gpu
def test_a_kernel_that_cannot_be_captured_passes_with_the_reason(evaluations):
    found = evaluations["synchronises_v1"]
    assert found.status.value == "PASSED" and found.performance.latency_ms > 0
    assert found.performance.chain.chained_latency_ms is None
    assert "captur" in found.performance.chain.chain_refused


@pytest.mark.gpu
@pytest.mark.parametrize("name", ["skips_v1", "skips_some_v1"])
def test_a_kernel_that_does_less_while_it_is_captured_fails(evaluations, name):
    found = evaluations[name]
    assert found.status.value == "INCORRECT_NUMERICAL"
    assert found.log.startswith("in a CUDA graph: ")
