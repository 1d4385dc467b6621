from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from fib_rmsnorm.building import BuildError
from fib_rmsnorm.building.cache import cache_folder
from fib_rmsnorm.building.native import build_native, find_cuda_home
from fib_rmsnorm.evaluation import ceiling as ceilings
from fib_rmsnorm.evaluation.ceiling import ceiling_process as process
from fib_rmsnorm.evaluation.ceiling import cuda_copy
from fib_rmsnorm.evaluation.ceiling.copy_sources import copy_solution
from fib_rmsnorm.evaluation.ceiling.cpp_copy import CppCopy
from fib_rmsnorm.evaluation.ceiling.fastest_copy import Buffers, tune
from fib_rmsnorm.evaluation.ceiling.torch_copy import TorchCopy
from fib_rmsnorm.evaluation.timing import choose_timer
from fib_rmsnorm.sandbox.channel import Channel

needs_compiler = pytest.mark.skipif(not shutil.which("c++"), reason="needs a C++ compiler")
CANARY = 77
AMOUNTS = [(0, 0), (1, 1), (4096, 4096), (100_003, 100_003), (8192, 100), (100, 8192), (5 << 20, 4 << 20), (7, 3 << 20)]


def request(device="cpu", read=1 << 20, written=1 << 20, cold=True):
    where = {"device": device, "cache": str(cache_folder())}
    return {"do": "measure", "bytes_read": read, "bytes_written": written, "cold": cold, **where}


def check_variants(copier, device, read, written, multiple=1):
    """Each variant copies the given bytes, and writes nothing past them except to round up to a multiple of bytes."""
    source = torch.randint(0, 256, (read + 64,), dtype=torch.uint8, device=device)
    for variant in copier.variants(read, written):
        destination = torch.full((written + 64,), CANARY, dtype=torch.uint8, device=device)
        variant.bind(source, destination)()
        both = min(read, written)
        end = -(-written // multiple) * multiple
        assert torch.equal(destination[:both], source[:both]), variant.name
        assert (destination[end:] == CANARY).all(), variant.name
        assert written < read + 64 or (destination[both:written] != CANARY).any(), variant.name


@needs_compiler
@pytest.mark.parametrize(("read", "written"), AMOUNTS)
def test_every_cpu_variant_copies_the_given_bytes(read, written):
    check_variants(CppCopy(cache_folder()), "cpu", read, written)


@pytest.mark.parametrize(("read", "written"), AMOUNTS)
def test_torch_copies_the_given_bytes(read, written):
    check_variants(TorchCopy("cpu"), "cpu", read, written)


@needs_compiler
def test_surplus_bytes_are_really_read():
    copier = CppCopy(cache_folder())
    timer, buffers = choose_timer("cpu"), Buffers("cpu", 32 << 20, 64)
    (_, little), *_ = tune(copier.variants(1 << 10, 64), timer, buffers, cold=False)
    (_, much), *_ = tune(copier.variants(32 << 20, 64), timer, buffers, cold=False)
    assert much > 100 * little  # 32,768 times the bytes


@needs_compiler
def test_an_answer_is_complete():
    found = process.CeilingProcess().measure(request())
    json.dumps(vars(found), allow_nan=False)
    assert 0 < found.empty_ms < found.copy_low_ms <= found.copy_ms <= found.copy_high_ms
    assert found.copy_method.startswith("cpp ")
    assert set(found.threads or ()) <= os.sched_getaffinity(0)
    assert (found.threads is None) == ("OpenMP" in found.copy_method)
    assert found.copy_hot_ms is None and found.empty_host_us is None and found.note is None


@needs_compiler
@pytest.mark.parametrize("doubts", [[], ["a busy machine"]])
def test_a_ceiling_is_measured_once_unless_it_was_suspect(monkeypatch, doubts):
    measuring = process.CeilingProcess()
    measured = process.DeviceCeiling.measure
    found = []

    def measure(*args, **options):
        found.append(measured(*args, **options).model_copy(update={"copy_suspect": doubts}))
        return found[-1]

    monkeypatch.setattr(process.DeviceCeiling, "measure", measure)
    answers = [measuring.measure(request()) for _ in range(2)]
    assert len(found) == 1 + len(doubts)
    assert answers[-1] is found[-1]


@needs_compiler
def test_measuring_leaves_the_process_as_it_was():
    before = os.sched_getaffinity(0)
    process.CeilingProcess().measure(request(read=8 << 20, written=8 << 20))
    assert os.sched_getaffinity(0) == before
    assert any(no_thread_runs_again() for _ in range(500))  # the copying threads sleep


def no_thread_runs_again() -> bool:
    """Whether no other thread gets a core for a while."""
    before = turns_of_other_threads()
    time.sleep(0.05)
    return turns_of_other_threads() == before


def turns_of_other_threads() -> dict[str, str]:
    """How often each has been given a core, by the kernel's count."""
    tasks = Path("/proc/self/task").iterdir()
    own = str(threading.get_native_id())
    return {task.name: (task / "schedstat").read_text().split()[2] for task in tasks if task.name != own}


@needs_compiler
def test_it_serves_a_channel():
    ours, theirs = socket.socketpair()
    server = threading.Thread(target=process.main, args=(Channel(theirs.detach()), -1))
    server.start()
    channel = Channel(ours.detach())
    channel.send(request(read=4096, written=4096))
    answer = channel.receive()
    channel.close()
    server.join()
    assert answer["ok"] and answer["copy_ms"] > 0


def test_without_a_compiler_torch_copies_and_the_note_says_why(monkeypatch):
    def fail(*_):
        raise BuildError("no working compiler 'c++'\nand more")

    monkeypatch.setattr(ceilings, "_cpp", fail)
    found = process.CeilingProcess().measure(request())
    assert found.copy_method == "torch" and found.note == "no working compiler 'c++'"
    assert found.copy_ms > 0 and found.threads is None


def cuda_variants(monkeypatch, read, written):
    monkeypatch.setattr(cuda_copy, "load_copy", lambda *_: lambda _: print)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _: SimpleNamespace(multi_processor_count=132))
    return [variant.name for variant in cuda_copy.CudaCopy("cuda:0", cache_folder()).variants(read, written)]


@pytest.mark.parametrize("size", [1, 16 << 10, 1 << 20, 32 << 20, 1 << 30, 32 << 30])
def test_several_launch_shapes_suit_every_size(monkeypatch, size):
    variants = cuda_variants(monkeypatch, size, size)
    assert len(set(variants)) == len(variants) >= 5
    assert "cudaMemcpyAsync" in variants
    assert any("looping" in variant for variant in variants) == (size >= 32 << 20)


def test_the_driver_copies_only_where_as_much_is_written_as_read(monkeypatch):
    assert "cudaMemcpyAsync" not in cuda_variants(monkeypatch, 8192 + 16, 8192)


@pytest.mark.skipif(find_cuda_home() is None, reason="needs nvcc")
@pytest.mark.process
@pytest.mark.parametrize("arch", ["8.0", "9.0"])
def test_the_cuda_copy_compiles_without_spills(arch):
    log = build_native(copy_solution(cuda_copy.SOURCES), cache_folder(), arch).log
    assert log.count("0 bytes spill stores, 0 bytes spill loads") == 17  # 4 vector counts, 4 variants, and the empty
    assert "warning" not in log


TRITON_INTERPRETED = """
import test_ceiling_process
from fib_rmsnorm.evaluation.ceiling.triton_copy import TritonCopy
for read, written in [(1000, 1000), (3000, 512), (512, 3000)]:
    test_ceiling_process.check_variants(TritonCopy(), "cpu", read, written, multiple=4)
"""


@pytest.mark.process
def test_the_interpreted_triton_copy_copies_the_given_bytes():
    pytest.importorskip("triton")
    here = str(Path(__file__).parent)
    environment = {**os.environ, "TRITON_INTERPRET": "1", "PYTHONPATH": os.pathsep.join([here, *sys.path])}
    subprocess.run([sys.executable, "-c", TRITON_INTERPRETED], env=environment, check=True, timeout=200)


@pytest.mark.gpu
@pytest.mark.parametrize(("read", "written"), AMOUNTS)
def test_every_gpu_variant_copies_the_given_bytes(read, written):
    copier, _ = ceilings.choose_copier("cuda:0", cache_folder())
    check_variants(copier, "cuda:0", read, written, multiple=16)


@pytest.mark.alone
@pytest.mark.gpu
def test_a_copy_that_fits_the_cache_is_faster_hot():
    found = process.CeilingProcess().measure(request("cuda:0", 8 << 20, 8 << 20))
    assert found.empty_ms < found.copy_hot_ms < 0.9 * found.copy_ms
    assert 0.5 < found.empty_host_us < 100
