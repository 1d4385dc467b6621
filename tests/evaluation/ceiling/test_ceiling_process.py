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
from fib_rmsnorm.evaluation import CEILING
from fib_rmsnorm.evaluation.ceiling import ceiling_process as process
from fib_rmsnorm.evaluation.ceiling import copier
from fib_rmsnorm.evaluation.ceiling.ceiling_client import CeilingClient
from fib_rmsnorm.evaluation.ceiling.ceiling_messages import StreamTraffic, copy_solution
from fib_rmsnorm.evaluation.ceiling.ceiling_process import Buffers, tune
from fib_rmsnorm.evaluation.ceiling.copier import CppCopy
from fib_rmsnorm.evaluation.run_config import RunConfig
from fib_rmsnorm.evaluation.timing import choose_timer
from fib_rmsnorm.inspection.disassembly import read_kernels
from fib_rmsnorm.machine.devices import Device, cuda_devices
from fib_rmsnorm.sandbox.channel import Channel, RefusalError
from fib_rmsnorm.sandbox.confinement import find_gaps
from fib_rmsnorm.sandbox.fork_server import ForkServer
from fib_rmsnorm.schema import Settings

needs_compiler = pytest.mark.skipif(not shutil.which("c++"), reason="needs a C++ compiler")
CANARY = 77
SMALL, ROWS = 8 << 10, 1 << 20
TRAFFICS = [
    *(
        StreamTraffic.of([read], [written])
        for read, written in [
            (0, 0),
            (1, 1),
            (4096, 4096),
            (100_003, 100_003),
            (8192, 100),
            (100, 8192),
            (5 << 20, 4 << 20),
            (7, 3 << 20),
        ]
    ),
    StreamTraffic.of([ROWS, ROWS, SMALL], [ROWS]),  # a gate
    StreamTraffic.of([ROWS, ROWS, SMALL], [ROWS, ROWS]),  # a residual
    StreamTraffic.of([ROWS, ROWS, SMALL], [ROWS // 2, ROWS, 512]),  # and float8
    StreamTraffic.of([ROWS, ROWS, ROWS, SMALL, 512], [ROWS, SMALL]),  # a backward pass
    StreamTraffic.of([SMALL + 100, SMALL], [SMALL + 100, SMALL, SMALL]),  # one row
]


def request(device="cpu", read=(1 << 20,), written=(1 << 20,), cold=True):
    traffic = vars(StreamTraffic.of(read, written))
    return {"do": "measure", "device": device, "cache": str(cache_folder()), "traffic": traffic, "cold": cold}


@pytest.mark.parametrize(
    ("read", "written", "streams"),
    [
        ([ROWS, SMALL], [ROWS], (1, 1, 0)),
        ([ROWS, ROWS, SMALL], [ROWS], (2, 1, ROWS)),
        ([ROWS, SMALL], [ROWS // 2, 512], (2, 1, ROWS // 2)),  # a tensor twice as large is two streams
        ([ROWS, ROWS, SMALL], [ROWS // 2, ROWS], (4, 3, ROWS // 2)),
        ([4 * ROWS], [ROWS], (4, 1, ROWS)),
        ([8 * ROWS], [ROWS], (1, 1, 0)),  # an output that is small beside the input
        ([ROWS] * 9, [ROWS], (1, 1, 0)),  # too many: one after the other
        ([ROWS, ROWS - 1000], [ROWS], (2, 1, ROWS - 1024)),
        ([0], [], (1, 1, 0)),
    ],
)
def test_each_large_tensor_is_a_stream(read, written, streams):
    traffic = StreamTraffic.of(read, written)
    assert (traffic.reads, traffic.writes, traffic.stream_bytes) == streams
    assert (traffic.bytes_read, traffic.bytes_written) == (sum(read), sum(written))


def split(memory, traffic, count, size, stride, in_pairs):
    """The streams of one direction of a memory, whose last one has `size` bytes."""
    for stream in range(count):
        own = size if stream == count - 1 else traffic.stream_bytes
        if not in_pairs or stream | 1 >= count:
            yield memory[stride * stream :][:own]
            continue
        pair = memory[stride * (stream & ~1) :]
        whole = traffic.stream_bytes // 512 * 512  # a warp's vectors
        turns = pair[: 2 * whole].view(-1, 2, 512)[:, stream & 1].flatten()
        rest = pair[2 * whole :][(traffic.stream_bytes - whole) * (stream & 1) :][: own - whole]
        yield torch.cat([turns, rest])


def check_variants(copier, device, traffic, multiple=1, spread=0, in_pairs=False):
    """Each variant moves the streams, and writes nothing outside them except to round up to a multiple of bytes.

    What it writes is the XOR of what it reads at the same place, so it has read everything.
    """
    sizes = [traffic.bytes_read + (traffic.reads - 1) * spread, traffic.bytes_written + (traffic.writes - 1) * spread]
    source = torch.randint(0, 256, (sizes[0] + 64,), dtype=torch.uint8, device=device)
    variants = copier.variants(traffic)
    assert len({variant.name for variant in variants}) == len(variants)
    places = torch.arange(sizes[1] + 64, device=device)
    for variant in variants:
        destination = torch.full((sizes[1] + 64,), CANARY, dtype=torch.uint8, device=device)
        variant.bind(source, destination, spread)()
        moved = traffic.flat if "streams" not in variant.name else traffic
        layout = (moved.stream_bytes + spread, in_pairs and moved.in_pairs)
        expected = torch.zeros(min(moved.last_read, moved.stream_bytes or moved.last_read), dtype=torch.uint8)
        expected = expected.to(device)
        for read in split(source, moved, moved.reads, moved.last_read, *layout):
            expected ^= read[: len(expected)]
        for written in split(destination, moved, moved.writes, moved.last_written, *layout):
            both = min(len(written), len(expected))
            assert torch.equal(written[:both], expected[:both]), variant.name
            assert len(written) < both + 64 or (written[both:] != CANARY).any(), variant.name
        is_outside = torch.ones_like(places, dtype=torch.bool)
        end = -(-moved.last_written // multiple) * multiple
        for inside in split(places, moved, moved.writes, end, *layout):
            is_outside[inside] = False
        assert (destination[is_outside] == CANARY).all(), variant.name


@needs_compiler
@pytest.mark.parametrize("traffic", TRAFFICS, ids=str)
def test_every_cpu_variant_moves_the_traffic(traffic):
    check_variants(CppCopy("cpu", cache_folder()), "cpu", traffic)


@needs_compiler
def test_surplus_bytes_are_really_read():
    copier = CppCopy("cpu", cache_folder())
    little, much = StreamTraffic.of([1 << 10], [64]), StreamTraffic.of([32 << 20], [64])
    timer, buffers = choose_timer("cpu"), Buffers("cpu", much)
    (_, little_ms), *_ = tune(copier.variants(little), timer, buffers, cold=False)
    (_, much_ms), *_ = tune(copier.variants(much), timer, buffers, cold=False)
    assert much_ms > 100 * little_ms  # 32,768 times the bytes


@needs_compiler
def test_an_answer_is_complete():
    found = process.CeilingProcess().measure(request())
    json.dumps(vars(found), allow_nan=False)
    assert 0 < found.empty_ms < found.copy_ms <= found.copy_high_ms
    # On a busy machine, too few calls may have had their cores for themselves: then only an upper bound is known.
    assert 0 <= found.copy_low_ms <= found.copy_ms
    assert found.note is None or found.copy_low_ms == 0
    assert found.copy_low_ms <= found.copy_ms
    assert found.copy_method.startswith("cpp ")
    assert set(found.threads or ()) <= os.sched_getaffinity(0)
    assert (found.threads is None) == ("OpenMP" in found.copy_method)
    assert found.copy_hot_ms is None and found.empty_host_us is None


@needs_compiler
@pytest.mark.parametrize("is_wide", [False, True])
def test_a_ceiling_is_measured_once_unless_its_interval_is_wide(monkeypatch, is_wide):
    measuring = process.CeilingProcess()
    measured = process.DeviceCeiling.measure
    found = []

    def measure(*args, **options):
        copy = measured(*args, **options)
        high_ms = copy.copy_ms * (1.2 if is_wide else 1.01)
        found.append(copy.model_copy(update={"copy_low_ms": copy.copy_ms, "copy_high_ms": high_ms}))
        return found[-1]

    monkeypatch.setattr(process.DeviceCeiling, "measure", measure)
    answers = [measuring.measure(request()) for _ in range(2)]
    assert len(found) == 1 + is_wide
    assert answers[-1] is found[-1]


@needs_compiler
def test_measuring_leaves_the_process_as_it_was():
    before = os.sched_getaffinity(0)
    process.CeilingProcess().measure(request(read=[8 << 20], written=[8 << 20]))
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
    channel.send(request(read=[4096], written=[4096]))
    answer = channel.receive()
    channel.close()
    server.join()
    assert answer["ok"] and answer["copy_ms"] > 0


def test_without_a_compiler_the_refusal_says_why(monkeypatch):
    def fail(*_):
        raise BuildError("no working compiler 'c++'\nand more")

    monkeypatch.setattr(process, "CppCopy", fail)
    with pytest.raises(RefusalError, match=r"^no working compiler 'c\+\+'$"):
        process.CeilingProcess().measure(request())


def cuda_variants(monkeypatch, traffic):
    monkeypatch.setattr(copier, "load_copy", lambda *_: lambda _: print)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _: SimpleNamespace(multi_processor_count=132))
    return [variant.name for variant in copier.CudaCopy("cuda:0", cache_folder()).variants(traffic)]


@pytest.mark.parametrize("size", [1, 16 << 10, 1 << 20, 32 << 20, 1 << 30, 32 << 30])
def test_several_launch_shapes_suit_every_size(monkeypatch, size):
    variants = cuda_variants(monkeypatch, StreamTraffic.of([size], [size]))
    assert len(set(variants)) == len(variants) >= 5
    assert any("looping" in variant for variant in variants) == (size >= 32 << 20)


def test_streams_are_tried_beside_one_stream(monkeypatch):
    variants = cuda_variants(monkeypatch, StreamTraffic.of([32 << 20, 32 << 20], [32 << 20]))
    assert {"cuda 256x4", "cuda 256x4, 2 to 1 streams", "cuda 256x4 grouped, 2 to 1 streams"} <= set(variants)
    assert "cuda 256x8, 2 to 1 streams" not in variants  # 16 loads in flight need too many registers


@pytest.mark.skipif(find_cuda_home() is None, reason="needs nvcc")
@pytest.mark.process
def test_the_cuda_copy_compiles_without_spills():
    library = build_native(copy_solution(copier.SOURCE), cache_folder(), "9.0")
    spills = [kernel.spill_bytes for kernel in read_kernels(library, "sm_90")]
    assert spills == [0] * (11 * 3 * 6 + 1)  # loads, writes, kinds; the empty kernel


TRITON_INTERPRETED = """
import test_ceiling_process
from fib_rmsnorm.evaluation.ceiling.triton_copy import TritonCopy
for read, written in [([1000], [1000]), ([3000], [512]), ([512], [3000]), ([2000, 2000, 80], [1000, 2000])]:
    traffic = test_ceiling_process.StreamTraffic.of(read, written)
    test_ceiling_process.check_variants(TritonCopy(), "cpu", traffic, multiple=4, spread=128)
"""


@pytest.mark.process
def test_the_interpreted_triton_copy_copies_the_given_bytes():
    pytest.importorskip("triton")
    here = str(Path(__file__).parent)
    environment = {**os.environ, "TRITON_INTERPRET": "1", "PYTHONPATH": os.pathsep.join([here, *sys.path])}
    subprocess.run([sys.executable, "-c", TRITON_INTERPRETED], env=environment, check=True, timeout=200)


@pytest.mark.gpu
@pytest.mark.parametrize("traffic", TRAFFICS, ids=str)
def test_every_gpu_variant_moves_the_traffic(traffic):
    copier, _ = process.choose_copier("cuda:0", cache_folder())
    check_variants(copier, "cuda:0", traffic, multiple=16, spread=1152, in_pairs=True)


@pytest.mark.alone
@pytest.mark.gpu
def test_a_copy_that_fits_the_cache_is_faster_hot():
    found = process.CeilingProcess().measure(request("cuda:0", [8 << 20], [8 << 20]))
    assert found.empty_ms < found.copy_hot_ms < 0.9 * found.copy_ms
    assert 0.5 < found.empty_host_us < 100


needs_sandbox = pytest.mark.skipif(bool(find_gaps()), reason="this machine confines less: see fib-rmsnorm env")
CPU = Device("cpu", "a CPU", 1 << 30)


@pytest.fixture
def measure(registry, tmp_path, monkeypatch):
    """Measure the ceiling of a Workload with an empty cache; return it and the process that did."""
    monkeypatch.setenv("FIB_RMSNORM_CACHE", str(tmp_path / "cache"))
    (definition,) = registry.definitions().values()
    workload = registry.workloads(definition.name)[0]
    with ForkServer([CEILING]) as fork_server:
        spawned = []
        spawn = fork_server.spawn
        monkeypatch.setattr(fork_server, "spawn", lambda *a, **k: spawned.append(spawn(*a, **k)) or spawned[-1])

        def run(device):
            client = CeilingClient(fork_server, device, RunConfig(settings=Settings(), timeout_s=200))
            return client.measure(definition, workload), spawned[-1]

        yield run


def threads(process):
    """What the kernel says of each thread."""
    for path in Path(f"/proc/{process.pid}/task").glob("*/status"):
        yield dict(line.split(":\t", 1) for line in path.read_text().splitlines() if ":\t" in line)


@pytest.mark.process
@needs_sandbox
@needs_compiler
def test_a_confined_process_builds_and_measures_the_copy(measure):
    ceiling, process = measure(CPU)
    assert ceiling.copy_method.startswith("cpp ")
    assert [status["Seccomp"] for status in threads(process)] == ["2"] * len(list(threads(process)))
    assert list((cache_folder() / "native").glob("*/solution.so"))
    assert list(cache_folder().iterdir()) == [cache_folder() / "native"]


@pytest.mark.process
@needs_sandbox
@needs_compiler
@pytest.mark.skipif(len(os.sched_getaffinity(0)) == 1, reason="needs two cores")
def test_its_threads_are_pinned_in_the_sandbox_too(measure):
    _, process = measure(CPU)
    while not any(status["Cpus_allowed_list"].isdigit() for status in threads(process)):  # each pins itself
        time.sleep(0.01)


@pytest.mark.gpu
@needs_sandbox
def test_a_confined_process_measures_a_gpu(measure):
    ceiling, process = measure(cuda_devices()[0])
    assert ceiling.copy_method.startswith("cuda ")
    assert (ceiling.note, ceiling.copy_ms > ceiling.empty_ms > 0) == (None, True)
    assert {status["Seccomp"] for status in threads(process)} == {"2"}
    assert {path.name for path in cache_folder().iterdir()} == {"native"}
