"""profile, with an ncu that prints what a real one printed: no GPU's counters can be read here."""

import json
import os
import sys
from pathlib import Path

import pytest

from fib_rmsnorm.machine import devices
from fib_rmsnorm.machine.devices import Device
from fib_rmsnorm.profiling.ncu import find_ncu, parse_counters
from support.paths import REPOSITORY
from support.registries import copy_shared, make_registry

# The shape of a raw page: launch columns without units, then metrics by name, a row of units, then a row a kernel.
COLUMNS = [
    ("ID", "", "0"), ("Process ID", "", "4242"), ("Process Name", "", "python3.12"), ("Host Name", "", "127.0.0.1"),
    ("Kernel Name", "", "void rmsnorm_rows<__half2, 4>(const Vec<__half2> *, float)"), ("Context", "", "1"),
    ("Stream", "", "7"), ("Block Size", "", "(128, 1, 1)"), ("Grid Size", "", "(4096, 1, 1)"), ("Device", "", "0"),
    ("CC", "", "9.0"),
    ("dram__bytes_read.sum", "byte", "33,562,880"), ("dram__bytes_write.sum", "byte", "1,048,576"),
    ("gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed", "%", "45.12"),
    ("gpu__time_duration.sum", "nsecond", "16,608"),
    ("l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum", "", "131,072"),
    ("l1tex__t_requests_pipe_lsu_mem_global_op_st.sum", "", "65,536"),
    ("l1tex__t_sector_hit_rate.pct", "%", "12.50"),
    ("l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum", "sector", "2,097,152"),
    ("l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum", "sector", "1,048,576"),
    ("launch__registers_per_thread", "register/thread", "64"), ("launch__waves_per_multiprocessor", "", "3.88"),
    ("lts__t_sector_hit_rate.pct", "%", "51.20"), ("sm__maximum_warps_per_active_cycle_pct", "%", "50"),
    ("sm__warps_active.avg.pct_of_peak_sustained_active", "%", "43.75"),
    ("smsp__average_warps_issue_stalled_barrier_per_issue_active.ratio", "inst", "2"),
    ("smsp__average_warps_issue_stalled_long_scoreboard_per_issue_active.ratio", "inst", "7.5"),
    ("smsp__average_warps_issue_stalled_selected_per_issue_active.ratio", "inst", "1"),
    ("smsp__average_warps_issue_stalled_wait_per_issue_active.ratio", "inst", "0.5"),
    ("smsp__average_warps_issue_stalled_wait_not_issued_per_issue_active.ratio", "inst", "0.5"),
    ("smsp__average_warps_issue_stalled_gmma_per_issue_active.ratio", "inst", "n/a"),
]  # fmt: skip


def page(*rows):
    quoted = [",".join(f'"{cell}"' for cell in row) for row in rows]
    return "\n".join(["==PROF== Connected to process 4242", *quoted, "==PROF== Disconnected from process 4242", ""])


NAMES, UNITS, VALUES = ([column[part] for column in COLUMNS] for part in range(3))
PAGE = page(NAMES, UNITS, VALUES)


def test_units_are_scaled_and_what_is_missing_is_not_known():
    values = dict(zip(NAMES, VALUES, strict=True)) | {
        "gpu__time_duration.sum": "16.61",
        "lts__t_sector_hit_rate.pct": "n/a",
    }
    units = dict(zip(NAMES, UNITS, strict=True)) | {"gpu__time_duration.sum": "us"}
    del values["dram__bytes_read.sum"]
    names = list(values)
    (found,) = parse_counters(page(names, [units[name] for name in names], list(values.values())))
    assert found.duration_us == pytest.approx(16.61)
    assert (found.counters["l2_hit_percent"], found.counters["dram_bytes_read"], found.bandwidth_gb_per_s) == (
        None,
        None,
        None,
    )


@pytest.fixture
def gpu(monkeypatch):
    """A GPU, as far as commands that start no process on it can tell."""
    monkeypatch.setattr(devices, "cuda_devices", lambda: [Device("cuda:0", "Fake GPU", 80 << 30)])


@pytest.fixture
def ncu(tmp_path, monkeypatch):
    """Put a program called ncu on PATH that keeps its arguments and says what it is told to."""

    def install(*, printed=PAGE, code=0):
        folder = tmp_path / "bin"
        folder.mkdir()
        (folder / "page").write_text(printed)
        program = f"""#!{sys.executable}
import json, pathlib, sys
folder = pathlib.Path({str(folder)!r})
with (folder / "calls").open("a") as calls:
    calls.write(json.dumps(sys.argv[1:]) + "\\n")
if "--export" in sys.argv:
    pathlib.Path(sys.argv[sys.argv.index("--export") + 1]).write_text("report")
if "--import" in sys.argv or {code}:
    sys.stdout.write((folder / "page").read_text())
sys.exit({code})
"""
        (folder / "ncu").write_text(program)
        (folder / "ncu").chmod(0o755)
        monkeypatch.setenv("PATH", os.pathsep.join([str(folder), os.environ["PATH"]]))
        return lambda: [json.loads(line) for line in (folder / "calls").read_text().splitlines()]

    return install


@pytest.fixture
def solution(tmp_path, monkeypatch):
    pytest.importorskip("triton")
    registry = make_registry(tmp_path / "registry", 4096)
    copy_shared(registry)  # which the example includes
    monkeypatch.chdir(registry.root)
    return REPOSITORY / "examples" / "block_size"


def test_a_profile_of_each_batch_size_as_json(fib, solution, gpu, ncu):
    calls = ncu()
    small, record = fib("profile", solution, "--batch-sizes", "8,4096", "--json").answer
    assert (record["axes"], record["hardware"]) == ({"batch": 4096}, "Fake GPU")
    (kernel,) = record["kernels"]
    assert kernel["kernel"].startswith("void rmsnorm_rows<__half2, 4>(")  # a comma within quotes
    assert (kernel["grid"], kernel["block"]) == ([4096, 1, 1], [128, 1, 1])
    assert kernel["bandwidth_gb_per_s"] == pytest.approx((33_562_880 + 1_048_576) / 16.608e-6 / 1e9)
    assert kernel["stalls"] == {"long_scoreboard": 0.75, "barrier": 0.2, "wait": 0.05}
    reports = [str(Path(f"block_size.batch{size}.ncu-rep").absolute()) for size in (8, 4096)]
    assert [each["report"] for each in (small, record)] == reports and all(map(os.path.exists, reports))
    *_, measure, show = calls()
    joined = " ".join(measure)
    for words in (
        "--cache-control all",
        "--clock-control none",
        "--profile-from-start off",
        "--section WarpStateStats",
    ):
        assert words in joined
    assert show == ["--import", reports[1], "--csv", "--page", "raw", "--print-units", "base"]


def test_a_profile_in_words(fib, solution, gpu, ncu):
    ncu()
    outcome = fib("profile", solution, "--batch-sizes", "4096")
    assert outcome.code == 0, outcome.err
    for name, value in (("duration_us", 16.608), ("registers", 64), ("load_requests", 131072), ("waves", 3.88)):
        assert float(outcome.row(f"{name}:").split()[1]) == pytest.approx(value, rel=1e-3)
    assert outcome.row("long_scoreboard", "75%").startswith("data from global memory")


@pytest.mark.parametrize(
    ("said", "code", "told"),
    [
        *(
            ("==ERROR== ERR_NVGPUCTRPERM - The user does not have permission to access GPU counters.\n", 1, told)
            for told in ("--cap-add PERFMON (drivers before 565: SYS_ADMIN)", "NVreg_RestrictProfilingToAdminUsers=0")
        ),
        ("==ERROR== Unrecognised option '--section'\n", 1, "ncu failed: Unrecognised option '--section'"),
        (
            "Traceback (most recent call last):\nValueError: no\n==ERROR== The application returned an error code.\n",
            1,
            "ncu failed: ValueError: no",
        ),
        ("==WARNING== No kernels were profiled.\n", 0, "recorded no kernel"),
    ],
)
def test_what_failed_is_reported_in_one_line(fib, solution, gpu, ncu, said, code, told):
    ncu(printed=said, code=code)
    assert told in fib("profile", solution).refusal


def test_without_ncu_it_says_where_to_get_it(fib, solution, gpu, monkeypatch):
    monkeypatch.setattr("fib_rmsnorm.profiling.ncu.find_ncu", lambda: None)
    assert "apt-get install cuda-nsight-compute-13-0" in fib("profile", solution).refusal


@pytest.mark.gpu
@pytest.mark.alone  # ncu may refuse to count while other processes launch kernels
def test_a_real_gpus_counters(fib, tmp_path, monkeypatch):
    if find_ncu() is None:
        pytest.skip("needs ncu")
    monkeypatch.chdir(make_registry(tmp_path / "registry", 4096).root)
    example = REPOSITORY / "examples" / "block_size"
    outcome = fib("profile", example, "--batch-sizes", "4096", "--json", "--root", REPOSITORY)
    if "ERR_NVGPUCTRPERM" in outcome.err:
        pytest.skip("may not read the counters")
    (record,) = outcome.answer
    (kernel,) = record["kernels"]
    assert Path(record["report"]).stat().st_size > 0
    assert 5 < kernel["duration_us"] < 1000
    assert kernel["dram_bytes_read"] > 4096 * 8192 * 0.9
    assert 0 < kernel["achieved_occupancy_percent"] <= kernel["theoretical_occupancy_percent"] + 1
    assert kernel["store_sectors"] == 4096 * 256
    assert sum(kernel["stalls"].values()) == pytest.approx(1)
