"""The table of tuned choices: what it says, and that Python and C++ read the same from it."""

from __future__ import annotations

import itertools
import shutil
import subprocess

import pytest

from fib_rmsnorm.tuning.tunable import Choice, Provenance, render_table
from support.tunable_solution import find_choice

COLUMNS = ["hidden", "itemsize", "multiprocessors", "min_batch", "threads", "rows"]
LONG = {"hidden": 4096, "itemsize": 2}
CHOICES = [
    Choice({"hidden": 2048, "itemsize": 4}, 0, {"threads": 256, "rows": 1}),
    Choice(LONG, 0, {"threads": 512, "rows": 1}, "1: 1.60 us, 32: 2.10 us (+0.5%)"),
    Choice(LONG, 65, {"threads": 128, "rows": 2}),
    Choice(LONG, 4097, {"threads": 64, "rows": 4}),
]
WHERE = Provenance({"NVIDIA H200": "2026-11-21"}, 132, "cupti", 12)
SHAPES = list(itertools.product((0, 1, 64, 65, 4096, 4097, 1 << 40), (4096, 2048, 128), (2, 4)))
CPP = """\
#include <cstdint>
#include <cstdio>
#include <initializer_list>

struct Choice {
  int64_t hidden, itemsize, multiprocessors, min_batch;
  int threads, rows;
};

constexpr std::initializer_list<Choice> CHOICES = {
#include "choices.inc"
};

void print(int64_t batch, int64_t hidden, int64_t itemsize) {
  const Choice* found = nullptr;
  for (const Choice& each : CHOICES) {
    if (each.hidden == hidden && each.itemsize == itemsize && each.min_batch <= batch) found = &each;
  }
  found ? std::printf("%d %d\\n", found->threads, found->rows) : std::puts("none");
}
"""


def render(choices, provenance=WHERE):
    return render_table("rmsnorm_x_v1", COLUMNS, choices, provenance)


def answers_of_python(folder):
    found = [find_choice(folder, batch, hidden=hidden, itemsize=size) for batch, hidden, size in SHAPES]
    return [None if choice is None else (choice["threads"], choice["rows"]) for choice in found]


def test_a_shape_finds_its_choice(tmp_path):
    (tmp_path / "choices.inc").write_text(render(CHOICES))
    found = dict(zip(SHAPES, answers_of_python(tmp_path), strict=True))
    assert found[1, 4096, 2] == found[64, 4096, 2] == (512, 1)
    assert found[65, 4096, 2] == found[4096, 4096, 2] == (128, 2)
    assert found[1 << 40, 4096, 2] == (64, 4)
    assert found[1, 2048, 4] == (256, 1)
    assert found[1, 4096, 4] is None
    assert found[1, 128, 2] is None


def test_batches_compare_in_rows_per_multiprocessor(tmp_path):
    (tmp_path / "choices.inc").write_text(render(CHOICES))
    found = [find_choice(tmp_path, batch, 66, **LONG)["threads"] for batch in (1, 32, 33, 2048, 2049)]
    assert found == [512, 512, 128, 128, 64]


@pytest.mark.parametrize("choices", [CHOICES, []], ids=["measured", "empty"])
def test_cpp_answers_as_python_does(choices, tmp_path):
    if shutil.which("g++") is None:
        pytest.skip("needs g++")
    (tmp_path / "choices.inc").write_text(render(choices))
    calls = "".join(f"  print({batch}LL, {hidden}, {size});\n" for batch, hidden, size in SHAPES)
    (tmp_path / "main.cpp").write_text(f"{CPP}int main() {{\n{calls}}}\n")
    command = ["g++", "-std=c++17", "-Wall", "-Wextra", "-Werror", "-pedantic", "main.cpp", "-o", "main"]
    subprocess.run(command, cwd=tmp_path, check=True)
    lines = subprocess.run([tmp_path / "main"], capture_output=True, text=True, check=True).stdout.splitlines()
    found = [None if line == "none" else tuple(map(int, line.split())) for line in lines]
    assert found == answers_of_python(tmp_path)
