from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from fib_rmsnorm.building.cache import cache_folder, solution_cache
from support.full_registry import CUDA, DEFINITION, PYTHON, PYTHON_FOLDER


@pytest.fixture
def cache(full_registry, cold_cache) -> Path:
    """A cache with builds of two Solutions, and with what others have put there."""
    solutions = full_registry.packed_solutions()
    for name, kind, size in ((PYTHON, "inductor", 3000), (CUDA, "native", 5000)):
        build = solution_cache(solutions[name]) / kind
        build.mkdir()
        (build / "kernel.so").write_bytes(bytes(size))
    folder = cache_folder()
    (folder / "native" / ("0" * 32)).mkdir(parents=True)
    (folder / "native" / ("0" * 32) / "copy.so").write_bytes(bytes(700))
    (folder / "solutions" / "mine").mkdir()
    (folder / "solutions" / "mine" / "notes.txt").write_text("keep")
    return folder


def test_sizes_by_solution_and_kind(fib, cache):
    record = json.loads(fib("cache", "--json").out)
    assert (record["folder"], record["bytes"], record["copy_bytes"]) == (str(cache), 8700, 700)
    assert record["kinds"] == {"native": 5000, "inductor": 3000}
    assert [(each["names"], each["bytes"]) for each in record["solutions"]] == [([CUDA], 5000), ([PYTHON], 3000)]
    outcome = fib("cache")
    assert outcome.lines[0] == f"Cache {cache}: 8.70 kB"
    assert outcome.row(CUDA).endswith("native 5.00 kB")


def test_builds_of_one_solution_are_deleted(fib, cache):
    outcome = fib("cache", "clear", "--solutions", CUDA)
    assert outcome.code == 0 and outcome.out == f"Deleted 1 folder from {cache}: 5.00 kB\n"
    assert [each["names"] for each in json.loads(fib("cache", "--json").out)["solutions"]] == [[PYTHON]]
    assert fib("cache", "clear", "--solutions", "nope").code == 2


def test_all_builds_are_deleted_and_nothing_else(fib, cache, tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "file").write_text("keep")
    (cache / "solutions" / ("a" * 32)).symlink_to(outside)
    key = next(path for path in (cache / "solutions").iterdir() if path.is_dir() and len(path.name) == 32)
    (key / "link").symlink_to(outside)
    assert fib("cache", "clear").code == 0
    left = sorted(str(path.relative_to(cache)) for path in cache.rglob("*") if not path.is_dir() or path.is_symlink())
    assert left == [f"solutions/{'a' * 32}", "solutions/mine/notes.txt"]
    assert (outside / "file").read_text() == "keep"


def test_a_folder_that_is_named_by_mistake_keeps_its_files(fib, full_registry, monkeypatch):
    """Such as a registry, which has a folder of the same name."""
    monkeypatch.setenv("FIB_RMSNORM_CACHE", str(full_registry.root))
    before = sorted(full_registry.root.rglob("*"))
    assert fib("cache", "clear").code == 0
    assert sorted(full_registry.root.rglob("*")) == before


def test_folders_that_are_links_are_left_alone(fib, cache, tmp_path):
    elsewhere = tmp_path / "elsewhere"
    (cache / "solutions").rename(elsewhere)
    (cache / "solutions").symlink_to(elsewhere)
    before = sorted(elsewhere.rglob("*"))
    assert fib("cache", "clear").code == 0
    assert sorted(elsewhere.rglob("*")) == before


def test_without_a_cache_or_a_registry(fib, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("FIB_RMSNORM_ROOT", raising=False)
    monkeypatch.setenv("FIB_RMSNORM_CACHE", str(tmp_path / "none"))
    assert json.loads(fib("cache", "--json").out)["bytes"] == 0
    assert fib("cache", "clear").out.startswith("Deleted 0 folders")
    assert fib("cache", "empty").code == 2


@pytest.mark.parametrize(
    "command",
    [
        ("try", f"{PYTHON_FOLDER}/kernel.py", "--definition", DEFINITION, "--check", "--device", "cpu"),
        ("explain", "kernel.cpp", "--definition", DEFINITION),
        ("serve", "--definition", DEFINITION, "--device", "cpu"),
        ("bench", "--solutions", PYTHON, "--device", "cpu", "--json"),
        ("solve", "--build", "--solutions", PYTHON),
    ],
    ids=lambda command: command[0],
)
def test_a_cache_that_cannot_be_made_is_one_line(fib, full_registry, monkeypatch, command):
    assert fib("new", "cpp", "kernel.cpp", "--definition", DEFINITION).code == 0
    Path("file").write_text("")
    monkeypatch.setenv("FIB_RMSNORM_CACHE", "file/cache")
    outcome = fib(*command)
    assert (outcome.code, outcome.out) == (2, "")
    said = "the cache, file/cache: Not a directory; name a folder that you may write to in $FIB_RMSNORM_CACHE"
    last = outcome.err.splitlines()[-1]
    assert last == (json.dumps({"error": said, "exit_code": 2}) if "--json" in command else f"fib-rmsnorm: {said}")


def test_folders_nested_without_end_are_counted_and_deleted(fib, cache):
    """As a kernel can leave them, the last one protected: deeper than Python recurses, and than a path may name."""
    build = next(path for path in (cache / "solutions").iterdir() if len(path.name) == 32)
    here = os.open(build, os.O_RDONLY)
    for _ in range(3000):
        os.mkdir("d", dir_fd=here)
        below = os.open("d", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = below
    os.close(os.open("file", os.O_CREAT, dir_fd=here))
    os.fchmod(here, 0)
    os.close(here)
    assert json.loads(fib("cache", "--json").out)["bytes"] == 8700
    assert fib("env").code == 0
    outcome = fib("cache", "clear")
    assert outcome.code == 0, outcome.err
    assert not build.exists()
