"""FIFOs, devices, endless files and links out of a registry are neither read nor written."""

import os
import stat
from pathlib import Path

import pytest

from fib_rmsnorm.errors import InputError
from fib_rmsnorm.registry.store import append_lines
from support.full_registry import (
    CUDA_TRACES,
    DEFINITION,
    DEFINITION_FILE,
    PYTHON,
    PYTHON_FILE,
    PYTHON_FOLDER,
    WORKLOAD_FILE,
)
from support.paths import write

pytestmark = pytest.mark.timeout(60)
ZERO = (1, 5)
WORKLOAD = ("workload", "--definition", DEFINITION, "--batch-sizes", "4")
READ_BY: dict[str, list[tuple[str, ...]]] = {
    DEFINITION_FILE: [("list",), ("show", DEFINITION), ("solve",), WORKLOAD, ("validate",)],
    PYTHON_FILE: [("list",), ("merge", ".", "."), ("validate",)],
    f"{PYTHON_FOLDER}/solution.toml": [("solve",), ("validate",)],
    f"{PYTHON_FOLDER}/kernel.py": [("solve",), ("validate",)],
    WORKLOAD_FILE: [("list",), ("show", PYTHON), WORKLOAD, ("validate",)],
    CUDA_TRACES: [("list", "traces"), ("show", f"{PYTHON}@batch=1"), ("merge", ".", "."), ("validate",), ("report",)],
}


def make_device(path: Path, _: Path) -> None:
    try:
        os.mknod(path, stat.S_IFCHR | 0o600, os.makedev(*ZERO))
    except PermissionError:
        pytest.skip("only root makes devices")


def make_endless(path: Path, _: Path) -> None:
    path.touch()
    os.truncate(path, 2 << 30)


MAKERS = {
    "FIFO": (lambda path, _: os.mkfifo(path), "is not a regular file"),
    "device": (make_device, "is not a regular file"),
    "endless": (make_endless, "is larger"),
    "link": (lambda path, elsewhere: path.symlink_to(elsewhere / "secret"), "is a link"),
}
SLOW, QUICK = ("device", "endless"), (DEFINITION_FILE, CUDA_TRACES)


@pytest.fixture
def elsewhere(tmp_path) -> Path:
    return write(tmp_path / "elsewhere" / "secret", "# of the user\n").parent


@pytest.mark.parametrize(
    ("kind", "place"),
    [
        pytest.param(kind, place, marks=pytest.mark.fuzz if kind in SLOW and place not in QUICK else [])
        for kind in MAKERS
        for place in READ_BY
    ],
)
def test_no_command_reads_it(fib, full_registry, elsewhere, place, kind):
    path = full_registry.root / place
    path.unlink()
    make, fault = MAKERS[kind]
    make(path, elsewhere)
    for command in READ_BY[place]:
        outcome = fib(*command)
        told = outcome.err + outcome.out
        assert fault in told and place in told, (command, told)
        if command == ("report",):  # the other Traces are fine
            assert outcome.code == 0
        else:
            assert outcome.code == (1 if command == ("validate",) else 2), command
        assert command == ("validate",) or len(outcome.err.splitlines()) == 1
    assert (elsewhere / "secret").read_text() == "# of the user\n"
    assert path.lstat().st_size in (0, 2 << 30) or path.is_symlink()


@pytest.mark.parametrize("folder", ["definitions", "definitions/norm", "solutions/ann", "workloads/norm", "traces/ann"])
def test_a_linked_folder_is_reported_not_skipped(fib, full_registry, elsewhere, folder):
    path = full_registry.root / folder
    path.rename(elsewhere / "moved")
    path.symlink_to(elsewhere / "moved")
    assert f"{folder}: is a link" in fib("list").refusal
    outcome = fib("validate")
    assert outcome.code == 1 and "is a link" in outcome.out


def test_no_command_writes_through_a_link(fib, full_registry, elsewhere):
    """`workload` replaced the target of a link, and `solve` another's start file."""
    (full_registry.root / WORKLOAD_FILE).unlink()
    (full_registry.root / "workloads/norm").rmdir()
    (full_registry.root / "workloads/norm").symlink_to(elsewhere)
    assert "workloads/norm: is a link" in fib("workload", "--definition", DEFINITION, "--batch-sizes", "4").refusal
    packed = full_registry.root / PYTHON_FILE
    packed.unlink()
    packed.symlink_to(elsewhere / "secret")
    assert f"{PYTHON_FILE}: is a link" in fib("solve").refusal
    assert [path.name for path in elsewhere.iterdir()] == ["secret"]
    assert (elsewhere / "secret").read_text() == "# of the user\n"


def test_no_kernel_is_registered_through_a_link(fib, full_registry, elsewhere, tmp_path):
    kernel = write(tmp_path / "kernel.py", Path(PYTHON_FOLDER, "kernel.py").read_text())
    (full_registry.root / "solutions/eve").symlink_to(elsewhere)
    (elsewhere / "norm").mkdir()
    named = ("--name", "new_v1", "--author", "eve", "--definition", DEFINITION)
    assert "solutions/eve: is a link" in fib("register", kernel, *named).refusal
    assert list((elsewhere / "norm").iterdir()) == []


@pytest.mark.parametrize("kind", ["FIFO", "device"])
def test_what_a_user_names_may_be_anywhere_but_is_a_file(fib, full_registry, elsewhere, tmp_path, kind):
    traces = full_registry.root / CUDA_TRACES
    traces.rename(elsewhere / "traces.jsonl")
    (tmp_path / "link.jsonl").symlink_to(elsewhere / "traces.jsonl")
    assert fib("report", tmp_path / "link.jsonl").code == 0
    MAKERS[kind][0](tmp_path / "evil.jsonl", elsewhere)
    for command in ("report", "best", "analyze"):
        outcome = fib(command, tmp_path / "evil.jsonl")
        assert outcome.code == 2
        assert outcome.err == (
            f"fib-rmsnorm: {tmp_path}/evil.jsonl: is not a regular file; write what it holds to a file first\n"
        )


def test_a_folder_of_a_user_holds_more_than_files(fib, full_registry, elsewhere, tmp_path):
    (full_registry.root / CUDA_TRACES).rename(elsewhere / "traces.jsonl")
    os.mkfifo(elsewhere / "fifo.jsonl")
    make_endless(elsewhere / "endless.json", elsewhere)
    outcome = fib("report", elsewhere)
    assert outcome.code == 0
    told = outcome.err.splitlines()
    assert len(told) == 2 and all("(skipped)" in line for line in told)


def test_a_kernel_that_is_a_fifo_is_not_waited_for(fib, registry, tmp_path):
    kernel = tmp_path / "kernel.cpp"
    os.mkfifo(kernel)
    outcome = fib("try", kernel, "--definition", "rmsnorm_d128", "--device", "cpu")
    assert outcome.refusal == f"{kernel}: not a regular file or a folder"


def test_an_append_to_an_endless_last_line_ends(tmp_path):
    make_endless(tmp_path / "traces.jsonl", tmp_path)
    with pytest.raises(InputError, match="too large"):
        append_lines(tmp_path / "traces.jsonl", ["{}"])
