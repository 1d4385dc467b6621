"""Files of Traces: read whole, in part, or told why not, in little memory."""

import gc
import json
import re
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

from fib_rmsnorm import load
from fib_rmsnorm.analysis.loading import decode_traces
from support.command_line import cli_command, cli_environment
from support.paths import PUBLISHED, write
from support.registries import make_empty_registry
from support.trace_json import lines, trace, upstream_trace


@pytest.fixture(autouse=True)
def strict():
    """A warning that a test does not expect is a failure, but for those of files that earlier tests left open."""
    gc.collect()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


def read(*paths: Path) -> tuple[list, list[str]]:
    found = decode_traces(list(paths))
    return found.records, found.faults


def test_every_form_of_file_gives_the_same_records(tmp_path):
    traces = [trace(batch=1), trace(batch=8)]
    forms = {
        "lines.jsonl": lines(*traces),
        "array.json": json.dumps(traces),
        "indented.json": json.dumps(traces, indent=2),
        "lines.json": lines(*traces),
        "array.txt": f"\n {json.dumps(traces)}\n".lstrip(),
    }
    found = [[record.axes for record in load(write(tmp_path / name, text))] for name, text in forms.items()]
    assert found == [[{"batch": 1}, {"batch": 8}]] * len(forms)
    (alone,) = load(write(tmp_path / "one.json", json.dumps(trace(), indent=2)))
    assert (alone.solution, alone.line) == ("fast_v1", 1)


def test_a_record_is_flat_and_has_what_the_trace_says(tmp_path):
    (record,) = load(write(tmp_path / "t.jsonl", lines(trace(noisy=["doubt"]))))
    row = record.as_row()
    assert (row["batch"], row["eps"], row["copy_ms"], row["during_mhz"]) == (8, 1e-6, 0.0014, 1980.0)
    assert (row["latency_ms"], row["num_trials"], row["noisy"]) == (0.002, 4, ["doubt"])
    assert not any(isinstance(value, dict) for value in row.values())
    assert record.is_native


def test_the_default_is_the_registry_at_hand(tmp_path, monkeypatch):
    make_empty_registry(tmp_path)
    write(tmp_path / "traces/published/norm/t.jsonl", PUBLISHED.read_text())
    monkeypatch.chdir(tmp_path / "traces")
    records = load()
    assert len(records) == len(load(PUBLISHED))
    assert {record.author for record in records} == {None}, "the folder of published Traces is no author"


def test_both_layouts_of_upstream_are_read(tmp_path):
    write(tmp_path / "traces/norm/rmsnorm_d4096.jsonl", lines(upstream_trace("a")))
    write(tmp_path / "traces/ann/norm/rmsnorm_d4096.jsonl", lines(upstream_trace("b")))
    write(tmp_path / "workloads/norm/rmsnorm_d4096.jsonl", lines(upstream_trace("not a trace")))
    assert {(record.solution, record.author) for record in load(tmp_path)} == {("a", None), ("b", "ann")}


BAD_LINE = lines(trace(batch=1)) + '{"definition": "r\n' + lines(trace(batch=2)) + "[]\n"


@pytest.mark.parametrize(
    ("name", "text", "read_before", "said"),
    [
        ("t.jsonl", BAD_LINE, [1, 2], r":2: not JSON: .*\(skipped; and 1 more in this file\)"),
        ("t.json", json.dumps([trace(), trace()])[:-40], [], ".*not a JSON array.*"),
        ("t.json", "", [], r": is empty \(skipped\)"),
        ("t.json", " \n", [], r": is empty \(skipped\)"),
        (
            "t.jsonl",
            lines(trace(latency_ms=0.1, samples="many")),
            [],
            r".*Expected `int \| null`, got `str` - at `\$.evaluation.performance.samples`.*",
        ),
    ],
)
def test_what_cannot_be_read_is_reported_and_the_rest_is_read(tmp_path, name, text, read_before, said):
    path = write(tmp_path / name, text)
    records, (line,) = read(path)
    assert [record.axes["batch"] for record in records] == read_before
    assert re.fullmatch(re.escape(str(path)) + said, line)


def test_a_file_of_lines_may_be_empty_as_before_its_first(tmp_path):
    assert read(write(tmp_path / "empty.jsonl", " \n")) == ([], [])


def test_what_is_infinite_is_unknown(tmp_path):
    odd = trace(host_overhead_us=float("inf"))
    (record,) = load(write(tmp_path / "t.jsonl", lines(odd)))
    assert record.host_overhead_us is None and record.latency_ms == 0.002


def test_the_library_warns(tmp_path):
    with pytest.warns(UserWarning, match=r"t.jsonl:1: not JSON"):
        assert load(write(tmp_path / "t.jsonl", "{\n")) == []


MEASURE = """\
import resource, subprocess, sys
subprocess.run(sys.argv[1:], check=True)
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss, file=sys.stderr)
"""
"""Of a process that has used little itself: a child begins with what its parent has in memory."""


@pytest.mark.endurance
def test_what_a_hundred_thousand_traces_take_of_the_memory_does_not_grow_with_them(tmp_path):
    """Beyond what a file that is read whole may take."""
    path = tmp_path / "traces.jsonl"
    body = lines(*(trace(f"kernel_{number % 50}_v1", batch=1 << number % 17) for number in range(1000)))
    path.write_text(body * 100)
    command = [sys.executable, "-c", MEASURE, *cli_command("report", path, "--json")]
    found = subprocess.run(command, capture_output=True, text=True, env=cli_environment(), check=True)
    assert json.loads(found.stdout)["superseded"] == 100_000 - 850
    assert int(found.stderr) << 10 < 250 << 20
