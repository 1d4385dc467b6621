"""A session of 200 kernels leaves as much behind as one of ten: nothing."""

from __future__ import annotations

import gc
import os
from pathlib import Path
from typing import Any

import psutil
import pytest

from fib_rmsnorm.evaluation import ROLES
from fib_rmsnorm.sandbox.fork_server import ForkServer
from fib_rmsnorm.sessions.kernel_file import KernelFile
from fib_rmsnorm.sessions.watching import Session
from support.registries import QUICK, RIGHT, add_kernel, make_registry

_WRONG = {
    3: "import os\n\n\ndef run(x, weight, eps):\n    os.kill(os.getpid(), 11)\n",
    5: RIGHT.replace("+ eps", "+ 0 * eps"),
    7: "def run(x, weight, eps:\n",
    9: "import nonesuch\n\n\ndef run(x, weight, eps):\n    return x\n",
}
_MOST_GROWTH = 30 << 20
"""Bytes: allocators keep what they freed, and the history is kept; a tensor or a worker for each kernel takes more."""


def _left(cache: Path, temporary: Path) -> dict[str, int]:
    gc.collect()
    children = psutil.Process().children(recursive=True)
    return {
        "processes": len(children),
        "descriptors": len(os.listdir("/proc/self/fd")),  # noqa: PTH208
        "cached files": sum(1 for _ in cache.rglob("*")),
        "temporary files": len(list(temporary.iterdir())),
        "shared memory": len(list(Path("/dev/shm").iterdir())),
    }


def _memory() -> dict[str, int]:
    """Resident bytes: of this process, of the fork server and the judge, whose ids stay the same."""
    ours = [psutil.Process(), *psutil.Process().children(recursive=True)]
    return {str(process.pid): process.memory_info().rss for process in ours}


@pytest.mark.endurance
@pytest.mark.timeout(1800)
def test_200_kernels_leave_no_process_no_memory_and_no_file(tmp_path, monkeypatch):
    cache, temporary = tmp_path / "cache", tmp_path / "tmp"
    temporary.mkdir()
    monkeypatch.setenv("FIB_RMSNORM_CACHE", str(cache))
    monkeypatch.setenv("TMPDIR", str(temporary))
    monkeypatch.setattr("tempfile.tempdir", None)
    registry = make_registry(tmp_path / "registry")
    add_kernel(registry, "rmsnorm_python_plain_v1")
    others = psutil.Process().children(recursive=True)  # of tests before this one
    kernel = tmp_path / "kernel.py"
    options: dict[str, Any] = {"batch_sizes": (2,), "device": "cpu", "settings": QUICK, "timeout_s": 60}
    with ForkServer(ROLES) as forks, Session(registry, registry.definition(None), forks, **options) as session:
        for number in range(1, 201):
            kernel.write_text(_WRONG.get(number % 10, RIGHT) + f"# {number}\n")
            *_, version = session.follow(KernelFile(file=kernel))
            assert version.passed == (number % 10 not in _WRONG), version
            if number == 20:
                left, memory = _left(cache, temporary), _memory()
        assert _left(cache, temporary) == left
        after = _memory()
        kept = memory.keys() & after.keys()
        print({pid: (memory[pid] >> 20, after[pid] >> 20) for pid in kept})
        assert len(kept) >= 4  # this process, the fork server, the judge, the reference
        assert all(after[pid] - memory[pid] < _MOST_GROWTH for pid in kept)
    assert set(psutil.Process().children(recursive=True)) <= set(others)
    assert not list(temporary.iterdir()) and not list((cache / "sessions").iterdir())
