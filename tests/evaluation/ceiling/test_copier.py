"""The copies in C++, CUDA and Triton: their streams, that they move all bytes of these and no others, their tuning."""

import math
import os
import shutil
import sys
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from fib_rmsnorm.building.cache import cache_folder
from fib_rmsnorm.building.native import build_native, find_cuda_home
from fib_rmsnorm.evaluation.ceiling import copier
from fib_rmsnorm.evaluation.ceiling.ceiling_messages import StreamTraffic, copy_solution
from fib_rmsnorm.evaluation.ceiling.ceiling_process import Buffers, choose_copier, tune
from fib_rmsnorm.evaluation.ceiling.copier import CopyVariant, CppCopy
from fib_rmsnorm.evaluation.timing import choose_timer
from fib_rmsnorm.evaluation.timing.timer import Sample
from fib_rmsnorm.inspection.disassembly import read_kernels
from support.command_line import run_python

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


@pytest.mark.parametrize(
    ("read", "written", "streams"),
    [
        ([ROWS, SMALL], [ROWS], (1, 1, 0, False)),
        ([ROWS, ROWS, SMALL], [ROWS], (2, 1, ROWS, False)),
        ([ROWS, SMALL], [ROWS // 2, 512], (2, 1, ROWS // 2, True)),  # a tensor twice as large is two streams in a pair
        ([ROWS, ROWS, SMALL], [ROWS // 2, ROWS], (4, 3, ROWS // 2, True)),
        ([4 * ROWS], [ROWS], (4, 1, ROWS, True)),
        ([8 * ROWS], [ROWS], (1, 1, 0, False)),  # an output that is small beside the input
        ([ROWS] * 9, [ROWS], (1, 1, 0, False)),  # too many: one after the other
        ([ROWS, ROWS - 1000], [ROWS], (2, 1, ROWS - 1024, False)),
        ([0], [], (1, 1, 0, False)),
    ],
)
def test_each_large_tensor_is_a_stream(read, written, streams):
    traffic = StreamTraffic.of(read, written)
    assert (traffic.reads, traffic.writes, traffic.stream_bytes, traffic.in_pairs) == streams
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
@pytest.mark.usefixtures("untraced")
def test_surplus_bytes_are_really_read():
    copier = CppCopy("cpu", cache_folder())
    little, much = StreamTraffic.of([1 << 10], [64]), StreamTraffic.of([32 << 20], [64])
    timer, buffers = choose_timer("cpu"), Buffers("cpu", much)
    _, little_ms = tune(copier.variants(little), timer, buffers, cold=False)
    _, much_ms = tune(copier.variants(much), timer, buffers, cold=False)
    assert much_ms > 100 * little_ms  # 32,768 times the bytes


class SlowTimer:
    """Of a device on which the time is up after two calls, unless all are wanted."""

    def measure(self, prepare, trial):
        return [Sample(1.0, 1.0)] * (trial.calls if trial.budget_s == math.inf else min(trial.calls, 2))


def test_a_device_too_slow_for_all_variants_in_a_sweep_tunes_by_those_it_came_to():
    variants = [CopyVariant(str(number), lambda *_: partial(int)) for number in range(5)]
    timer: Any = SlowTimer()
    assert tune(variants, timer, Buffers("cpu", StreamTraffic.of([64], [64])), cold=True)[1] == 1.0


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
import test_copier
from fib_rmsnorm.evaluation.ceiling.triton_copy import TritonCopy
for read, written in [([3000], [512]), ([512], [3000]), ([2000, 2000, 80], [1000, 2000])]:
    traffic = test_copier.StreamTraffic.of(read, written)
    test_copier.check_variants(TritonCopy(), "cpu", traffic, multiple=4, spread=128)
"""


@pytest.mark.process
def test_the_interpreted_triton_copy_copies_the_given_bytes():
    pytest.importorskip("triton")
    path = os.pathsep.join([str(Path(__file__).parent), *sys.path])
    run_python("-c", TRITON_INTERPRETED, TRITON_INTERPRET="1", PYTHONPATH=path)


@pytest.mark.gpu
@pytest.mark.parametrize("traffic", TRAFFICS, ids=str)
def test_every_gpu_variant_moves_the_traffic(traffic):
    copier, _ = choose_copier("cuda:0", cache_folder())
    check_variants(copier, "cuda:0", traffic, multiple=16, spread=1152, in_pairs=True)
