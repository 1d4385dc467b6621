"""What the folders of tests/wrong_kernels/ do not cover: cheats that depend on how they are timed, and the guards by
themselves.
"""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from registries import QUICK, add_kernel, add_sources, cli_environment, pack_all, python_manifest

from fib_rmsnorm.evaluation import strays
from fib_rmsnorm.evaluation.bench import BenchOptions, bench
from fib_rmsnorm.evaluation.building.sources import write_sources
from fib_rmsnorm.evaluation.keepsakes import Keepsakes
from fib_rmsnorm.evaluation.outputs import OutputBuffers
from fib_rmsnorm.evaluation.scheduler import Evaluated
from fib_rmsnorm.evaluation.seclusion import seclusion_version
from fib_rmsnorm.evaluation.strays import find_strays
from fib_rmsnorm.operators import RmsNorm
from fib_rmsnorm.registry import generate_workloads
from fib_rmsnorm.schema import Settings

SEVERAL_TRIALS = Settings(warmup_runs=1, iterations=20, num_trials=4)
WRONG_AFTER_60_CALLS = """\
CALLS = []


def run(x, weight, eps):
    CALLS.append(1)
    if len(CALLS) > 60:
        return x * weight
    x_fp32 = x.float()
    rstd = (x_fp32.pow(2).mean(dim=-1, keepdim=True) + eps).rsqrt()
    return (x_fp32 * rstd * weight.float()).to(x.dtype)
"""
RIGHT_UNLESS_TIMED = """\
import sys


def run(x, weight, eps, out):
    frame = sys._getframe()
    while frame:
        if frame.f_code.co_name == "measure":
            return
        frame = frame.f_back
    x_fp32 = x.float()
    rstd = (x_fp32.pow(2).mean(dim=-1, keepdim=True) + eps).rsqrt()
    out.copy_(x_fp32 * rstd * weight.float())
"""
WORKS_WHEN_ITS_OUTPUT_IS_DROPPED = """\
import sys
import weakref

NEXT = {}


def normalize(x, weight, eps):
    x_fp32 = x.float()
    rstd = (x_fp32.pow(2).mean(dim=-1, keepdim=True) + eps).rsqrt()
    return (x_fp32 * rstd * weight.float()).to(x.dtype)


def work(*inputs):
    NEXT["output"] = normalize(*inputs)


def run(x, weight, eps):
    out = NEXT.pop("output", None)
    if out is None:
        out = normalize(x, weight, eps)
    if sys._getframe(2).f_code.co_name == "_time_each":
        weakref.finalize(out, work, x, weight, eps)
    return out
"""
SLEEPS = """\
import ctypes
import gc
import sys
import time
from contextlib import suppress

from fib_rmsnorm.evaluation.timing.timer import Sample


def run(x, weight, eps, out):
    time.sleep(0.002)
    x_fp32 = x.float()
    rstd = (x_fp32.pow(2).mean(dim=-1, keepdim=True) + eps).rsqrt()
    out.copy_(x_fp32 * rstd * weight.float())
    deceive()


"""
STARTS_THE_CLOCK_LATER = """\
def deceive():
    frame = sys._getframe(2)
    if "started" in frame.f_locals or frame.f_code.co_name == "_time_each":
        frame.f_locals["started"] = time.perf_counter_ns()
        if sys.version_info < (3, 13):
            ctypes.pythonapi.PyFrame_LocalsToFast(ctypes.py_object(frame), 0)
"""
CHANGES_EARLIER_SAMPLES = """\
def deceive():
    for thing in gc.get_objects():
        if type(thing) is Sample:
            with suppress(AttributeError):
                object.__setattr__(thing, "span_ms", 1e-3)
        elif type(thing) is list:
            for index, one in enumerate(thing):
                if type(one) is Sample:
                    thing[index] = Sample(1e-3, 1e-3)
"""
CALLS_TORCH = """\
import torch


def run(x, weight, eps):
    return torch.nn.functional.rms_norm(x.float(), (x.shape[-1],), weight.float(), eps).to(x.dtype)
"""


def evaluate(registry, settings=QUICK):
    """The only evaluation of the registry's only solution on its first workload."""
    events = bench(registry, BenchOptions(settings=settings, device="cpu"))
    return next(event.trace.evaluation for event in events if isinstance(event, Evaluated))


def add_in_language(registry, language, source, file="kernel.py", extra="", destination_passing=False):
    manifest = python_manifest("cheat_v1").replace('"python"', f'"{language}"').replace("kernel.py", file) + extra
    manifest = manifest.replace("passing_style = false", f"passing_style = {str(destination_passing).lower()}")
    add_sources(registry, "cheat_v1", {file: source}, manifest)
    pack_all(registry)


def test_a_kernel_that_goes_wrong_after_many_calls_fails(registry):
    add_kernel(registry, "cheat_v1", WRONG_AFTER_60_CALLS)
    evaluation = evaluate(registry, SEVERAL_TRIALS)
    assert evaluation.status.value == "INCORRECT_NUMERICAL"
    assert "timed call" in evaluation.log


def test_what_runs_when_an_output_is_dropped_has_seen_no_new_inputs(registry):
    add_kernel(registry, "cheat_v1", WORKS_WHEN_ITS_OUTPUT_IS_DROPPED)
    evaluation = evaluate(registry, SEVERAL_TRIALS)
    assert evaluation.status.value == "INCORRECT_NUMERICAL"
    assert "timed call: this is the answer to an earlier call" in evaluation.log


def test_calls_with_a_hot_cache_are_judged_too(registry):
    add_in_language(registry, "python", RIGHT_UNLESS_TIMED, destination_passing=True)
    evaluation = evaluate(registry, QUICK.model_copy(update={"l2": "hot"}))
    assert evaluation.status.value == "INCORRECT_NUMERICAL"
    assert "timed call: 128 elements were never written" in evaluation.log


@pytest.mark.parametrize("cheat", [STARTS_THE_CLOCK_LATER, CHANGES_EARLIER_SAMPLES], ids=["start", "samples"])
def test_a_call_cannot_reach_what_the_clock_said(registry, cheat):
    add_in_language(registry, "python", SLEEPS + cheat, destination_passing=True)
    assert evaluate(registry, SEVERAL_TRIALS).performance.latency_ms >= 2


def test_library_calls_of_what_is_not_python_are_reported(registry):
    add_in_language(registry, "triton", CALLS_TORCH)
    evaluation = evaluate(registry)
    assert evaluation.status.value == "PASSED", evaluation.log
    assert any("rms_norm" in name or "rsqrt" in name for name in evaluation.performance.library_calls)


def test_library_calls_of_python_are_nobodys_business(registry):
    add_kernel(registry, "right_v1", CALLS_TORCH)
    assert evaluate(registry).performance.library_calls is None


class TestOutputBuffers:
    def test_what_any_call_wrote_beyond_stays_visible(self):
        definition = RmsNorm().define(4096)
        (workload,) = generate_workloads(definition, [2])
        buffers = OutputBuffers(definition, workload, "cpu")
        (out,) = buffers.tensors
        torch.as_strided(out, (4096,), (1,), out.storage_offset() + 3 * 4096).zero_()  # leaves a row out
        buffers.poison()
        assert buffers.overrun() == ["out"]
        assert out.isnan().all()


class TestStrays:
    @staticmethod
    def look_at(code: str) -> str | None:
        started = "import sys, threading, time, os, subprocess\n" + code + "\nprint(flush=True)\ntime.sleep(60)\n"
        with subprocess.Popen([sys.executable, "-c", started], stdout=subprocess.PIPE) as process:
            process.stdout.readline()
            found = find_strays([process.pid]).get(process.pid)
            process.kill()
        return found

    @pytest.mark.parametrize(
        "code",
        [
            "",
            "threading.Thread(target=lambda: [time.sleep(0.002) for _ in range(10**6)], daemon=True).start()",
            "threading.Thread(target=lambda: sum(range(3_000_000)), daemon=True).start()",
            "subprocess.run(['true'])",
            "subprocess.Popen(['true'])\ntime.sleep(0.2)",
        ],
        ids=["idle", "polls", "ends soon", "child that has ended", "child that nobody waited for"],
    )
    def test_an_honest_process_is_left_alone(self, code):
        assert self.look_at(code) is None

    def test_a_thread_that_runs_on_is_found(self):
        code = "def spin():\n    while True:\n        pass\nthreading.Thread(target=spin, daemon=True).start()"
        assert "of a core while nobody called it" in self.look_at(code)

    def test_a_fork_is_found(self):
        assert self.look_at("if os.fork() == 0:\n    time.sleep(5)\n    os._exit(0)") == (
            "left a process running: a fork of itself"
        )

    def test_a_program_left_running_is_found(self):
        assert self.look_at("subprocess.Popen(['sleep', '5'])") == "left a process running: sleep 5"

    def test_helpers_are_known_by_what_they_run(self):
        entry = Path(torch.__file__).parent / "_inductor" / "compile_worker" / "__main__.py"
        tracker = "from multiprocessing.resource_tracker import main;main(5)"
        assert strays._is_helper([sys.executable, str(entry), "--workers=2"])
        assert strays._is_helper([sys.executable, "-B", "-c", tracker])
        assert not strays._is_helper([sys.executable, "-c", "while True: pass", tracker])
        assert not strays._is_helper([sys.executable, "mine.py", str(entry)])
        assert not strays._is_helper([""])

    def test_it_takes_honest_ones_little_time(self):
        with subprocess.Popen(["sleep", "60"]) as process:
            started = time.monotonic()
            assert find_strays([process.pid]) == {}
            assert time.monotonic() - started < 0.25
            process.kill()


class TestWaitingForQuiet:
    @pytest.mark.parametrize(("busy_s", "least_s", "most_s"), [(0, 0, 0.1), (0.1, 0.1, 0.3), (9, 0.35, 1)])
    def test_it_waits_for_a_burst_to_end_but_not_for_ever(self, monkeypatch, busy_s, least_s, most_s):
        started = time.monotonic()
        monkeypatch.setattr(strays, "_cpu_seconds", lambda _: min(busy_s, time.monotonic() - started))
        strays.wait_for_quiet([1])
        assert least_s <= time.monotonic() - started < most_s


class TestSeclusion:
    @pytest.mark.skipif(seclusion_version() < 6, reason="this kernel secludes less, or nothing")
    def test_a_secluded_process_reaches_no_other_but_its_children(self, tmp_path):
        code = """
import os
import signal
from pathlib import Path
from fib_rmsnorm.evaluation.seclusion import seclude

seclude()
here = Path.cwd()
(here / "one").mkdir()
(here / "one" / "file").touch()
(here / "one" / "file").rename(here / "file")
for attempt in (
    lambda: Path(f"/proc/{os.getppid()}/mem").open("rb"),
    lambda: os.readlink(f"/proc/{os.getppid()}/fd/0"),
    lambda: os.kill(os.getppid(), signal.SIGURG),
):
    try:
        attempt()
    except PermissionError:
        print("refused")
if (child := os.fork()) == 0:
    signal.pause()
Path(f"/proc/{child}/mem").open("rb").close()
os.kill(child, 9)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
        found = subprocess.run(
            [sys.executable, "-c", code],
            cwd=tmp_path,
            env=cli_environment(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=True,
        )
        assert found.stdout.split() == ["refused"] * 3 + ["-9"]


class TestSources:
    @staticmethod
    def solution(registry, text="X = 1\n"):
        return add_kernel(registry, "kernel_v1", text)

    def test_what_another_solution_changed_is_written_again(self, registry, tmp_path):
        solution = self.solution(registry)
        folder = tmp_path / "sources"
        write_sources(solution, folder)
        (folder / "kernel.py").write_text("X = 2\n")
        write_sources(solution, folder)
        assert (folder / "kernel.py").read_text() == "X = 1\n"

    def test_byte_code_that_another_solution_left_is_thrown_away(self, registry, tmp_path):
        solution = self.solution(registry)
        folder = tmp_path / "sources"
        write_sources(solution, folder)
        (folder / "__pycache__").mkdir()
        (folder / "__pycache__" / "kernel.cpython-312.pyc").write_bytes(b"")
        write_sources(solution, folder)
        assert [path.name for path in folder.rglob("*")] == ["kernel.py"]

    def test_sources_that_are_right_stay_where_they_are(self, registry, tmp_path):
        solution = self.solution(registry)
        write_sources(solution, tmp_path / "sources")
        before = (tmp_path / "sources").stat().st_ino
        write_sources(solution, tmp_path / "sources")
        assert (tmp_path / "sources").stat().st_ino == before


class TestKeepsakes:
    def test_a_few_kept_outputs_are_no_cache_and_many_are(self):
        keepsakes = Keepsakes()
        outputs = [torch.randn(4, 32) for _ in range(5)]
        for output in outputs:
            keepsakes.remember([output])
        kept = [output.clone() for output in outputs]
        del outputs, output
        assert keepsakes.find_kept() == 5
        del kept[2:]
        assert keepsakes.find_kept() == 0

    def test_equal_elements_say_nothing(self):
        keepsakes = Keepsakes()
        kept = [torch.full((4, 32), float(value)) for value in range(5)]
        for output in kept:
            keepsakes.remember([output])
        assert keepsakes.find_kept() == 0
