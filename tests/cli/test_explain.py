import re
import shutil

import pytest

from fib_rmsnorm.building.native import find_cuda_home
from fib_rmsnorm.operators import RmsNorm
from fib_rmsnorm.registry import Registry
from fib_rmsnorm.sandbox.fork_server import ForkServer
from support.command_line import run_on_terminal
from support.full_registry import CUDA, DEFINITION
from support.kernels import read_kernels
from support.paths import REPOSITORY, TESTS
from support.registries import add_definition, copy_shared, make_registry, pack_all, python_manifest


def needs_nvcc(test):
    """The test waits for it."""
    return pytest.mark.compile(pytest.mark.skipif(find_cuda_home() is None, reason="needs nvcc")(test))


SHIPPED = REPOSITORY / "solutions" / "fib-rmsnorm" / "norm" / "rmsnorm_d4096"


@pytest.fixture(scope="module")
def shipped(tmp_path_factory):
    """A registry with the repository's own kernels, for the Definitions of two hidden sizes."""
    registry = make_registry(tmp_path_factory.mktemp("explain") / "registry", 4096)
    registry.write_definition(RmsNorm().define(2048, "bfloat16"))
    home = registry.layout.solutions / "fib-rmsnorm" / "norm" / "rmsnorm_d4096"
    shutil.copytree(SHIPPED, home, ignore=shutil.ignore_patterns("*.json", "__pycache__"))
    copy_shared(registry)
    pack_all(registry)
    return registry


def explain(fib, shipped, name, *options, arch=("--arch", "sm_90")):
    return fib("explain", name, "--root", shipped.root, *arch, "--json", *options).answer


def check_launches(record, batches):
    """What holds of any RMSNorm at hidden 4096 in fp16 that reads x once and keeps it in registers."""
    assert [launch["axes"]["batch"] for launch in record["launches"]] == list(batches)
    for launch in record["launches"]:
        kernel = record["kernels"][launch["kernel_number"]]
        assert kernel["spill_bytes"] == 0
        assert {access["bytes"] for access in kernel["code"]["accesses"]} == {16}
        assert 0 < launch["occupancy"]["share"] <= 1
        assert launch["waves"] > 0
        assert launch["traffic"]["store_sectors_per_row"] == 256  # 8192 bytes
        assert 256 < launch["traffic"]["load_sectors_per_row"] <= 512


@needs_nvcc
def test_cuda_host_code_tells_its_launches_and_kernels_without_a_gpu(fib, shipped):
    record = explain(fib, shipped, "rmsnorm_cuda_vec16_v1", "--batch-sizes", "1,65536")
    check_launches(record, (1, 65536))
    small, large = record["launches"]
    assert small["kernel"].startswith("norm_row<RmsNorm, __half2")
    assert small["grid"] == [1, 1, 1]
    assert large["waves"] > 10
    assert len(record["kernels"]) > len({launch["kernel_number"] for launch in record["launches"]})
    assert record["notes"] == []
    # Whichever compiler ends first, the kernels of each dtype's file come together, and the files by name.
    pairs = ("__nv_bfloat162", "__half2", "float2")
    found = [pair for kernel in record["kernels"] for pair in pairs if f"<RmsNorm, {pair}," in kernel["kernel"]]
    assert set(found) == set(pairs) and found == sorted(found, key=pairs.index)


@needs_nvcc
def test_a_sister_definition_by_name(fib, shipped):
    record = explain(fib, shipped, "rmsnorm_cuda_vec16_v1", "--definition", "rmsnorm_d2048_bf16", "--batch-sizes", "32")
    assert record["solution"] == "rmsnorm_cuda_vec16_v1_d2048_bf16"
    assert [launch["kernel"].split(", ")[:2] for launch in record["launches"]] == [
        ["norm_row<RmsNorm", "__nv_bfloat162"]
    ]
    assert [launch["traffic"]["store_sectors_per_row"] for launch in record["launches"]] == [128]


H200, A100 = ("sm_90", "H200", 132), ("sm_80", "A100 40 GB", 108)
MI250X, MI300X, MI355X = ("gfx90a", "MI250X", 110), ("gfx942", "MI300X", 304), ("gfx950", "MI355X", 256)


@pytest.mark.parametrize(
    ("name", "arch", "gpu"),
    [
        ("rmsnorm_triton_row_v1", "sm_90", H200),
        ("rmsnorm_triton_row_v1", "8.0", A100),
        ("rmsnorm_triton_row_v1", "gfx90a", MI250X),
        ("rmsnorm_triton_row_v1", "gfx942", MI300X),
        ("rmsnorm_triton_row_v1", "gfx950", MI355X),
        ("rmsnorm_tilelang_row_v1", "sm_90", H200),
    ],
)
@pytest.mark.compile
def test_kernels_of_python_dsls(fib, shipped, name, arch, gpu):
    """Those of CUDA, on both: tests/inspection/test_cuda_launches.py."""
    pytest.importorskip(name.split("_")[1])
    if "tilelang" in name and find_cuda_home() is None:
        pytest.skip("needs nvcc")
    # Not batch 1, for which a block may hold a second row that does not exist; its accesses would count.
    record = explain(fib, shipped, name, "--batch-sizes", "8,4096", arch=("--arch", arch))
    assert (record["arch"], record["chip"], record["multiprocessors"]) == gpu
    check_launches(record, (8, 4096))


@pytest.mark.parametrize("columns", [80, 120])
@pytest.mark.process
@pytest.mark.compile
def test_two_gpus_side_by_side_on_a_terminal(shipped, columns):
    pytest.importorskip("triton")
    command = ("explain", "rmsnorm_triton_row_v1", "--arch", "sm_90,gfx942", "--batch-sizes", "512,4096")
    lines = run_on_terminal(*command, cwd=shipped.root, columns=columns).splitlines()
    shown = [re.sub(r"\x1b\[\d*m", "", line).rstrip() for line in lines]
    assert max(map(len, shown)) <= columns
    title, tables = " ".join(" ".join(shown[:2]).split()), [line.split() for line in shown]
    assert "for sm_90 (H200: 132 multiprocessors) and gfx942 (MI300X: 304 multiprocessors)" in title
    kernels, *launches = [number for number, cells in enumerate(tables) if cells[:2] == ["arch", "#"]]
    assert len(launches) == 2
    for number in (kernels, *launches):
        assert [cells[0] for cells in tables[number + 1 : number + 3]] == ["sm_90", "gfx942"]
    for number, batch in zip(launches, (512, 4096), strict=True):
        assert shown[number - 1] == f"batch={batch}"
        assert [row[2:4] for row in tables[number + 1 : number + 3]] == [[str(batch), "256"], [str(batch), "512"]]
        assert [row[-2:] for row in tables[number + 1 : number + 3]] == [["512", "256"]] * 2
    assert "gfx942 #0 norm_rows: 3.37 waves at batch=4096: the last one fills 37%" in " ".join(" ".join(shown).split())


def test_a_build_for_an_amd_gpu_skips_other_languages(fib, full_registry):
    outcome = fib("solve", "--build", "--arch", "gfx942", "--solutions", CUDA)
    assert "skipped: CUDA does not compile for AMD's GPUs here, only Triton does" in outcome.out


@pytest.mark.compile
def test_an_architecture_without_a_known_model_has_no_figures_of_another(fib, shipped):
    pytest.importorskip("triton")
    record = explain(fib, shipped, "rmsnorm_triton_row_v1", "--batch-sizes", "4096", "--arch", "sm_110")
    assert (record["arch"], record["chip"], record["multiprocessors"]) == ("sm_110", None, None)
    assert [(launch["occupancy"], launch["waves"]) for launch in record["launches"]] == [(None, None)]
    assert record["notes"][-1].startswith("occupancy and waves are unknown: no GPU model of sm_110 is known here; ")
    (work,) = record["work"]  # it is counted from the Definition
    assert work["bytes_moved"] == 2 * 4096 * 8192 + 8192
    assert work["flops"] == 4096 * (4 * 4096 + 3)
    assert work["flops_per_byte"] == pytest.approx(1.0, rel=1e-3)


@pytest.mark.compile
def test_what_sums_over_rows_has_no_figures_of_a_row(fib, tmp_path):
    """The registered Workloads are told, and no sectors of a row where dweight has none."""
    pytest.importorskip("triton")
    registry = make_registry(tmp_path / "registry")
    shipped = Registry(REPOSITORY).definition("rmsnorm_backward_d4096")
    add_definition(registry, shipped, [8])
    folder = SHIPPED.with_name(shipped.name) / "rmsnorm_backward_triton_row_v1"
    home = registry.layout.solutions / "fib-rmsnorm" / "norm" / shipped.name / folder.name
    shutil.copytree(folder, home, ignore=shutil.ignore_patterns("__pycache__"))
    copy_shared(registry)
    outcome = fib("explain", folder.name, "--root", registry.root, "--arch", "sm_90")
    assert outcome.code == 0 and "Launches" in outcome.lines
    assert [line.split()[0] for line in outcome.lines if line.startswith("batch=")] == ["batch=8", "batch=8"]
    assert "sectors" not in outcome.out and "Instructions of a thread" in outcome.out


@needs_nvcc
def test_as_text(fib, shipped):
    outcome = fib("explain", "rmsnorm_cuda_vec16_v1", "--root", shipped.root, "--arch", "sm_90", "--batch-sizes", "512")
    assert outcome.lines[0] == (
        "rmsnorm_cuda_vec16_v1 (CUDA) for rmsnorm_d4096, compiled for sm_90 (H200: 132 multiprocessors)"
    )
    assert "\x1b" not in outcome.out
    assert "Conclusions" not in outcome.lines  # it has none of the faults
    assert "2 x 16 bytes" in outcome.row("norm_row<RmsNorm,", "__half2,")
    assert any(line.startswith("batch=512 ") and line.split()[-3:] == ["32", "512", "256"] for line in outcome.lines)


@needs_nvcc
def test_a_launch_that_cannot_be_read_says_why(fib, shipped, tmp_path):
    """This host code allocates device memory, which the fake runtime leaves to the real one."""
    source = (TESTS / "honest_kernels" / "scratch_memory" / "cuda_two_kernels.cu").read_text()
    allocation = "cudaMalloc(&workspace, batch * sizeof(float))"
    assert f"{allocation};" in source
    checked = source.replace(f"{allocation};", f'if ({allocation}) TVM_FFI_THROW(RuntimeError) << "no memory";')
    (tmp_path / "kernel.cu").write_text(f"#include <tvm/ffi/error.h>\n{checked}")
    record = explain(fib, shipped, tmp_path / "kernel.cu", "--batch-sizes", "1,8")
    import torch

    if not torch.cuda.is_available():
        assert record["launches"] == []
        (note,) = record["notes"]
        assert note.startswith("the launches are unknown: ")
    assert record["kernels"]


@needs_nvcc
def test_what_torch_binds_is_compiled_with_the_headers_of_the_installed_torch(fib, shipped, tmp_path):
    (tmp_path / "main.cpp").write_text("#include <pybind11/pybind11.h>\nPYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {}\n")
    (tmp_path / "kernel.cu").write_text("#include <c10/util/Half.h>\n__global__ void k(c10::Half* x) { *x = 1; }\n")
    spec = 'language = "cuda"\nbinding = "torch"\nentry_point = "main.cpp::run"\ntarget_hardware = ["cuda"]'
    (tmp_path / "solution.toml").write_text(f'name = "bound"\n[spec]\n{spec}\ndestination_passing_style = false\n')
    record = explain(fib, shipped, tmp_path)
    assert [kernel["kernel"] for kernel in record["kernels"]] == ["k"]
    assert record["notes"] == ["the launches are unknown: what torch binds runs only where there is a GPU"]


def test_kernels_for_the_cpu_are_none_of_a_gpu(fib, full_registry, tmp_path):
    folder = tmp_path / "kernel"
    folder.mkdir()
    shutil.copy(TESTS / "honest_kernels" / "languages" / "tilelang_row.py", folder / "kernel.py")
    (folder / "solution.toml").write_text(python_manifest("rmsnorm_tilelang_c_v1").replace('"python"', '"tilelang"'))
    assert "kernel is made for the CPU" in fib("explain", folder, "--definition", DEFINITION).refusal


@pytest.mark.compile
def test_an_autotuner_is_reported(fib, shipped, tmp_path):
    pytest.importorskip("triton")
    (tmp_path / "kernel.py").write_text(read_kernels("honest")["triton_autotuned"].text)
    record = explain(fib, shipped, tmp_path / "kernel.py", "--batch-sizes", "8")
    assert len(record["launches"]) == 1
    assert record["notes"][0].startswith("an autotuner times its configurations")


@pytest.mark.parametrize("command", ["explain", "profile"])
@pytest.mark.parametrize("name", ["nosuch.py", "nosuch.cu", "no/such"])
def test_a_file_that_is_not_there_is_reported_before_anything_starts(fib, full_registry, monkeypatch, command, name):
    monkeypatch.delattr(ForkServer, "__init__")
    assert fib(command, name).refusal == f"no such file: {name}"


@needs_nvcc
def test_what_does_not_compile_is_one_line(fib, full_registry):
    kernel = TESTS / "wrong_kernels" / "build" / "cuda_syntax_error.cu"
    fault = fib("explain", kernel, "--definition", DEFINITION).kernel_fault
    assert fault.startswith("cuda_syntax_error.cu does not compile for sm_90: cuda_syntax_error.cu(")
    assert 'error: expected a ";"' in fault


@needs_nvcc
def test_sources_without_kernels_say_so(fib, full_registry):
    assert "Note: cuobjdump finds no kernels in the binary" in fib("explain", CUDA, "--arch", "sm_90").lines
