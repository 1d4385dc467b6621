import re

import pytest

from fib_rmsnorm.schema import REFERENCE, digest
from support.full_registry import CUDA, CUDA_TRACES, DEFINITION, DEFINITION_FILE, PYTHON, make_trace
from support.paths import write
from support.record_faults import edit
from support.registries import RIGHT, add_kernel, make_registry
from support.trace_json import lines, trace, upstream_trace


def test_it_opens_with_the_answer_and_has_one_table(fib, file):
    outcome = fib("report", file(trace("slow_v1", latency_ms=0.004), trace("fast_v1"), trace(batch=32)))
    assert outcome.code == 0
    assert outcome.lines[0] == "rmsnorm_d4096 on NVIDIA H200, cupti, 1980 MHz, cold L2"
    said = "fast_v1 is the fastest on both workloads. It reaches 70% of the speed of a copy of the same bytes and"
    assert " ".join(outcome.lines[2:4]) == f"{said} 30.0x that of the reference."
    assert outcome.lines[5].split()[:3] == ["workload", "solution", "latency"]
    assert [line.split()[:2] for line in outcome.lines[6:10]] == [
        *(["batch=8", "fast_v1"], ["batch=8", "slow_v1"], [], ["batch=32", "fast_v1"])
    ]
    assert " ".join(outcome.lines[6].split()) == "batch=8 fast_v1 2.00 us 69.6 GB/s 70% 1.4% 30.0x 4.00 us"


def test_the_registrys_baseline_is_found(fib, full_registry):
    outcome = fib("report", "--root", full_registry.root)
    assert {row["baseline"] for row in fib("report", "--json").json["results"]} == {PYTHON, None}
    assert "INCORRECT_NUMERICAL" in outcome.row(CUDA, "INCORRECT_NUMERICAL")


@pytest.fixture
def redefined(full_registry):
    """A registry whose Definition has changed since its Traces, of which one Workload was measured again."""
    definition = full_registry.definition(DEFINITION)
    changed = definition.model_copy(update={"tags": ["changed"]})
    full_registry.write_definition(changed)
    solution, workload = full_registry.packed_solutions()[PYTHON], full_registry.workloads(DEFINITION)[0]
    again = make_trace(solution, workload, timestamp="2025-01-01T00:00:00+00:00")
    again.evaluation.definition_sha256 = digest(changed)
    full_registry.append_trace(again, "baseline", "norm")
    return full_registry


LEFT_OUT = f"fib-rmsnorm: 4 Traces of another version of Definition {DEFINITION} (left out)\n"


@pytest.mark.parametrize("command", ["report", "best", "analyze"])
def test_traces_of_another_version_of_the_registrys_definition_are_left_out(fib, redefined, command):
    """Also newer ones, as of a Definition that was changed back."""
    outcome = fib(command)
    assert (outcome.code, outcome.err) == (0, LEFT_OUT)
    assert "batch=1" in outcome.out and "batch=8" not in outcome.out and CUDA not in outcome.out
    assert fib(command, "--solutions", PYTHON).err == LEFT_OUT.replace("4", "2")


def test_traces_of_another_version_alone_are_shown_but_nothing_is_chosen_by_them(fib, redefined):
    for command in ("report", "analyze"):
        outcome = fib(command, "--batch-sizes", "8")
        assert outcome.err.endswith(f": 2 Traces of another version of Definition {DEFINITION} than the registry's\n")
        assert outcome.code == 0 and "batch=8" in outcome.out
    outcome = fib("best", "--batch-sizes", "8")
    assert (outcome.code, outcome.out) == (2, "")


def test_of_a_definition_that_no_registry_has_the_version_of_the_newest_trace_counts(fib, file, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = file(
        trace("old_v1", definition_sha="cc1", timestamp="2026-01-01"),
        trace("new_v1", definition_sha="dd2", timestamp="2026-01-02"),
        trace("plain_v1", timestamp="2025-01-01"),
    )
    outcome = fib("report", path)
    assert outcome.err == "fib-rmsnorm: 1 Trace of another version of Definition rmsnorm_d4096 (left out)\n"
    assert "new_v1" in outcome.out and "plain_v1" in outcome.out and "old_v1" not in outcome.out


@pytest.mark.parametrize("command", ["report", "best", "analyze"])
def test_sources_that_changed_since_they_were_packed_and_measured_are_told_apart(fib, tmp_path, monkeypatch, command):
    """A bench would pack them: the kernel of that name is not what was measured."""
    registry = make_registry(tmp_path / "registry", batch_sizes=(1,))
    monkeypatch.chdir(registry.root)
    add_kernel(registry, "mine_v1", RIGHT)
    (solution,), (workload,) = registry.packed_solutions().values(), registry.workloads("rmsnorm_d128")
    registry.append_trace(make_trace(solution, workload), "tester", "norm")
    assert (fib(command).err, "(earlier: " in fib(command).out) == ("", False)
    (source,) = registry.layout.solutions.rglob("kernel.py")
    source.write_text(source.read_text() + "\n")
    outcome = fib(command)
    assert f"mine_v1 (earlier: {digest(solution)[:6]})" in outcome.out
    changed = add_kernel(registry, "mine_v1", source.read_text())
    registry.append_trace(make_trace(changed, workload, timestamp="2026-11-01T00:00:00+00:00"), "tester", "norm")
    source.write_text(RIGHT)  # changed back: what was measured first is today's
    outcome = fib(command)
    assert outcome.err == "" and digest(solution)[:6] not in outcome.out
    assert f"mine_v1 (earlier: {digest(changed)[:6]})" in outcome.out


def test_a_definition_under_another_name_counts_as_missing(fib, full_registry):
    """`validate` tells of it."""
    edit(DEFINITION_FILE, "name", "other")
    for command in ("report", "analyze", "best"):
        outcome = fib(command)
        assert (outcome.code, outcome.err) == (0, "")
        assert CUDA in outcome.out


def test_doubts_are_marked_and_explained_by_the_name_that_show_takes(fib, file):
    other = trace(noisy=["busy"])
    other["workload"]["uuid"], other["workload"]["inputs"]["eps"]["value"] = "other", 0.1
    assert "Noisy: fast_v1@batch=8,eps=0.1: busy" in fib("report", file(trace(), other)).lines
    outcome = fib("report", file(trace("odd", noisy=["too fast"]), trace("toy", interpreted=True)))
    assert outcome.row("odd", "2.00").endswith("noisy") and "30.0x" in outcome.row("odd", "2.00")
    assert outcome.row("toy").split() == ["batch=8", "toy", "correct"]
    assert "Noisy: odd@batch=8: too fast" in outcome.lines


@pytest.mark.parametrize("judged_by", [REFERENCE, "rmsnorm", None])
def test_what_no_operator_judged_is_marked(fib, file, judged_by):
    found = trace()
    found["evaluation"]["judged_by"] = judged_by
    said = " ".join(fib("report", file(found)).out.split())
    assert ("Judged by the reference alone, on the Workload's inputs" in said) is (judged_by == REFERENCE)


def test_what_a_call_costs_in_a_graph_stands_beside_the_latency(fib, file):
    both = {"links": 40, "chained_latency_ms": 0.0014, "dependent_latency_ms": 0.0009}
    doubted: dict = {"links": 40, "chained_latency_ms": 0.0013, "chained_low_ms": 0.00118, "chained_high_ms": 0.00142}
    doubted["chain_noisy"] = ["the clock moved"]
    path = file(
        trace("both_v1", chain=both, settings={"context": "graph"}),
        trace("doubted_v1", chain=doubted, settings={"context": "graph"}),
        trace("stuck_v1", chain={"links": 40, "chain_refused": "it waits"}, settings={"context": "graph"}),
    )
    found = fib("report", path)
    assert re.split(r"\s{2,}", found.row("both_v1", "2.00"))[2:5] == ["2.00 us", "1.40 us", "0.90 us"]
    assert "1.30 us ±9%" in found.row("doubted_v1", "2.00") and "not captured" in found.row("stuck_v1", "2.00")
    assert "Noisy: doubted_v1@batch=8: in a graph: the clock moved" in found.lines
    assert "Not captured in a graph: stuck_v1: it waits" in found.lines
    first = fib("report", path, "--json").json["results"][0]
    assert (first["chained_latency_ms"], first["dependent_latency_ms"]) == (0.0014, 0.0009)
    assert "in a graph" not in fib("report", file(trace())).out


def test_a_speedup_is_the_ratio_of_the_two_numbers_beside_it(fib, file):
    """Whatever the Trace says, and however wide an interval is."""
    wide = {"reference_latency_ms": 0.053, "reference_low_ms": 0.04, "reference_high_ms": 0.06, "speedup_factor": 1.09}
    path = file(trace("a_v1", latency_ms=0.044, **wide))
    assert "1.20x" in fib("report", path).row("a_v1", "us")
    (found,) = fib("report", path, "--json").json["results"]
    assert found["speedup"] == pytest.approx(0.053 / 0.044)
    assert found["speedup_low"] < 1 < found["speedup_high"]
    assert found["vs_baseline"] is None


def test_older_traces_are_left_out_and_counted(fib, file):
    older = trace(timestamp="2026-03-01", latency_ms=0.001)
    assert any(line.startswith("1 older Trace not shown: ") for line in fib("report", file(trace(), older)).lines)


def test_traces_of_upstream_get_their_bytes_from_the_definition(fib, full_registry):
    theirs = upstream_trace(batch=8)
    theirs["definition"] = DEFINITION
    path = write("traces/ann/norm/more.jsonl", lines(theirs))
    row = fib("report", path).row("batch=8", "fast_v1")
    assert "0.19 GB/s" in row and "0.01%" in row  # 4352 bytes in 23 us, of the A100's 2039 GB/s


def test_a_report_names_no_folder_of_the_machine(fib, full_registry, tmp_path):
    """It is passed on. Within a registry a path from its root finds the Trace, elsewhere the file's name must do."""
    elsewhere = write(tmp_path / "mine" / "out.jsonl", (full_registry.root / CUDA_TRACES).read_text())
    for source, place in ((full_registry.root, f"{CUDA_TRACES}:1"), (elsewhere, "out.jsonl:1")):
        assert fib("report", source, "--output", tmp_path / "report.html").code == 0
        for text in (fib("report", source, "--json").out, (tmp_path / "report.html").read_text()):
            assert str(tmp_path) not in text
            assert place in text


NAMES = {"solution", "language", "workload", "place"}
"""Columns that say what they are."""


@pytest.mark.parametrize("command", ["report", "best"])
def test_the_help_explains_every_column(fib, file, command):
    shown = fib(command, file(trace("a"), trace("b", latency_ms=0.003))).lines
    assert shown[-1] == "What each word and column means: fib-rmsnorm report --help"
    headings = [line for line in shown if re.match("workload|place", line)]
    columns = {column for line in headings for column in re.split("  +", line)}
    explained = fib("report", "--help").out
    assert len(columns) > 4 and [column for column in columns - NAMES if f"  {column}: " not in explained] == []


def test_a_bound_on_latencies_is_a_gate(fib, file):
    """Document 000 asks for less than 0.02 ms."""
    traces = [trace("fast_v1"), trace("slow_v1", latency_ms=0.03, latency_low_ms=0.029, latency_high_ms=0.031)]
    both, fast = file(*traces), file(traces[0])
    outcome = fib("report", both, "--max-latency", "0.02ms")
    assert outcome.code == 1 and outcome.err == "slow_v1 at batch=8: slower than 20.0 us\n"
    assert fib("report", fast, "--max-latency", "20us").code == 0
    unsure = fib("report", both, "--max-latency", "30us")
    assert unsure.code == 2 and "cannot judge slow_v1 at batch=8: " in unsure.err
    failed = file(traces[0], trace("wrong_v1", status="RUNTIME_ERROR"))
    assert fib("report", failed, "--max-latency", "20us").code == 1
    assert "expected a time with its unit" in fib("report", fast, "--max-latency", "20").refusal
