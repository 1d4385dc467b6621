"""A scheduler that is killed while it records loses nothing that it has said, and leaves files that go on."""

import multiprocessing
import os
import signal
from contextlib import closing
from pathlib import Path

import pytest

from fib_rmsnorm.evaluation.bench import BenchOptions, OutputFile, Started, bench, collect_records, record
from fib_rmsnorm.evaluation.plan import Selection
from fib_rmsnorm.operators import RmsNorm
from fib_rmsnorm.registry import Registry, store
from fib_rmsnorm.registry.seals import Sealer
from fib_rmsnorm.schema import Trace
from support.full_registry import DEFINITION, PYTHON, make_trace
from support.registries import RIGHT, add_sources, python_manifest, read_output

FORK = multiprocessing.get_context("fork")  # importing torch in each process would take most of the time
MOMENTS = ("amid its line in the registry", "between the registry and the output", "amid the output", "after both")


def die(*_: object, **__: object) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


class Torn:
    """Stands in for the module `os` of the store: it writes half of what it is given and dies."""

    replace = staticmethod(die)

    def __getattr__(self, name: str) -> object:
        return getattr(os, name)

    def write(self, descriptor: int, data: memoryview) -> None:
        os.write(descriptor, data[: len(data) // 2])
        die()


def arm(moment: str) -> None:
    """Have this process die at that moment of the next record."""
    patch, add = pytest.MonkeyPatch(), OutputFile.add

    def add_torn(output: OutputFile, trace: Trace) -> None:
        patch.setattr(store, "os", Torn())
        add(output, trace)

    if moment == "amid its line in the registry":
        patch.setattr(store, "os", Torn())
    if moment == "between the registry and the output":
        patch.setattr(OutputFile, "add", die)
    if moment == "amid the output":
        patch.setattr(OutputFile, "add", add_torn)


def record_all(registry: Registry, output: Path, traces: list[Trace], said: Path, *, moment: str, kept: int) -> None:
    """Record Traces and say so of each, as a bench does, until it dies at a moment of the one after `kept`."""
    with OutputFile(output) as file:
        records = collect_records(registry)
        for number, trace in enumerate(traces):
            if number == kept:
                arm(moment)
            record(registry, records, file, Sealer(None), trace)
            if number == kept:
                die()
            with said.open("a") as lines:
                lines.write(f"{trace.evaluation.timestamp}\n")


def times(traces: list[Trace]) -> list[str]:
    """Those of the test's own Traces, which are digits."""
    return [time for trace in traces if (time := trace.evaluation.timestamp).isdigit()]


@pytest.mark.parametrize("suffix", ["json", "jsonl"])
@pytest.mark.parametrize("kept", [0, 2], ids=["first", "third"])
@pytest.mark.parametrize("moment", MOMENTS)
def test_a_killed_scheduler_loses_nothing_and_the_next_goes_on(full_registry, tmp_path, moment, kept, suffix):
    output, said = tmp_path / f"traces.{suffix}", tmp_path / "said"
    trace = make_trace(full_registry.packed_solutions()[PYTHON], full_registry.workloads(DEFINITION)[0])
    traces = [
        trace.model_copy(update={"evaluation": trace.evaluation.model_copy(update={"timestamp": f"{number}"})})
        for number in range(4)
    ]
    said.touch()
    output.write_text("[]")
    options = {"moment": moment, "kept": kept}
    process = FORK.Process(target=record_all, args=(full_registry, output, traces, said), kwargs=options)
    process.start()
    process.join()
    assert process.exitcode == -signal.SIGKILL
    heard = said.read_text().split()
    assert heard == times(traces)[:kept]
    recorded = times(full_registry.traces())
    assert recorded in (heard, times(traces)[: kept + 1])
    is_begun = len(list(tmp_path.glob("*.unfinished.jsonl"))) == 1 if suffix == "json" else output.read_text() != "[]"
    assert (times(read_output(output)) if is_begun else []) in (heard, recorded)
    assert suffix == "jsonl" or output.read_text() == "[]"  # the old one stays until the new one is whole
    with OutputFile(output) as file:  # as --resume does: what is in the registry already goes to the output
        for each in traces[: len(recorded)]:
            file.add(each)
        records = collect_records(full_registry)
        for each in traces[len(recorded) :]:
            record(full_registry, records, file, Sealer(None), each)
    assert times(full_registry.traces()) == times(traces)
    assert times(read_output(output)) == times(traces)
    assert not list(tmp_path.glob("*.unfinished.jsonl"))


@pytest.mark.parametrize(
    ("selection", "solutions", "workloads"),
    [
        (Selection(definitions=("rmsnorm_d128",)), {"both_v1", "one_v1"}, {"rmsnorm_d128"}),
        (Selection(definitions=("rmsnorm_d256",)), {"both_v1_d256"}, {"rmsnorm_d128", "rmsnorm_d256"}),
        (Selection(solutions=("one_v1",)), {"one_v1"}, {"rmsnorm_d128"}),
        (Selection(), {"both_v1", "both_v1_d256", "one_v1"}, {"rmsnorm_d128", "rmsnorm_d256"}),
    ],
)
def test_only_what_is_chosen_is_written(registry, selection, solutions, workloads):
    """Before, nothing is packed, and rmsnorm_d256 has no Workloads."""
    registry.write_definition(RmsNorm().define(256))
    add_sources(registry, "both_v1", {"kernel.py": RIGHT}, f'definitions = ["rmsnorm_*"]\n{python_manifest("both_v1")}')
    add_sources(registry, "one_v1", {"kernel.py": RIGHT})
    with closing(bench(registry, BenchOptions(selection, device="cpu"))) as events:
        for event in events:
            if isinstance(event, Started):
                break
    assert set(registry.packed_solutions()) == solutions
    assert {name for name in registry.definitions() if registry.workloads(name)} == workloads
