"""The table gives the same answers in Python and in C++."""

from __future__ import annotations

import itertools
import shutil
import subprocess
import sys

import pytest

from fib_rmsnorm.tuning.table import Columns, Entry, Provenance, Rung, in_order_of, render_table

LADDER = (
    Rung(64, {"threads": 512, "rows": 1}, "1: 1.60 us, " * 30),
    Rung(4096, {"threads": 128, "rows": 2}),
    Rung(None, {"threads": 64, "rows": 4}),
)
ENTRIES = [
    Entry({"hidden": 4096, "itemsize": 2}, LADDER),
    Entry({"hidden": 2048, "itemsize": 4}, (Rung(None, {"threads": 256, "rows": 1}),)),
]
WHERE = Provenance("NVIDIA H200", 132, "2026-11-21", "cupti", 12)
SHAPES = list(itertools.product((1, 64, 65, 4096, 4097, 1 << 40), (4096, 2048, 128), (2, 4)))


def render(suffix, entries, provenance=WHERE):
    columns = Columns(f"choices{suffix}", "rmsnorm_x_v1", ("hidden", "itemsize"), ("threads", "rows"))
    return render_table(columns, entries, provenance)


def answers_of_python(entries):
    names: dict[str, object] = {}
    exec(render(".py", entries), names)
    found = [names["find_choice"](*shape) for shape in SHAPES]
    return [None if choice is None else (choice["threads"], choice["rows"]) for choice in found]


def test_a_shape_finds_its_choice():
    found = dict(zip(SHAPES, answers_of_python(ENTRIES), strict=True))
    assert found[64, 4096, 2] == (512, 1)
    assert found[65, 4096, 2] == found[4096, 4096, 2] == (128, 2)
    assert found[1 << 40, 4096, 2] == (64, 4)
    assert found[1, 2048, 4] == (256, 1)
    assert found[1, 4096, 4] is None
    assert found[1, 128, 2] is None


@pytest.mark.parametrize("entries", [ENTRIES, []], ids=["measured", "empty"])
def test_cpp_answers_as_python_does(entries, tmp_path):
    if shutil.which("g++") is None:
        pytest.skip("needs g++")
    (tmp_path / "choices.h").write_text(render(".h", entries))
    calls = "".join(f"  print(find_choice({batch}LL, {hidden}, {size}));\n" for batch, hidden, size in SHAPES)
    (tmp_path / "main.cpp").write_text(
        '#include "choices.h"\n#include <cstdio>\n'
        'void print(const Choice* c) { c ? std::printf("%d %d\\n", c->threads, c->rows) : std::puts("none"); }\n'
        f"int main() {{\n{calls}}}\n"
    )
    command = ["g++", "-std=c++17", "-Wall", "-Wextra", "-Werror", "main.cpp", "-o", "main"]
    subprocess.run(command, cwd=tmp_path, check=True)
    lines = subprocess.run([tmp_path / "main"], capture_output=True, text=True, check=True).stdout.splitlines()
    found = [None if line == "none" else tuple(map(int, line.split())) for line in lines]
    assert found == answers_of_python(entries)


@pytest.mark.parametrize("entries", [ENTRIES, []], ids=["measured", "empty"])
def test_a_python_table_is_formatted(entries, tmp_path):
    pytest.importorskip("ruff")
    path = tmp_path / "choices.py"
    path.write_text(render(".py", entries))
    run = subprocess.run(
        [sys.executable, "-m", "ruff", "format", "--line-length", "120", "--check", path],
        capture_output=True,
        check=False,
    )
    assert run.returncode == 0, run.stdout


@pytest.mark.parametrize("suffix", [".py", ".h"])
def test_the_evidence_breaks_between_batches(suffix):
    rung = Rung(None, {"threads": 64, "rows": 1}, ", ".join(f"{1 << n}: 12.34 us (+0.5%)" for n in range(12)))
    text = render(suffix, [Entry({"hidden": 4096, "itemsize": 2}, (rung,))])
    lines = [line.strip(" #/") for line in text.splitlines() if "12.34" in line]
    assert len(lines) > 1
    assert all(line[0].isdigit() and line.rstrip(",").endswith("%)") for line in lines)


@pytest.mark.parametrize("suffix", [".py", ".h"])
def test_it_says_where_it_comes_from(suffix):
    text = render(suffix, ENTRIES)
    for word in ("fib-rmsnorm tune", "rmsnorm_x_v1", "NVIDIA H200", "132", "2026-11-21", "cupti", "12 combinations"):
        assert word in text
    assert max(map(len, text.splitlines())) <= 120
    assert "Nothing was measured" in render(suffix, [], None)


@pytest.mark.parametrize("suffix", [".py", ".h"])
def test_shapes_stay_where_they_are_and_new_ones_come_last(suffix):
    shapes = [
        Entry({"hidden": hidden, "itemsize": 2}, (Rung(None, {"threads": 64, "rows": 1}),)) for hidden in (9, 4, 7)
    ]
    text = render(suffix, shapes[:2])
    assert in_order_of(text, [shapes[2], shapes[1], shapes[0]]) == shapes
    assert in_order_of("", shapes) == shapes
