"""try --sanitize, with a compute-sanitizer that prints what real ones print: no GPU's memory can be watched here."""

from __future__ import annotations

import json
import os
import sys

import pytest

from fib_rmsnorm.building.native import find_cuda_tool
from fib_rmsnorm.machine import devices
from fib_rmsnorm.machine.devices import Device
from fib_rmsnorm.profiling import sanitizer
from support.kernels import read_kernels
from support.registries import RIGHT

BANNER = "========= COMPUTE-SANITIZER\n"
CLEAN = f"{BANNER}========= ERROR SUMMARY: 0 errors\n"
READ = """\
========= Invalid __global__ read of size 2 bytes
=========     at rmsnorm_rows(const __half *, const __half *, float, int, __half *)+0x90 in kernel.cu:17
=========     by thread ({thread},0,0) in block (30,0,0)
=========     Access to 0x7f3c7ec3e000 is out of bounds
=========     and is 1 bytes after the nearest allocation at 0x7f3c7ec00000 of size 253,952 bytes
=========     Saved host backtrace up to driver entry point at kernel launch time
=========         Host Frame: run(tvm::ffi::TensorView) [0x8ccb] in kernel.so
=========
"""
MEMCHECK = f"""\
{BANNER}{READ.format(thread=0)}{READ.format(thread=1)}\
========= Invalid __global__ write of size 2 bytes
=========     at rmsnorm_rows(const __half *, const __half *, float, int, __half *)+0x120 in kernel.cu:19
=========     by thread (0,0,0) in block (30,0,0)
=========     Access to 0x7f3c7ec9e000 is out of bounds
=========
========= Target application returned an error
========= ERROR SUMMARY: 259 errors
========= ERROR SUMMARY: 156 errors were not printed. Use --print-limit option to adjust the number of printed errors
"""
RACECHECK = f"""\
{BANNER}\
========= Error: Race reported between Write access at rmsnorm_rows(const __half *)+0x90 in kernel.cu:11
=========     and Read access at rmsnorm_rows(const __half *)+0x100 in kernel.cu:14 [508 hazards]
=========
========= RACECHECK SUMMARY: 1 hazard displayed (1 error, 0 warnings)
"""
INITCHECK = f"""\
{BANNER}\
========= Uninitialized __global__ memory read of size 4 bytes
=========     at rmsnorm_rows(float *)+0x70 in kernel.cu:41
=========     by thread (31,0,0) in block (1,0,0)
=========     Address 0x7f3c7ec000fc
=========
========= ERROR SUMMARY: 1 error
"""
# Of version 2026.4, on a machine without a GPU.
NO_LAUNCH = f"""\
{BANNER}\
========= Error: process didn't terminate successfully
=========     The application may have hit an error when dereferencing Unified Memory from the host. Please rerun the \
application under cuda-gdb or a host debugger to catch host side errors.
========= Error: Target application terminated before first instrumented API call
========= Tracking kernels launched by child processes requires the --target-processes all option.
"""


@pytest.fixture
def tool(tmp_path, monkeypatch):
    """Put a program called compute-sanitizer on PATH that keeps its arguments and writes what it is told to."""

    def install(log, *, code=0, said="", runs=True):
        folder = tmp_path / "bin"
        folder.mkdir()
        program = f"""#!{sys.executable}
import json, os, pathlib, sys
call = [sys.argv[1:], os.environ["PYTORCH_NO_CUDA_MEMORY_CACHING"]]
pathlib.Path({str(folder)!r}, "call").write_text(json.dumps(call))
pathlib.Path(sys.argv[sys.argv.index("--log-file") + 1]).write_text({log!r})
if {runs}:
    pathlib.Path(sys.argv[-1]).with_name("own").joinpath("done").touch()
sys.stderr.write({said!r})
sys.exit({code})
"""
        (folder / "compute-sanitizer").write_text(program)
        (folder / "compute-sanitizer").chmod(0o755)
        monkeypatch.setenv("PATH", os.pathsep.join([str(folder), os.environ["PATH"]]))
        return lambda: json.loads((folder / "call").read_text())

    return install


@pytest.fixture
def kernel(tmp_path, monkeypatch, registry):
    """A kernel's file in a registry, on a machine that seems to have a GPU."""
    monkeypatch.setattr(devices, "cuda_devices", lambda: [Device("cuda:0", "Fake GPU", 80 << 30)])
    monkeypatch.chdir(registry.root)
    path = tmp_path / "kernel.py"
    path.write_text(RIGHT)
    return path


def test_findings_are_reported_and_fail(fib, kernel, tool):
    called = tool(MEMCHECK, code=1, said="RuntimeError: unspecified launch failure\n")
    outcome = fib("try", kernel, "--sanitize", "memcheck")
    assert outcome.code == 1, outcome.err
    assert outcome.lines[0] == "kernel.py for rmsnorm_d128 at batch=31 on Fake GPU: memcheck found 259 errors"
    assert outcome.lines[2] == "Invalid __global__ read of size 2 bytes"
    assert "    and 1 more report of this place, of other threads or addresses" in outcome.lines
    (record,) = json.loads(fib("try", kernel, "--sanitize", "memcheck", "--json").out)
    read, write = record["findings"]
    assert [detail.split()[0] for detail in read["details"]] == ["at", "by", "Access", "and"]
    assert read["reports"] == 2 and "thread (0,0,0)" in read["details"][1]
    assert write["reports"] == 1 and write["details"][0].endswith("in kernel.cu:19")
    arguments, caching = called()
    assert caching == "1"
    for words in ("--tool memcheck", "--padding 65536", "--target-processes application-only"):
        assert words in " ".join(arguments)


@pytest.mark.parametrize(
    ("sanitizer", "log", "said"),
    [
        ("racecheck", RACECHECK, "and Read access at rmsnorm_rows(const __half *)+0x100 in kernel.cu:14 [508 hazards]"),
        ("initcheck", INITCHECK, "at rmsnorm_rows(float *)+0x70 in kernel.cu:41"),
    ],
)
def test_findings_as_json(fib, kernel, tool, sanitizer, log, said):
    called = tool(log)
    outcome = fib("try", kernel, "--sanitize", sanitizer, "--batch-sizes", "3", "--json")
    assert outcome.code == 1, outcome.err
    (record,) = json.loads(outcome.out)
    assert (record["axes"], record["sanitizer"], record["errors"]) == ({"batch": 3}, sanitizer, 1)
    assert record["findings"][0]["details"][0] == said
    assert "--padding" not in called()[0]


@pytest.mark.parametrize("log", [CLEAN, "========= RACECHECK SUMMARY: 0 hazards displayed (0 errors, 0 warnings)\n"])
def test_nothing_found(fib, kernel, tool, log):
    tool(log)
    outcome = fib("try", kernel, "--sanitize", "initcheck")
    said = "kernel.py for rmsnorm_d128 at batch=31 on Fake GPU: initcheck found nothing"
    assert (outcome.code, outcome.lines) == (0, [said])


@pytest.mark.parametrize(
    ("log", "how", "told"),
    [
        (CLEAN, {"runs": False}, "it printed no report"),  # some versions say so of a process that they never ran
        (BANNER, {}, "it printed no report"),
        (NO_LAUNCH, {"code": 255}, "Target application terminated before first instrumented API call"),
        (CLEAN, {"code": 1, "runs": False, "said": "Traceback:\nValueError: no\n"}, "ValueError: no"),
        (
            "",
            {"code": 255, "runs": False, "said": "unrecognised option '--padding'\n"},
            "unrecognised option '--padding'",
        ),
    ],
)
def test_what_was_not_watched_is_never_clean(fib, kernel, tool, log, how, told):
    tool(log, **how)
    refusal = fib("try", kernel, "--sanitize", "memcheck").refusal
    assert refusal == f"kernel.py: memcheck could not check it: {told}"


def test_without_the_tool_it_says_where_to_get_it(fib, kernel, monkeypatch):
    monkeypatch.setattr(sanitizer, "find_cuda_tool", lambda _: None)
    assert "apt-get install cuda-sanitizer-13-0" in fib("try", kernel, "--sanitize", "memcheck").refusal


@pytest.mark.gpu
def test_a_real_gpu(fib, registry, tmp_path, monkeypatch):
    if find_cuda_tool("compute-sanitizer") is None:
        pytest.skip("needs compute-sanitizer")
    monkeypatch.chdir(registry.root)
    kernel = tmp_path / "kernel.py"
    kernel.write_text(read_kernels("wrong")["triton_reads_beyond"].text)
    outcome = fib("try", kernel, "--sanitize", "memcheck", "--json")
    assert outcome.code == 1, outcome.err
    assert json.loads(outcome.out)[0]["findings"][0]["what"].startswith("Invalid __global__ read")
    kernel.write_text(read_kernels("honest")["triton_row"].text)
    outcome = fib("try", kernel, "--sanitize", "memcheck")
    assert outcome.code == 0, outcome.out + outcome.err
