"""The page of each exercise: its own text earns all points, and it shows what the commands say today."""

import re
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from fib_rmsnorm import load
from fib_rmsnorm.analysis.results import peak_of
from fib_rmsnorm.exercises.course import EXERCISES, STARTERS
from support.exercise_page import correct_files, fill_in, fill_in_passes, grade, page_of, run_command, walk_page

pytestmark = pytest.mark.timeout(900)
STAND_IN = "traces_h200.jsonl"


class Figures:
    """What the Traces of a page's starter say, by Solution and batch size."""

    def __init__(self, number: int) -> None:
        file = STARTERS / EXERCISES[number].starters[0] / STAND_IN
        self.records = {(each.solution, each.axes["batch"]): each for each in load(file)}

    def of(self, field: str, solution: str, batch: int) -> float:
        return getattr(self.records[solution, batch], field)

    def us(self, solution: str, batch: int) -> float:
        return 1e3 * self.of("latency_ms", solution, batch)

    def peak(self, solution: str, batch: int) -> float:
        return 100 * self.of("bandwidth_gb_per_s", solution, batch) / peak_of(self.records[solution, batch]).gb_per_s


TORCH, TRITON, CUTEDSL = "rmsnorm_python_torch_v1", "rmsnorm_triton_row_v1", "rmsnorm_python_cutedsl_v1"
QUACK, ADD, BACKWARD = "rmsnorm_python_quack_v1", "fused_add_rmsnorm", "rmsnorm_backward"
T3, O3, BF16 = f"{TRITON}_d2048", f"{TORCH}_d2048", "_d8192_bf16"
FIGURES = {
    1: lambda f: (f.peak(TRITON, 4096), f.us(TRITON, 512) / f.us(TRITON, 1)),
    2: lambda f: (
        f.us("layernorm_python_torch_v1", 4096) / f.us(TRITON, 4096),
        f.us("layernorm_triton_row_v1", 4096) / f.us(TRITON, 4096),
    ),
    3: lambda f: (
        *(f.us(T3, 16384), f.us(O3, 16384), f.us(O3, 16384) / f.us(T3, 16384)),
        f.of("peak_memory_bytes", O3, 16384) / 1000,
        *(f.of("bandwidth_gb_per_s", each, 16384) for each in (T3, O3)),
        *(f.peak(T3, 16384), f.us(T3, 1), f.of("host_overhead_us", T3, 1), f.of("empty_host_us", T3, 1)),
        f.of("host_overhead_us", T3, 1) / f.us(T3, 1),
    ),
    4: lambda f: (
        f.us(TORCH, 32) / min(f.us(each, 32) for each in (TRITON, "rmsnorm_cuda_vec16_v1", "rmsnorm_tilelang_row_v1")),
        1e3 * f.of("reference_latency_ms", TRITON, 32) / f.us(TRITON, 32),
        f.of("host_overhead_us", TRITON, 32) / f.of("host_overhead_us", "rmsnorm_cuda_vec16_v1", 32),
    ),
    5: lambda f: (
        *(f.us(f"{each}{BF16}", 4096) for each in (TORCH, CUTEDSL, QUACK, TRITON)),
        f.us(f"{TORCH}{BF16}", 4096) / f.us(f"{TRITON}{BF16}", 4096),
        f.us(f"{ADD}_python_torch_v1", 4096) / f.us(f"{ADD}_python_cutedsl_v1", 4096),
        f.us(f"{BACKWARD}_python_torch_v1", 4096) / f.us(f"{BACKWARD}_triton_row_v1", 4096),
        f.of("host_overhead_us", QUACK, 4096) - f.of("host_overhead_us", CUTEDSL, 4096),
    ),
}


@pytest.mark.parametrize("number", EXERCISES)
def test_its_worked_answers_are_those_of_its_traces_today(number):
    """Within 1%, and in this order; those between them, such as bytes, are not in the Traces."""
    answers = iter(re.findall(r"^\*\*.+:\*\* ([\d.]+)$", page_of(number), re.MULTILINE))
    for figure in FIGURES[number](Figures(number)):
        assert any(float(answer) == pytest.approx(figure, rel=0.01) for answer in answers), figure


def prepare_three_languages(folder):
    """As they are handed out, the kernels earn nothing."""
    tasks = grade(4, folder)
    assert [tasks[title]["earned"] for title in ("Triton", "TileLang", "C++")] == [0, 0, 0]
    correct_files(4, folder)


PREPARATIONS: dict[int, Callable[[Path], object]] = {
    1: fill_in,
    2: fill_in_passes,
    3: lambda folder: None,
    4: prepare_three_languages,
    5: partial(correct_files, 5),
}
MISTAKES = {
    1: ("triton_rmsnorm.py", "mean_square + eps", "mean_square", "Kernel", "eps"),
    2: ("rmsnorm_module.py", "self.weight, self.eps", "torch.ones_like(self.weight), self.eps", "Module", "weight"),
}


@pytest.mark.process
@pytest.mark.parametrize("number", EXERCISES)
def test_it_earns_all_points_and_a_mistake_loses_some(tmp_path, monkeypatch, number):
    """Its commands in order, its kernels or corrections and its answers, from an empty folder."""
    for module in ("triton", *(["tilelang"] if number == 4 else [])):
        pytest.importorskip(module)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")  # as the page walks it
    folder = walk_page(number, tmp_path, PREPARATIONS[number])
    if number in MISTAKES:
        name, old, new, title, said = MISTAKES[number]
        text = (folder / name).read_text()
        assert old in text
        (folder / name).write_text(text.replace(old, new))
        tasks = grade(number, folder)
        assert tasks[title]["earned"] == 0 and said in tasks[title]["remarks"][0]
        # A Solution of the file before the mistake does not count.
        kept = {"RMSNorm": 25, "RMSNorm and ReLU": 20, "Answers": 40} if number == 2 else {"Solutions": 0}
        assert {name: tasks[name]["earned"] for name in kept} == kept


@pytest.mark.gpu
@pytest.mark.parametrize(
    ("number", "titles", "earned"),
    [(4, ("Triton", "TileLang", "CUDA"), [15, 15, 15]), (5, ("Residual", "Backward"), [20, 20])],
)
def test_on_a_gpu_its_corrections_are_right_too(tmp_path, number, titles, earned):
    assert run_command(f"fib-rmsnorm exercise {number}", tmp_path)
    folder = tmp_path / f"exercise-{number}"
    handed_out = grade(number, folder)
    correct_files(number, folder)
    corrected = grade(number, folder)
    assert [handed_out[title]["earned"] for title in titles] == [0] * len(titles)
    assert [corrected[title]["earned"] for title in titles] == earned


@pytest.mark.process
def test_each_row_of_the_documents_has_its_command(tmp_path, monkeypatch):
    """The commands of the appendix's first block, then of its table, whose last cells are in what they print."""
    for module in ("triton", "tilelang"):
        pytest.importorskip(module)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    page, folder = (EXERCISES[1].page.parents[1] / "appendix/documents.md").read_text(), tmp_path / "documents"
    for command in re.findall(r"^\$ (fib-rmsnorm .+)$", page, re.MULTILINE):
        assert run_command(command, folder if folder.exists() else tmp_path)
    (kernel,) = re.findall(r"^```python\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    (folder / "course_rmsnorm.py").write_text(kernel)
    for command, shown in re.findall(r"^\|[^|]+\|[^|]+\| `(fib-rmsnorm .+)` \| (`.+`) \|$", page, re.MULTILINE):
        said = "\n".join(run_command(command, folder))
        assert [each for each in re.findall("`(.+?)`", shown) if each not in said] == [], (command, said)
