import json
import platform
import sys
from importlib.util import spec_from_file_location
from pathlib import Path

import pytest

from fib_rmsnorm.evaluation import machine_report
from fib_rmsnorm.machine import capabilities
from fib_rmsnorm.machine.devices import Device
from fib_rmsnorm.sandbox.confinement import landlock
from support.full_registry import DEFINITION, PYTHON, PYTHON_FOLDER

GPUS = [Device(f"cuda:{index}", "Test GPU", 80 * 10**9) for index in range(3)]


@pytest.fixture(autouse=True)
def machine(monkeypatch, tmp_path):
    """A machine without GPUs whose tools and cache are what a test says."""
    monkeypatch.setenv("FIB_RMSNORM_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(machine_report, "cuda_devices", list)
    return monkeypatch


def test_a_machine_without_gpu(fib, machine, tmp_path):
    machine.setattr(capabilities, "find_cuda_home", lambda: tmp_path)
    outcome = fib("env")
    assert outcome.code == 0
    assert "cpu_clock" in outcome.row("cpu", "cpu_clock")
    assert any(line.startswith("no GPU") for line in outcome.lines)
    assert "compiles only" in outcome.row("cuda", "cpu")
    assert "interpreted" in outcome.row("triton", "cpu")
    assert outcome.row("python", "cpu").split()[:3] == ["python", "cpu", "run"]
    assert "\x1b" not in outcome.out


@pytest.mark.parametrize(
    ("version", "said"),
    [
        (0, "no Landlock that suffices in this kernel: a solution can read the memory of your other processes"),
        (2, "Landlock version 2 in this kernel: a solution can empty your files"),
        (5, "Landlock version 5 in this kernel: a solution can send signals to your processes"),
        (6, None),
    ],
)
def test_what_landlock_cannot_do_here_is_one_line(fib, machine, version, said):
    machine.setattr(landlock, "landlock_version", lambda: version)
    told = [line for line in fib("env", "--json").json["notes"] if "Landlock" in line]
    assert len(told) == (said is not None) and all(line.startswith(said) for line in told)


def test_system_calls_that_cannot_be_filtered_here_are_one_line(fib, machine):
    machine.setattr(platform, "machine", lambda: "riscv64")
    (line,) = [line for line in fib("env", "--json").json["notes"] if "filtered" in line]
    assert "riscv64" in line and "talk to the network" in line


def test_packages_without_bytecode_are_one_line(fib, machine, tmp_path):
    spec = spec_from_file_location("torch", tmp_path / "torch" / "__init__.py")
    machine.setattr(machine_report, "find_spec", lambda _: spec)
    told = f"torch has no bytecode, so each process compiles it: run python -m compileall -q {tmp_path}"
    assert told in fib("env", "--json").json["notes"]
    Path(spec.cached).parent.mkdir(parents=True)
    Path(spec.cached).touch()
    assert told not in fib("env", "--json").json["notes"]


def test_where_cuda_needs_a_socket_the_others_are_open_too(fib, machine, tmp_path):
    machine.setenv("CUDA_MPS_PIPE_DIRECTORY", str(tmp_path))
    assert "sockets of your programs" in fib("env").out


def test_gpus_that_are_alike_are_one_line(fib, machine):
    machine.setattr(machine_report, "cuda_devices", lambda: GPUS)
    machine.setattr(machine_report, "cupti_fault", lambda: "No module named 'cupti'")
    machine.setattr(machine_report, "timer_name", lambda device: "cpu_clock" if device == "cpu" else "cuda_events")
    outcome = fib("env")
    row = outcome.row("cuda:0-2", "cuda_events")
    assert "  Test GPU  " in row and "  80.0 GB  " in row
    assert "No module named 'cupti'" in row and "pip install 'fib-rmsnorm[cupti]'" in row
    assert "no GPU" not in outcome.out
    assert "C++ Solutions run on the CPU" in outcome.row("cpp", "cuda:0-2")
    record = fib("env", "--json").json
    assert [device["name"] for device in record["devices"]] == ["cuda:0", "cuda:1", "cuda:2", "cpu"]


@pytest.mark.parametrize(
    ("missing", "language", "said"),
    [
        ("find_cuda_home", "cuda", "CUDA needs nvcc; install a CUDA toolkit and set CUDA_HOME"),
        ("find_cxx", "cpp", "apt-get install g++"),
        ("find_ninja", "cpp", "pip install ninja"),
    ],
)
def test_what_is_missing_says_what_to_install(fib, machine, missing, language, said):
    machine.setattr(capabilities, missing, lambda: None)
    machine.setattr(machine_report, missing, lambda: None)
    row = fib("env").row(language, "cpu")
    assert row.split()[:3] == [language, "cpu", "no"]
    assert said in row


def test_a_compiler_named_by_the_environment_is_the_one_and_is_listed_though_it_fails(fib, machine, tmp_path):
    compiler = tmp_path / "my-c++"
    compiler.write_text("#!/bin/sh\necho 'my-c++ 9.8.7'\n")
    compiler.chmod(0o755)
    machine.setenv("CXX", str(compiler))
    tools = {tool["name"]: tool for tool in fib("env", "--json").json["tools"]}
    assert tools.keys() >= {"C++ compiler", "nvcc", "ninja", "NVIDIA driver"}
    assert tools["C++ compiler"] == {"name": "C++ compiler", "path": str(compiler), "version": "9.8.7", "note": ""}
    compiler.write_text("#!/bin/sh\nexit 1\n")
    outcome = fib("env")
    (row,) = [line for line in outcome.lines if line.startswith("C++ compiler")]
    assert outcome.code == 0 and row.split()[2:] == ["unknown", str(compiler)]
    machine.setenv("CXX", "no-such-compiler")
    record = fib("env", "--json").json
    (cpu,) = record["devices"]
    assert cpu["languages"]["cpp"]["ability"] == "no" and record["python"] == sys.executable
    assert set(cpu["languages"]) == {"python", "triton", "cpp", "cuda", "tilelang"}


def test_the_cache_is_measured(fib, tmp_path):
    folder = tmp_path / "cache"
    assert f"Builds: {folder} (0 files, 0 B)" in fib("env").lines
    (folder / "native").mkdir(parents=True)
    (folder / "native" / "a.so").write_bytes(b"x" * 1500)
    (folder / "b").write_bytes(b"x" * 500)
    assert f"Builds: {folder} (2 files, 2.00 kB)" in fib("env").lines


def test_a_cpu_build_of_torch_beside_a_driver_is_distinguished_from_no_driver(fib, machine):
    machine.setattr(machine_report, "library_versions", lambda: {"torch": "2.99+cpu"})
    outcome = fib("env")
    assert outcome.row("tilelang", "missing") and outcome.row("torch", "2.99+cpu")
    assert "no GPU: there is no NVIDIA driver here" in outcome.lines
    machine.setattr(machine_report, "library_versions", lambda: {"torch": "2.99+cpu", "nvidia-driver": "550.54"})
    assert "no GPU for torch: 2.99+cpu is built without CUDA; install a CUDA build of torch" in fib("env").lines
    machine.setattr(
        machine_report, "library_versions", lambda: {"torch": "2.99", "cuda": "12.8", "nvidia-driver": "550.54"}
    )
    assert any(line.startswith("no GPU for torch, though there is a driver") for line in fib("env").lines)


@pytest.mark.parametrize(
    "command",
    [
        ("try", f"{PYTHON_FOLDER}/kernel.py", "--definition", DEFINITION, "--check", "--device", "cpu"),
        ("explain", "kernel.py", "--definition", DEFINITION),
        ("bench", "--solutions", PYTHON, "--device", "cpu", "--json"),
    ],
    ids=lambda command: command[0],
)
def test_a_cache_that_cannot_be_made_is_one_line(fib, full_registry, monkeypatch, command):
    assert fib("new", "triton", "kernel.py", "--definition", DEFINITION).code == 0
    Path("file").write_text("")
    monkeypatch.setenv("FIB_RMSNORM_CACHE", "file/cache")
    outcome = fib(*command)
    assert (outcome.code, outcome.out) == (2, "")
    said = "the cache, file/cache: Not a directory; name a folder that you may write to in $FIB_RMSNORM_CACHE"
    last = outcome.err.splitlines()[-1]
    assert last == (json.dumps({"error": said, "exit_code": 2}) if "--json" in command else f"fib-rmsnorm: {said}")
