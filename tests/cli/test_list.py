import shutil

import pytest

from fib_rmsnorm.machine import capabilities, devices
from fib_rmsnorm.machine.devices import Device
from support.full_registry import (
    CUDA,
    DEFINITION,
    DEFINITION_FILE,
    HARDWARE,
    PYTHON,
    PYTHON_FOLDER,
    PYTHON_SOURCE,
    add_sources,
    change_sources,
    make_trace,
)
from support.paths import write
from support.registries import pack_all


@pytest.fixture(autouse=True)
def toolkit(monkeypatch, tmp_path):
    """A machine with a CUDA toolkit and no GPU."""
    monkeypatch.setattr(devices, "cuda_devices", list)
    monkeypatch.setattr(capabilities, "find_cuda_home", lambda: tmp_path)
    return monkeypatch


def columns(line: str) -> list[str]:
    """The cells of a row: they are at least two spaces apart."""
    return [cell.strip() for cell in line.split("  ") if cell.strip()]


def test_the_overview_tells_what_there_is_of_everything(fib, full_registry):
    outcome = fib("list")
    assert outcome.code == 0
    assert outcome.lines[0] == f"Registry: {full_registry.root}"
    assert columns(outcome.row(DEFINITION)) == [DEFINITION, "norm", "batch, hidden=128", "2", "2", "4"]
    assert "Solutions on this machine: 1 run, 1 only compile" in outcome.lines


def test_solutions_and_what_they_can_do_here(fib, full_registry):
    outcome = fib("list", "solutions")
    assert columns(outcome.row(PYTHON)) == [PYTHON, "python", "baseline", DEFINITION, "2", "2", "run on cpu"]
    build = f"fib-rmsnorm solve --solutions {CUDA} --build --arch sm_90"
    assert columns(outcome.row(CUDA)) == [
        *(CUDA, "cuda", "ann", DEFINITION, "2", "1"),
        "compiles only",
        f"needs an NVIDIA GPU to run; to compile it here, run: {build}",
    ]


def test_solutions_run_on_the_device_they_are_made_for_which_gives_the_reason_if_not(fib, full_registry, toolkit):
    gpus = [Device(f"cuda:{index}", "Test GPU", 1 << 36) for index in range(2)]
    toolkit.setattr(devices, "cuda_devices", lambda: gpus)
    add_sources(full_registry, "ann", "rmsnorm_cpp_plain_v1", "cpp", {"kernel.cpp": "// run\n"})
    pack_all(full_registry)
    outcome = fib("list", "solutions")
    assert columns(outcome.row(CUDA))[-1] == "run on cuda"
    assert columns(outcome.row(PYTHON))[-1] == "run on cpu"
    toolkit.setattr(capabilities, "find_cxx", lambda: None)
    here = columns(fib("list", "solutions").row("rmsnorm_cpp_plain_v1"))[-1]
    assert here == "C++ needs a C++ compiler; run: apt-get install g++"


def test_workloads(fib, full_registry):
    outcome = fib("list", "workloads")
    first, second = full_registry.workloads(DEFINITION)
    cells = [columns(line) for line in outcome.lines[1:]]
    assert cells == [
        [first.uuid[:8], DEFINITION, "batch=1", "eps=1e-06", "768 B", "2"],
        [second.uuid[:8], DEFINITION, "batch=8", "eps=1e-06", "4.35 kB", "2"],
    ]


def test_traces_are_counted_by_definition_solution_and_hardware(fib, full_registry):
    solution, workload = full_registry.packed_solutions()[PYTHON], full_registry.workloads(DEFINITION)[0]
    full_registry.append_trace(make_trace(solution, workload, hardware="Other"), "baseline", "norm")
    outcome = fib("list", "traces")
    assert [columns(line) for line in outcome.lines[1:]] == [
        [CUDA, DEFINITION, "Test GPU", "2", "2", "2026-01-02", "1 PASSED, 1 INCORRECT_NUMERICAL"],
        [PYTHON, DEFINITION, HARDWARE, "2", "2", "2026-01-02", "2 PASSED"],
        [PYTHON, DEFINITION, "Other", "1", "1", "2026-01-02", "1 PASSED"],
    ]


def test_traces_of_earlier_contents_are_told_apart(fib, full_registry):
    """The Python Solution was changed after both of its Traces, and is wrong in the only one of today's content."""
    wrong = make_trace(
        change_sources(full_registry), full_registry.workloads(DEFINITION)[0], status="INCORRECT_NUMERICAL"
    )
    wrong.evaluation.timestamp = "2026-02-03T04:05:06.789+00:00"
    full_registry.append_trace(wrong, "baseline", "norm")
    outcome = fib("list", "solutions")
    assert outcome.lines[0].split() == [
        *("solution", "language", "author", "definition", "traces", "passed", "earlier", "here", "why")
    ]
    assert columns(outcome.row(PYTHON))[4:] == ["1", "0", "2", "run on cpu"]
    assert columns(outcome.row(CUDA))[4:7] == ["2", "1", "0"]
    row = columns(fib("list", "traces").row(PYTHON))
    assert row[3:] == ["1", "1", "2026-02-03", "1 INCORRECT_NUMERICAL (and 2 of earlier contents)"]


def test_traces_without_a_digest_count_as_of_today(fib, full_registry):
    """flashinfer-bench records none."""
    trace = make_trace(change_sources(full_registry), full_registry.workloads(DEFINITION)[0])
    trace.evaluation.solution_sha256 = None
    full_registry.append_trace(trace, "baseline", "norm")
    assert columns(fib("list", "solutions").row(PYTHON))[4:7] == ["1", "1", "2"]


def test_traces_of_a_solution_that_is_gone_are_of_no_earlier_content(fib, full_registry):
    change_sources(full_registry)
    full_registry.layout.solution("baseline", "norm", DEFINITION, PYTHON).unlink()
    shutil.rmtree(full_registry.root / PYTHON_FOLDER)
    assert columns(fib("list", "traces").row(PYTHON))[3:] == ["2", "2", "2026-01-02", "2 PASSED"]


def test_nothing_to_list_says_what_makes_it(fib, full_registry):
    for path in full_registry.layout.traces.rglob("*.jsonl"):
        path.unlink()
    outcome = fib("list", "traces")
    assert (outcome.code, outcome.out) == (0, "")
    assert outcome.err == f"No traces; create them with: fib-rmsnorm bench --definitions {DEFINITION}\n"
    assert fib("report").err.endswith(f"; create them with: fib-rmsnorm bench --definitions {DEFINITION}\n")
    assert fib("list", "traces", "--json").json == []


def test_an_empty_registry_begins_with_a_definition(fib, registry):
    outcome = fib("list", "solutions", "--root", registry.root)
    command = f"fib-rmsnorm new triton kernel.py --definition rmsnorm_d128 --root {registry.root}"
    assert outcome.err == f"No solutions; create them with: {command}\n"
    for path in registry.layout.definitions.rglob("*.json"):
        path.unlink()
    for arguments in ("list solutions", "list workloads", "list traces", "solve"):
        outcome = fib(*arguments.split(), "--root", registry.root)
        assert (outcome.code, outcome.out) == (0, "")
        assert outcome.err.endswith(f"; create them with: fib-rmsnorm define --root {registry.root}\n")


def test_json_has_what_the_tables_have(fib, full_registry):
    found = fib("list", "--json").json
    assert found["root"] == str(full_registry.root)
    assert found["definitions"][0]["axes"] == {"batch": None, "hidden": 128}
    by_name = {row["name"]: row for row in found["solutions"]}
    assert by_name[PYTHON]["here"] == {"ability": "run", "devices": ["cpu"], "note": ""}
    assert by_name[CUDA]["here"]["ability"] == "compile"
    assert [row["uuid"] for row in found["workloads"]] == [w.uuid for w in full_registry.workloads(DEFINITION)]
    assert found["traces"][0]["statuses"] == {"PASSED": 1, "INCORRECT_NUMERICAL": 1}


def test_a_dataset_of_definitions_alone_is_a_registry(fib, full_registry, tmp_path):
    for folder in ("solutions", "workloads", "traces"):
        shutil.rmtree(full_registry.root / folder)
    kernel = write(tmp_path / "kernel.py", PYTHON_SOURCE)
    assert fib("list").out.startswith(f"Registry: {full_registry.root}\n")
    for command in (("show", DEFINITION), ("validate",), ("try", kernel, "--check", "--device", "cpu")):
        assert fib(*command).code == 0, command
    said = f"{full_registry.root} has no Solution of {DEFINITION}; see: fib-rmsnorm list"
    assert fib("bench", "--device", "cpu").refusal.endswith(said)
    (full_registry.root / DEFINITION_FILE).unlink()
    assert fib("list", "--root", full_registry.root).refusal.startswith("not a registry: ")
