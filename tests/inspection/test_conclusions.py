"""What `explain` concludes from compiled code, of kernels with known faults and of kernels without them."""

import re
import subprocess
from pathlib import Path

import pytest

from fib_rmsnorm.building.native import find_cuda_home
from fib_rmsnorm.inspection.conclusions import conclude
from fib_rmsnorm.inspection.disassembly import find_cuobjdump, read_kernels
from fib_rmsnorm.inspection.facts import Access, ExplainedLaunch, Explanation, Kernel, Traffic, Work
from fib_rmsnorm.machine.gpu_models import find_architecture, occupancy

SOURCE = Path(__file__).with_name("compiled_kernels.cu")


def explanation_of(kernels, launches=(), work=()) -> Explanation:
    return Explanation(
        solution="mine", definition="rmsnorm_d4096", language="cuda", arch="sm_90", chip="H200", multiprocessors=132,
        kernels=kernels, launches=launches, work=work,
    )  # fmt: skip


def findings_of(explanation: Explanation) -> list[str]:
    return [each.finding for each in conclude(explanation)]


def make_kernel(code=None, *, registers=32, spill_bytes=0, shared_bytes=0) -> Kernel:
    return Kernel(
        kernel="rows", arch="sm_90", registers=registers, spill_bytes=spill_bytes, shared_bytes=shared_bytes, code=code
    )


@pytest.fixture(
    scope="module", params=["sm_90", *(pytest.param(arch, marks=pytest.mark.compile) for arch in ("sm_80", "sm_100"))]
)
def kernels(request, tmp_path_factory):
    """The kernels by name, and what ptxas says of them."""
    home, folder, arch = find_cuda_home(), tmp_path_factory.mktemp("sass"), request.param
    if home is None or find_cuobjdump() is None:
        pytest.skip("needs nvcc and cuobjdump")
    command = [home / "bin" / "nvcc", f"-arch={arch}", "-cubin", "-Xptxas", "-v", SOURCE, "-o", folder / "k.cubin"]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    if run.returncode != 0 and arch != "sm_90":
        pytest.skip(f"this nvcc does not compile for {arch}")
    assert run.returncode == 0, run.stderr
    found = read_kernels(folder / "k.cubin", arch)
    if not found:
        pytest.skip(f"this cuobjdump does not know {arch}")
    assert read_kernels((folder / "k.cubin").read_bytes(), arch) == found
    return {kernel.kernel: kernel for kernel in found}, run.stdout + run.stderr


@pytest.fixture
def codes(kernels):
    return {name: kernel.code for name, kernel in kernels[0].items()}


def test_what_slows_a_naive_kernel_is_reported_with_its_number(codes):
    found = "\n".join(findings_of(explanation_of([make_kernel(codes["naive"])])))
    assert "2-byte loads and stores: 8 times the requests of 16-byte ones" in found
    assert "2 loops with 2 to 4 bytes of loads per thread and pass" in found
    assert "a loop with a barrier" in found


def test_nothing_is_reported_of_a_kernel_without_these_faults(codes):
    assert findings_of(explanation_of([make_kernel(codes["wide"])])) == []


def make_launch(kernel, *, blocks, threads=256, batch=4096, load_sectors=512.0) -> ExplainedLaunch:
    fits = occupancy(find_architecture("sm_90"), threads, kernel.registers, kernel.shared_bytes)
    traffic = Traffic(load_requests_per_row=32, load_sectors_per_row=load_sectors, store_sectors_per_row=256)
    return ExplainedLaunch(
        kernel_number=0, grid=(blocks, 1, 1), block=(threads, 1, 1), axes={"batch": batch}, kernel="rows",
        occupancy=fits, waves=blocks / (fits.blocks * 132) if fits.blocks else None, traffic=traffic,
    )  # fmt: skip


WORK = Work(
    axes={"batch": 4096}, flops=1, bytes_moved=1, flops_per_byte=1.0, least_sectors_per_row=512,
    input_sectors_per_row=512,
)  # fmt: skip


@pytest.mark.parametrize(
    ("resources", "launch", "said"),
    [
        ({"spill_bytes": 48}, {"blocks": 13200}, "48 bytes of local memory per thread"),
        ({"registers": 168}, {"blocks": 13200}, "occupancy 12%: 168"),
        ({"shared_bytes": 100_000}, {"blocks": 13200}, "100000 bytes of shared memory per block"),
        ({"registers": 128}, {"blocks": 13200, "threads": 1024}, "no block fits on a multiprocessor"),
        ({}, {"blocks": 8, "batch": 8}, "at batch=8, blocks on only 8 of 132 multiprocessors"),
        ({}, {"blocks": 1100}, "1.04 waves at batch=4096: the last one fills 4% of the device"),
        ({}, {"blocks": 13200, "load_sectors": 768.0}, "768 sectors are loaded for each row, 1.5 times those"),
        ({}, {"blocks": 1056}, None),
        ({"registers": 64}, {"blocks": 13200}, None),
    ],
)  # fmt: skip
def test_what_follows_from_resources_and_launches(resources, launch, said):
    kernel = make_kernel(**resources)
    found = [*conclude(explanation_of([kernel], [make_launch(kernel, **launch)], work=[WORK]))]
    assert len(found) == (said is not None)
    for each in found:
        assert all(word in each.finding for word in said.split(": ")), found
        assert "row" not in each.advice  # it fits operators without rows too


def test_the_resources_of_every_kernel_are_what_ptxas_says(kernels):
    """On Hopper the cubin counts 1 KiB of reserved shared memory that the kernel did not ask for."""
    found, report = kernels
    parts = re.split(r"Compiling entry function '(\w+)' for 'sm_\d+'", report)[1:]
    said = {}
    for name, text in zip(parts[::2], parts[1::2], strict=True):
        patterns = (r"Used (\d+) registers", r"(\d+) bytes stack frame", r"(\d+) bytes smem")
        said[name] = [int(match[1]) if (match := re.search(each, text)) else 0 for each in patterns]
    assert set(said) == {"naive", "reverse", "spill", "sum", "wide", "widen"}
    assert {name: [one.registers, one.spill_bytes, one.shared_bytes] for name, one in found.items()} == said
    assert said["spill"][1] > 0 and said["reverse"][2] == 1024


def test_shared_memory_a_barrier_a_special_function_and_a_wider_half(codes):
    instructions = codes["reverse"].instructions
    wanted = ("global loads", "shared stores", "barriers", "shared loads", "special functions", "global stores")
    assert {kind: instructions.get(kind) for kind in wanted} == dict.fromkeys(wanted, 1)
    assert codes["reverse"].loops == 0
    assert codes["widen"].instructions["conversions"] == 1 and "conversions" not in instructions


def test_a_loop_and_what_is_in_it(codes):
    assert codes["sum"].loops == 1
    load = Access(does="load", bytes=8, count=1, in_loop=True)
    assert codes["sum"].accesses == (load, Access(does="store", bytes=4, count=1, in_loop=False))
    assert codes["sum"].instructions["fused multiply-adds"] == 1
    assert codes["sum"].instructions["shuffles"] == 5
