"""A GPU is held until the host has issued a call, and CUPTI is detached from the process while it times nothing."""

import ctypes
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from statistics import median

import pytest
import torch

from fib_rmsnorm.building.cache import cache_folder
from fib_rmsnorm.building.native import build_native, find_cuda_home, load_native
from fib_rmsnorm.evaluation.timing import choose_timer, cupti_fault
from fib_rmsnorm.evaluation.timing.cuda_driver import L2Eviction, LateReleaseError
from fib_rmsnorm.evaluation.timing.cuda_events import CudaEvents
from fib_rmsnorm.evaluation.timing.hip_events import HipEvents
from fib_rmsnorm.evaluation.timing.host_overhead import host_overhead_us
from fib_rmsnorm.evaluation.timing.timer import MAX_ATTEMPTS, MeasurementError, Timer, Trial
from support.registries import make_solution

pytestmark = [pytest.mark.gpu, pytest.mark.alone]
HERE = Path(__file__).parent
PAUSE_S = 0.001
CALLS = 20
ROUNDS = 10
SPIN_MS = 0.1  # what unseen_work.cu spins for takes twice as long


@pytest.fixture
def cupti() -> Timer:
    if fault := cupti_fault():
        pytest.skip(fault)
    return choose_timer("cuda:0")


@pytest.fixture(params=["cupti", CudaEvents, HipEvents])
def timer(request) -> Timer:
    return request.getfixturevalue("cupti") if request.param == "cupti" else request.param("cuda:0")


def two_fills_with_a_pause() -> None:
    torch.zeros(1024, device="cuda")
    time.sleep(PAUSE_S)
    torch.zeros(1024, device="cuda")


def waits_for_the_device() -> None:
    torch.zeros(1024, device="cuda").sum().item()


def spans_ms(timer: Timer, call, *, queued: bool) -> list[float]:
    """The spans of ten calls; a busy host may be late for a call, which is measured again as in trials."""
    for _ in range(MAX_ATTEMPTS):
        with suppress(LateReleaseError):
            samples = timer.measure(lambda _: call, Trial(10, cold=True, budget_s=10, queued=queued))
            return sorted(sample.span_ms for sample in samples)
    raise LateReleaseError("in every attempt")


def test_a_pause_of_the_host_is_in_the_span_only_on_an_idle_gpu(timer):
    pause_ms = PAUSE_S * 1e3
    assert spans_ms(timer, two_fills_with_a_pause, queued=True)[5] < pause_ms / 10
    assert spans_ms(timer, two_fills_with_a_pause, queued=False)[0] >= pause_ms


def test_a_call_that_waits_for_the_device_is_found(timer):
    with pytest.raises(LateReleaseError) as raised:
        timer.measure(lambda _: waits_for_the_device, Trial(10, cold=True, budget_s=10, queued=True))
    assert raised.value.calls == 1
    assert spans_ms(timer, waits_for_the_device, queued=False)


def test_another_stream_that_waits_for_the_current_one_is_held_too(timer):
    side = torch.cuda.Stream()

    def on_two_streams() -> None:
        torch.zeros(1024, device="cuda")
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            time.sleep(PAUSE_S)
            torch.zeros(1024, device="cuda")
        torch.cuda.current_stream().wait_stream(side)

    assert spans_ms(timer, on_two_streams, queued=True)[5] < PAUSE_S * 1e3 / 10


def test_a_call_that_raises_releases_the_gpu(timer):
    def fails() -> None:
        raise RuntimeError("on purpose")

    with pytest.raises(RuntimeError, match="on purpose"):
        timer.measure(lambda _: fails, Trial(1, cold=True, budget_s=10))
    torch.cuda.synchronize()
    assert spans_ms(timer, two_fills_with_a_pause, queued=True)


def fill() -> None:
    torch.zeros(1024, device="cuda")


def test_hip_events_say_what_cuda_events_say():
    source, target = torch.zeros(2, 192 << 20, dtype=torch.uint8, device="cuda")  # about 100 us on an H200
    target.copy_(source)

    def find_median_ms(timer: Timer) -> float:
        samples = timer.measure(lambda _: lambda: target.copy_(source), Trial(CALLS, cold=True, budget_s=10))
        return median(sample.span_ms for sample in samples)

    assert find_median_ms(HipEvents("cuda:0")) == pytest.approx(find_median_ms(CudaEvents("cuda:0")), rel=0.2)


def cold_spans_ms(timer: Timer) -> list[float]:
    return [sample.span_ms for sample in timer.measure(lambda _: fill, Trial(CALLS, cold=True, budget_s=10))]


def test_measures_after_a_rest_as_before(cupti):
    for _ in range(3):
        assert all(0 < span_ms < 1 for span_ms in cold_spans_ms(cupti))
        cupti.rest()
        cupti.rest()  # there is nothing left to do


def test_a_call_costs_the_host_less_at_rest(cupti):
    awake, at_rest = [], []
    for _ in range(ROUNDS):
        cold_spans_ms(cupti)
        awake.append(host_overhead_us(fill))
        cupti.rest()
        at_rest.append(host_overhead_us(fill))
    assert min(at_rest) < min(awake)


def test_graphs_outlive_a_rest(cupti):
    for _ in range(2):
        cold_spans_ms(cupti)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            fill()
        cupti.rest()
        graph.replay()
        found = cupti.measure(lambda _, graph=graph: graph.replay, Trial(CALLS, cold=True, budget_s=10))
        assert [sample.pieces for sample in found] == [1] * CALLS
        cupti.rest()


@pytest.fixture(scope="module")
def unseen_work(tmp_path_factory) -> ctypes.CDLL:
    library = tmp_path_factory.mktemp("unseen") / "unseen.so"
    arch = "sm_{}{}".format(*torch.cuda.get_device_capability())
    flags = ["-rdc=true", "-shared", "-Xcompiler", "-fPIC", f"-arch={arch}", "-lcudadevrt"]
    subprocess.run([find_cuda_home() / "bin" / "nvcc", *flags, HERE / "unseen_work.cu", "-o", library], check=True)
    return ctypes.CDLL(library)


def test_work_that_a_kernel_launches_is_not_hidden(cupti, unseen_work):
    def call() -> None:
        unseen_work.by_a_kernel(ctypes.c_void_p(torch.cuda.current_stream().cuda_stream))

    call()
    with pytest.raises(MeasurementError, match="more than CUPTI recorded"):
        spans_ms(cupti, call, queued=True)
    assert spans_ms(cupti, call, queued=False)[0] > SPIN_MS


def test_a_conditional_node_of_a_graph_is_in_the_span(timer, unseen_work):
    def call() -> None:
        unseen_work.in_a_conditional_node(ctypes.c_void_p(torch.cuda.current_stream().cuda_stream))

    call()
    for queued in (False, True):
        assert spans_ms(timer, call, queued=queued)[0] > SPIN_MS


BLOCKS, THREADS, VECS = 512, 256, 2  # 4 MiB in vectors of 16 bytes
READS = 60


def build_reader() -> Callable[..., None]:
    text, entry = (HERE / "reader.cu").read_text(), "reader.cu::read"
    solution = make_solution("reader", "reader.cu", text, "cuda", target_hardware=["cuda"], entry_point=entry)
    return load_native(build_native(solution, cache_folder()), "read")


def test_lines_that_a_kernel_asked_to_keep_are_evicted():
    read, timer = build_reader(), choose_timer("cuda:0")
    source = torch.zeros(BLOCKS * THREADS * VECS * 4, dtype=torch.int32, device="cuda:0")
    sink = torch.zeros(4, dtype=torch.int32, device="cuda:0")

    def time(*, keep=False, in_window=False, cold=True):
        call = partial(read, source.data_ptr(), sink.data_ptr(), BLOCKS, int(keep), int(in_window))
        call()  # the driver may wait for the device to load a kernel, which a held device never lets it do
        samples = timer.measure(lambda _: call, Trial(READS, cold=cold, budget_s=60))
        return median(sample.span_ms for sample in samples)

    ordinary = time()
    assert time(cold=False) < 0.9 * ordinary  # or nothing would show below
    assert time(keep=True) > 0.97 * ordinary
    assert time(in_window=True) > 0.97 * ordinary


def test_eviction_reads_all_of_a_buffer_of_twice_the_cache():
    evict = L2Eviction("cuda:0")
    assert evict._buffer.nbytes == 2 * torch.cuda.get_device_properties(0).L2_cache_size
    evict._buffer[-1] = 7  # what is read last is told by a write to the begin
    evict(torch.cuda.current_stream())
    assert evict._buffer[:16].any()
