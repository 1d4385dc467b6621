"""A GPU that a process cannot open is told in a line, whatever was to run there."""

from __future__ import annotations

import subprocess
import sys

import pytest

from fib_rmsnorm.machine.devices import Device
from fib_rmsnorm.sandbox.device_opening import OpenDevice, describe_unusable, open_device
from support.command_line import QUICK_OPTIONS, run_cli
from support.registries import RIGHT, add_sources, pack_all, python_manifest

FILLS_MEMORY = """
import torch

kept, size = [], 1 << 30
while size >= 1 << 20:
    try:
        kept.append(torch.empty(size, dtype=torch.uint8, device="cuda:0"))
    except torch.OutOfMemoryError:
        size //= 2
print("full", flush=True)
input()
"""


def test_what_cannot_be_opened_is_told_in_a_line():
    fault = open_device(OpenDevice(device="cuda:99").model_dump()).fault
    assert fault and "\n" not in fault


def test_the_line_says_which_device_and_what_to_do():
    told = describe_unusable(Device("cuda:99", "NVIDIA H200", 140 << 30), "CUDA error: out of memory")
    assert told == (
        "cuda:99 (NVIDIA H200) cannot be used: CUDA error: out of memory; end other processes on it (nvidia-smi lists"
        " them), or choose another device"
    )


@pytest.mark.gpu
def test_a_bench_on_a_full_gpu_ends_with_a_line_and_records_nothing(registry):
    manifest = python_manifest("right_v1").replace('["cpu"]', '["cuda"]')
    add_sources(registry, "right_v1", {"kernel.py": RIGHT}, manifest)
    pack_all(registry)
    fills = subprocess.Popen([sys.executable, "-c", FILLS_MEMORY], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        assert fills.stdout.readline() == b"full\n"
        outcome = run_cli("bench", "--root", registry.root, *QUICK_OPTIONS[:-1], "cuda:0")
    finally:
        fills.kill()
        fills.wait()
    assert outcome.returncode == 2, outcome.stdout + outcome.stderr
    told = [line for line in outcome.stderr.splitlines() if "cannot be used" in line]
    assert len(told) == 1, outcome.stdout + outcome.stderr
    assert "cuda:0" in told[0] and "GiB are free" in told[0]
    assert "Traceback" not in outcome.stderr
    assert list(registry.traces()) == []
