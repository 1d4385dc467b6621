"""A GPU that a process cannot open is told in a line, whatever was to run there."""

import subprocess
import sys
import threading

import pytest

from fib_rmsnorm.machine.devices import Device
from fib_rmsnorm.sandbox.asking import DeviceOpened, OpenDevice, open_device, require_device
from support.command_line import QUICK_OPTIONS, run_cli
from support.registries import RIGHT, add_sources, pack_all, python_manifest

FILLS_MEMORY = """
import sys
import threading
import torch

left = torch.empty(int(sys.argv[1]), dtype=torch.uint8, device="cuda:0")
kept, size = [], 1 << 30
while size >= 1 << 20:
    try:
        kept.append(torch.empty(size, dtype=torch.uint8, device="cuda:0"))
    except torch.OutOfMemoryError:
        size //= 2
del left
torch.cuda.empty_cache()
print("full", flush=True)
input()
"""


def test_what_cannot_be_opened_is_reported_in_a_line():
    fault = open_device(OpenDevice(device="cuda:99")).fault
    assert fault and "\n" not in fault and ". " not in fault


def test_few_processes_open_a_device_at_a_time_and_those_of_another_do_not_wait():
    opening, may_end = threading.Semaphore(0), threading.Event()

    def open_it(*_):
        opening.release()
        may_end.wait(60)
        return DeviceOpened(None)

    def opens(name, wait_s=60):
        threading.Thread(target=require_device, args=(None, Device(name, "a GPU", 1 << 30), open_it)).start()
        return opening.acquire(timeout=wait_s)

    assert opens("cuda:98") and opens("cuda:98") and opens("cuda:98")
    assert not opens("cuda:98", wait_s=0.05)
    assert opens("cuda:99")
    may_end.set()
    assert opening.acquire(timeout=60)


@pytest.mark.alone
@pytest.mark.gpu
@pytest.mark.parametrize("left_mib", [1, 640])  # a context takes some 500
def test_a_bench_on_a_full_gpu_ends_with_a_line_and_records_nothing(registry, left_mib):
    manifest = python_manifest("right_v1").replace('["cpu"]', '["cuda"]')
    add_sources(registry, "right_v1", {"kernel.py": RIGHT}, manifest)
    pack_all(registry)
    fill = [sys.executable, "-c", FILLS_MEMORY, str(left_mib << 20)]
    fills = subprocess.Popen(fill, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
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
