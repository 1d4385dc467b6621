"""The guards against cheats, one by one."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch

from fib_rmsnorm.building.source_files import write_sources
from fib_rmsnorm.evaluation.tensors.output_buffers import OutputBuffers
from fib_rmsnorm.evaluation.worker.kept_outputs import KeptOutputs
from fib_rmsnorm.operators import RmsNorm
from fib_rmsnorm.registry import generate_workloads
from fib_rmsnorm.sandbox import idle_check
from fib_rmsnorm.sandbox.idle_check import find_busy
from support.registries import add_kernel

NOBODY = 0
"""No process has this number, so nobody is running behind the figures that a test gives."""


class TestOutputBuffers:
    def test_writes_beyond_an_output_stay_visible(self):
        definition = RmsNorm().define(4096)
        (workload,) = generate_workloads(definition, [2])
        buffers = OutputBuffers(definition, workload, "cpu")
        (out,) = buffers.tensors
        torch.as_strided(out, (4096,), (1,), out.storage_offset() + 3 * 4096).zero_()  # leaves a row out
        buffers.poison()
        assert buffers.overrun() == ["out"]
        assert out.isnan().all()


class TestIdleCheck:
    @staticmethod
    def find(code: str) -> str | None:
        started = "import sys, threading, time, os, subprocess\n" + code + "\nprint(flush=True)\ntime.sleep(60)\n"
        with subprocess.Popen([sys.executable, "-c", started], stdout=subprocess.PIPE) as process:
            process.stdout.readline()
            found = find_busy([process.pid]).get(process.pid)
            process.kill()
        return found

    @pytest.mark.parametrize(
        "code",
        [
            "",
            "threading.Thread(target=lambda: [time.sleep(0.002) for _ in range(10**6)], daemon=True).start()",
            "threading.Thread(target=lambda: sum(range(1_000_000)), daemon=True).start()",
            "subprocess.run(['true'])",
            "subprocess.Popen(['true'])\ntime.sleep(0.2)",
        ],
        ids=["idle", "polls", "ends soon", "child that has ended", "child that nobody waited for"],
    )
    def test_an_honest_process_is_idle(self, code):
        assert self.find(code) is None

    def test_a_thread_that_keeps_running_is_found(self):
        code = "def spin():\n    while True:\n        pass\nthreading.Thread(target=spin, daemon=True).start()"
        assert "of a core while nobody called it" in self.find(code)

    def test_a_fork_is_found(self):
        assert self.find("if os.fork() == 0:\n    time.sleep(5)\n    os._exit(0)") == (
            "left a process running: a fork of itself"
        )

    def test_a_program_left_running_is_found(self):
        assert self.find("subprocess.Popen(['sleep', '5'])") == "left a process running: sleep 5"

    def test_helpers_are_recognized_by_what_they_run(self):
        entry = Path(torch.__file__).parent / "_inductor" / "compile_worker" / "__main__.py"
        tracker = "from multiprocessing.resource_tracker import main;main(5)"
        assert idle_check._is_helper([sys.executable, str(entry), "--workers=2"])
        assert idle_check._is_helper([sys.executable, "-B", "-c", tracker])
        assert not idle_check._is_helper([sys.executable, "-c", "while True: pass", tracker])
        assert not idle_check._is_helper([sys.executable, "mine.py", str(entry)])
        assert not idle_check._is_helper([""])

    def test_idle_processes_take_little_time(self, clock, monkeypatch):
        monkeypatch.setattr(idle_check, "time", clock)
        monkeypatch.setattr(idle_check, "_cpu_seconds", lambda _: 0.0)
        assert find_busy([NOBODY]) == {}
        assert clock.now <= 0.03


class TestWaitForQuiet:
    @pytest.mark.parametrize(("busy_s", "least_s", "most_s"), [(0, 0.002, 0.002), (0.1, 0.1, 0.105), (9, 0.35, 0.355)])
    def test_it_waits_for_a_burst_to_end_but_not_forever(self, clock, monkeypatch, busy_s, least_s, most_s):
        monkeypatch.setattr(idle_check, "time", clock)
        monkeypatch.setattr(idle_check, "_cpu_seconds", lambda _: min(busy_s, clock.now))
        idle_check.wait_for_quiet([NOBODY])
        assert least_s <= clock.now <= most_s


class TestSources:
    @staticmethod
    def solution(registry, text="X = 1\n"):
        return add_kernel(registry, "kernel_v1", text)

    def test_changed_sources_are_written_again(self, registry, tmp_path):
        solution = self.solution(registry)
        folder = tmp_path / "sources"
        write_sources(solution, folder)
        (folder / "kernel.py").write_text("X = 2\n")
        write_sources(solution, folder)
        assert (folder / "kernel.py").read_text() == "X = 1\n"

    def test_foreign_byte_code_is_removed(self, registry, tmp_path):
        solution = self.solution(registry)
        folder = tmp_path / "sources"
        write_sources(solution, folder)
        (folder / "__pycache__").mkdir()
        (folder / "__pycache__" / "kernel.cpython-312.pyc").write_bytes(b"")
        write_sources(solution, folder)
        assert [path.name for path in folder.rglob("*")] == ["kernel.py"]

    def test_correct_sources_are_left_alone(self, registry, tmp_path):
        solution = self.solution(registry)
        write_sources(solution, tmp_path / "sources")
        before = (tmp_path / "sources").stat().st_ino
        write_sources(solution, tmp_path / "sources")
        assert (tmp_path / "sources").stat().st_ino == before


class TestKeptOutputs:
    def test_a_few_kept_outputs_are_ignored_but_many_are_found(self):
        kept_outputs = KeptOutputs()
        outputs = [torch.randn(4, 32) for _ in range(5)]
        for output in outputs:
            kept_outputs.remember([output])
        kept = [output.clone() for output in outputs]
        del outputs, output
        assert kept_outputs.find_kept() == 5
        del kept[2:]
        assert kept_outputs.find_kept() == 0

    def test_outputs_of_equal_elements_are_ignored(self):
        kept_outputs = KeptOutputs()
        kept = [torch.full((4, 32), float(value)) for value in range(5)]
        for output in kept:
            kept_outputs.remember([output])
        assert kept_outputs.find_kept() == 0
