"""A thousand kernels leave as much behind as the first forty: nothing."""

import gc
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import pytest

from fib_rmsnorm.evaluation import ROLES
from fib_rmsnorm.registry.sources.kernel_file import text_as_file
from fib_rmsnorm.sandbox.fork_server import ForkServer
from fib_rmsnorm.sessions.contenders import History
from fib_rmsnorm.sessions.job import Job
from fib_rmsnorm.sessions.service import Service
from support.registries import CRASHES, NO_EPS, QUICK, RIGHT, add_kernel, make_registry

_KERNELS = [
    ("PASSED", RIGHT),
    ("INCORRECT_NUMERICAL", NO_EPS),
    ("RUNTIME_ERROR", CRASHES),
    ("COMPILE_ERROR", f"import nonesuch\n{RIGHT}"),
    ("COMPILE_ERROR", "def run(x, weight, eps:\n"),
]
_FIRST = 40
_MOST_GROWTH = 60 << 20
"""Bytes: allocators keep what they freed, and the results are kept; a tensor or a worker for each kernel takes more."""


def _left(cache: Path, temporary: Path) -> dict[str, int]:
    gc.collect()
    return {
        "processes": len(psutil.Process().children(recursive=True)),
        "descriptors": len(os.listdir("/proc/self/fd")),  # noqa: PTH208
        "builds": sum(1 for _ in (cache / "sessions").glob("*/*")),
        "temporary files": len(list(temporary.iterdir())),
        "shared memory": len(list(Path("/dev/shm").glob("fib-rmsnorm-*"))),
    }


def _memory() -> dict[int, int]:
    """Resident bytes: of this process, of the fork server, the judge and the reference, whose ids stay the same."""
    ours = [psutil.Process(), *psutil.Process().children(recursive=True)]
    return {process.pid: process.memory_info().rss for process in ours}


@pytest.mark.endurance
@pytest.mark.timeout(7200)
@pytest.mark.parametrize(
    ("clients", "total", "slack"), [pytest.param(1, 200, 0, id="versions"), pytest.param(8, 1000, 8, id="clients")]
)
def test_many_kernels_leave_nothing_and_get_the_correct_verdicts(tmp_path, monkeypatch, clients, total, slack):
    """One client sends versions of one kernel, all to be timed; of eight clients' kernels, one of 16 is."""
    cache, temporary = tmp_path / "cache", tmp_path / "tmp"
    temporary.mkdir()
    monkeypatch.setenv("FIB_RMSNORM_CACHE", str(cache))
    monkeypatch.setenv("TMPDIR", str(temporary))
    monkeypatch.setattr("tempfile.tempdir", None)
    total = int(os.environ.get("FIB_RMSNORM_TEST_KERNELS", total))
    registry = make_registry(tmp_path / "registry")
    add_kernel(registry, "rmsnorm_python_plain_v1")
    others = psutil.Process().children(recursive=True)  # of tests before this one
    problems: list[str] = []
    history = History() if clients == 1 else None

    def run(client: int, numbers: range) -> None:
        for number in numbers:
            status, source = _KERNELS[number % len(_KERNELS)]
            timed = clients == 1 or number % 16 == 0
            with text_as_file(f"{source}# {number}\n", "python") as kernel:
                job = Job(f"{client}", lambda _: None, timed=timed, history=history)
                service.read(job, kernel, (2,))
                service.put(job)
            version = job.wait()
            if version.status != status or bool(version.timings) != (timed and status == "PASSED"):
                problems.append(f"{number}: {version}")

    with ForkServer(ROLES) as forks, Service(registry, device="cpu", settings=QUICK, fork_server=forks) as service:
        found = []
        for start, stop in (0, _FIRST), (_FIRST, total):
            with ThreadPoolExecutor(clients) as pool:
                each = [range(start + client, stop, clients) for client in range(clients)]
                list(pool.map(run, range(clients), each))
            found.append((_left(cache, temporary), _memory()))
        assert not problems, problems[:3]
        (left, memory), (later, after) = found
        assert all(later[what] <= left[what] + slack for what in left), (left, later)
        kept = memory.keys() & after.keys()
        print({pid: (memory[pid] >> 20, after[pid] >> 20) for pid in kept})
        assert len(kept) >= 4
        assert all(after[pid] - memory[pid] < _MOST_GROWTH for pid in kept)
    assert set(psutil.Process().children(recursive=True)) <= set(others)
    assert not list(temporary.iterdir()) and not list((cache / "sessions").iterdir())
