"""`fib-rmsnorm bench` as its user meets it: exit codes, files, --resume, and every way of being interrupted."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest
from registries import (
    QUICK_OPTIONS,
    RIGHT,
    WRONG,
    add_kernel,
    add_sources,
    cli_command,
    cli_environment,
    keys,
    python_manifest,
    run_cli,
)

from fib_rmsnorm.cli import main
from fib_rmsnorm.registry import Registry
from fib_rmsnorm.registry.store import read_jsonl
from fib_rmsnorm.schema import Trace

SLOW = RIGHT.replace("    x_fp32 = x.float()\n", "    import time\n\n    time.sleep(0.01)\n    x_fp32 = x.float()\n")


@dataclass(frozen=True)
class Ended:
    returncode: int
    stdout: str
    stderr: str


@pytest.fixture
def bench(registry, monkeypatch, capsys):
    """Runs the command in this process, which has torch imported already."""

    def run(*arguments: str | Path) -> Ended:
        monkeypatch.setattr(sys, "argv", ["fib-rmsnorm", "bench", "--root", str(registry.root), *map(str, arguments)])
        with pytest.raises(SystemExit) as caught:
            main()
        return Ended(caught.value.code, *capsys.readouterr())

    return run


def start_bench(registry: Registry, *arguments: str | Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        cli_command("bench", "--root", registry.root, *QUICK_OPTIONS, *arguments),
        env=cli_environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def printed(output: str) -> list[tuple[str, int]]:
    """(solution, batch) of each line that tells of an evaluation."""
    words = [line.split() for line in output.splitlines() if line.startswith("batch=")]
    return [(found[1], int(found[0].removeprefix("batch="))) for found in words]


def read_output(path: Path) -> list[Trace]:
    if path.suffix == ".jsonl":
        return read_jsonl(path, Trace)
    return [Trace.model_validate(record) for record in json.loads(path.read_text())]


def test_everything_passes(registry, tmp_path):
    add_kernel(registry, "right_v1")
    found = run_cli("bench", "--root", registry.root, *QUICK_OPTIONS, "--output", tmp_path / "traces.json")
    assert found.returncode == 0, found.stderr
    assert printed(found.stdout) == [("right_v1", 1), ("right_v1", 8)]
    assert "2 passed, 0 failed" in found.stderr
    traces = read_output(tmp_path / "traces.json")
    assert traces == registry.traces()
    assert keys(traces) == [("right_v1", 1), ("right_v1", 8)]
    for trace in traces:
        evaluation = trace.evaluation
        assert evaluation.performance.timer == "cpu_clock"
        assert evaluation.performance.samples == 3
        assert evaluation.environment.libs["torch"]
        assert evaluation.correctness.extra["tolerance"]["out"] == {"rtol": 1e-3, "atol": 4 * 2.0**-24}


def test_a_failure_is_exit_code_1_and_a_trace(registry, bench, tmp_path):
    add_kernel(registry, "right_v1")
    add_kernel(registry, "wrong_v1", WRONG)
    found = bench(*QUICK_OPTIONS, "--output", tmp_path / "traces.jsonl")
    assert found.returncode == 1
    assert "2 passed, 2 failed" in found.stderr
    statuses = {(t.solution, t.evaluation.status.value) for t in read_output(tmp_path / "traces.jsonl")}
    assert statuses == {("right_v1", "PASSED"), ("wrong_v1", "INCORRECT_NUMERICAL")}


def test_a_broken_reference_is_exit_code_1_and_no_trace(registry, bench):
    add_kernel(registry, "right_v1")
    definition = registry.definition("rmsnorm_d128")
    broken = definition.reference.replace("import torch\n", "import torch\nimport not_installed\n", 1)
    registry.write_definition(definition.model_copy(update={"reference": broken}))
    found = bench(*QUICK_OPTIONS)
    assert found.returncode == 1
    assert "the reference of rmsnorm_d128 failed" in found.stderr
    assert registry.traces() == []


BAD_INPUT = {
    "unknown definition": (["--definitions", "nope"], "no definition matches 'nope'"),
    "unknown solution": (["--solutions", "nope"], "no solution matches 'nope'"),
    "unknown author": (["--authors", "nope"], "no author matches 'nope'"),
    "unknown language": (["--languages", "fortran"], "unknown language 'fortran'"),
    "unknown device": (["--device", "tpu"], "unknown device 'tpu'"),
    "missing device": (["--device", "cuda:99"], "no device 'cuda:99'"),
    "batch of zero": (["--batch-sizes", "0"], "'0' is no positive whole number"),
    "negative batch": (["--batch-sizes", "-1"], "'-1' is no positive whole number"),
    "batch that is no number": (["--batch-sizes", "1,abc"], "'abc' is no positive whole number"),
    "batch that is no decimal": (["--batch-sizes", "²"], "'²' is no positive whole number"),
    "batch without a workload": (["--batch-sizes", "1000000000"], "batch 1000000000"),
    "output of another kind": (["--output", "traces.csv"], "must end in .json or .jsonl"),
    "output in no folder": (["--output", "/no/such/folder/t.json"], "no such folder"),
    "output that cannot be written": (["--output", "/proc/traces.json"], "/proc/traces.json"),
    "negative tolerance": (["--rtol", "-1"], "--rtol"),
    "no iterations": (["--iterations", "0"], "--iterations"),
    "timeout of zero": (["--timeout", "0"], "--timeout"),
    "unknown option": (["--frobnicate"], "--frobnicate"),
    "stray argument": (["stray"], "stray"),
    "missing root": (["--root", "/no/such/root"], "no such folder: /no/such/root"),
}


@pytest.mark.parametrize("name", BAD_INPUT)
def test_bad_input_is_one_line_and_exit_code_2(registry, bench, name):
    add_kernel(registry, "right_v1")
    arguments, said = BAD_INPUT[name]
    before = sorted(registry.root.rglob("*"))
    found = bench("--device", "cpu", *arguments)
    assert found.returncode == 2, found.stderr
    assert said in found.stderr
    assert len(found.stderr.splitlines()) == 1
    assert found.stdout == ""
    assert sorted(registry.root.rglob("*")) == before


def test_a_kernel_that_does_not_name_the_device_is_told_where_to(registry, bench):
    manifest = python_manifest("right_v1").replace('["cpu"]', '["cuda"]')
    add_sources(registry, "right_v1", {"kernel.py": RIGHT}, manifest)
    found = bench(*QUICK_OPTIONS, "--solutions", "right_v1")
    assert found.returncode == 2
    assert "right_v1: made for cuda, not for cpu (target_hardware in its solution.toml)" in found.stderr


@pytest.mark.parametrize(
    ("solutions", "said"),
    [
        ((), "{root} has no Solution of rmsnorm_d128; see: fib-rmsnorm list"),
        (("cuda_v1",), "cuda_v1: "),
        (("cuda_v1", "cuda_v2"), "(and 1 more; see: fib-rmsnorm list solutions)"),
    ],
)
def test_if_nothing_can_be_evaluated_it_says_so_and_writes_nothing(registry, bench, tmp_path, solutions, said):
    for name in solutions:
        manifest = python_manifest(name).replace('"python"', '"cuda"').replace("kernel.py", "kernel.cu")
        add_sources(registry, name, {"kernel.cu": "// no GPU runs this here"}, manifest)
    before = sorted(tmp_path.rglob("*"))
    found = bench(*QUICK_OPTIONS, "--output", tmp_path / "traces.json")
    assert found.returncode == 2
    assert found.stdout == ""
    (line,) = found.stderr.splitlines()
    assert line.startswith("fib-rmsnorm: nothing to evaluate on cpu: ")
    assert said.format(root=registry.root) in line
    assert sorted(tmp_path.rglob("*")) == before  # what would have been packed is not either


def test_resume_skips_what_has_passed_and_retries_what_failed(registry, bench, tmp_path):
    add_kernel(registry, "right_v1")
    folder = registry.layout.solutions / "tester/norm/rmsnorm_d128/unsteady_v1"
    flag = tmp_path / "flag"
    unsteady = RIGHT.replace("    x_fp32 = x.float()\n", f"    open({str(flag)!r}).close()\n    x_fp32 = x.float()\n")
    add_kernel(registry, "unsteady_v1", unsteady)
    assert bench(*QUICK_OPTIONS).returncode == 1
    assert len(registry.traces()) == 4

    flag.touch()
    found = bench(*QUICK_OPTIONS, "--resume", "--output", tmp_path / "traces.json")
    assert found.returncode == 0, found.stderr
    assert "4 passed, 0 failed, 2 of them from earlier runs" in found.stderr
    assert len(read_output(tmp_path / "traces.json")) == 4
    assert keys(registry.traces())[4:] == [("unsteady_v1", 1), ("unsteady_v1", 8)]

    assert "4 of them from earlier runs" in bench(*QUICK_OPTIONS, "--resume").stderr
    assert len(registry.traces()) == 6

    # Another source, and other settings, are another evaluation.
    (folder / "kernel.py").write_text(unsteady + "\n# edited\n")
    assert "2 of them from earlier runs" in bench(*QUICK_OPTIONS, "--resume").stderr
    assert keys(registry.traces())[6:] == [("unsteady_v1", 1), ("unsteady_v1", 8)]
    assert "earlier runs" not in bench(*QUICK_OPTIONS, "--resume", "--rtol", "0.002").stderr
    assert len(registry.traces()) == 12
    assert registry.traces()[-1].evaluation.settings.rtol == 0.002
    assert registry.traces()[-1].evaluation.correctness.extra["tolerance"]["out"]["rtol"] == 0.002


def test_resume_takes_nothing_from_other_hardware(registry, bench):
    add_kernel(registry, "right_v1")
    assert bench(*QUICK_OPTIONS, "--batch-sizes", "1").returncode == 0
    (path,) = registry.layout.traces.rglob("*.jsonl")
    trace = json.loads(path.read_text())
    trace["evaluation"]["environment"]["hardware"] = "Another CPU"
    path.write_text(json.dumps(trace) + "\n")
    assert "earlier runs" not in bench(*QUICK_OPTIONS, "--batch-sizes", "1", "--resume").stderr
    assert len(registry.traces()) == 2


def read_until_evaluated(process: subprocess.Popen[str], count: int) -> str:
    lines = ""
    while len(printed(lines)) < count:
        line = process.stdout.readline()
        if not line:
            break
        lines += line
    return lines


def processes_below(process: subprocess.Popen[str]) -> list[psutil.Process]:
    return psutil.Process(process.pid).children(recursive=True)


def assert_gone(processes: list[psutil.Process]) -> None:
    _, alive = psutil.wait_procs(processes, timeout=5)
    assert [process for process in alive if process.status() != psutil.STATUS_ZOMBIE] == []


@pytest.mark.parametrize("evaluated", [0, 1, 3])
def test_ctrl_c_ends_within_two_seconds_and_keeps_what_is_finished(registry, tmp_path, evaluated):
    for number in range(3):
        add_kernel(registry, f"slow_v{number}", SLOW)
    sleep = "    if x.shape[0] == 8:\n        __import__('time').sleep(600)\n    x_fp32 = x.float()\n"
    add_kernel(registry, "zhang_v1", RIGHT.replace("    x_fp32 = x.float()\n", sleep))
    output = tmp_path / "traces.json"
    process = start_bench(registry, "--output", output)
    lines = read_until_evaluated(process, evaluated) if evaluated else process.stderr.readline()
    if evaluated == 3:
        time.sleep(0.5)  # the next one sleeps for ever
    below = processes_below(process)
    started = time.monotonic()
    process.send_signal(signal.SIGINT)
    rest, errors = process.communicate(timeout=20)
    assert time.monotonic() - started < 2
    assert process.returncode == 130, errors
    assert "Traceback" not in errors
    last = errors.splitlines()[-1]
    assert last == "fib-rmsnorm: interrupted; what is finished is kept: --resume goes on from there"
    seen = printed(lines + rest)
    assert set(seen) <= set(keys(registry.traces()))
    assert len(seen) >= evaluated
    if seen:
        assert set(seen) <= set(keys(read_output(output)))
    assert_gone(below)


def test_ctrl_c_while_the_workers_start(registry):
    """Before anything is printed: torch is still being imported, here and in the workers' parent."""
    add_kernel(registry, "right_v1")
    for delay in (0.3, 1.0, 1.7):
        process = start_bench(registry)
        time.sleep(delay)
        below = processes_below(process)
        started = time.monotonic()
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=20)
        assert time.monotonic() - started < 2
        assert process.returncode == 130, errors
        assert "Traceback" not in errors
        assert_gone(below)


def bench_until_killed(registry: Registry, output: Path, moments: random.Random, kills: int) -> None:
    """Kill bench again and again, each time going on with --resume; then let it finish."""
    for number in range(3):
        add_kernel(registry, f"right_v{number}", RIGHT)
    everything = {(f"right_v{number}", batch) for number in range(3) for batch in (1, 8)}
    for _ in range(kills):
        already = set(keys(registry.traces()))
        process = start_bench(registry, "--resume", "--output", output)
        lines = read_until_evaluated(process, moments.randint(0, len(everything) - 1))
        time.sleep(moments.uniform(0, 0.1))
        below = processes_below(process)
        process.kill()
        lines += process.communicate(timeout=20)[0]
        seen = set(printed(lines))
        recorded = keys(registry.traces())
        assert seen <= set(recorded)
        assert already <= set(recorded)
        assert len(recorded) == len(set(recorded)), "an evaluation was repeated"
        if seen:
            assert seen <= set(keys(read_output(output)))
        assert_gone(below)
        if set(recorded) == everything:
            registry.layout.traces.rename(registry.root / f"traces{time.monotonic_ns()}")
    found = run_cli("bench", "--root", registry.root, *QUICK_OPTIONS, "--resume", "--output", output)
    assert found.returncode == 0, found.stderr
    assert sorted(keys(registry.traces())) == sorted(everything)
    assert sorted(keys(read_output(output))) == sorted(everything)


def test_sigkill_loses_nothing_that_was_printed(registry, tmp_path):
    bench_until_killed(registry, tmp_path / "traces.json", random.Random(1), kills=4)


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("suffix", ["json", "jsonl"])
def test_sigkill_at_twenty_moments(registry, tmp_path, suffix):
    bench_until_killed(registry, tmp_path / f"traces.{suffix}", random.Random(2), kills=20)
