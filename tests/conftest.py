import fcntl
import os
import shutil
import signal
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from itertools import count
from pathlib import Path

import pytest
from hypothesis import settings

# Before torch is imported, and for every process that a test starts: two runs of tests side by side have as many
# OpenMP threads as cores each, which wait for one another by spinning. That took most of the time of all tests.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# A shell that runs the tests in the background has them ignore Ctrl-C, and so all that they start.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

from fib_rmsnorm.evaluation import ROLES
from fib_rmsnorm.registry import Registry
from fib_rmsnorm.sandbox.fork_server import ForkServer
from support.command_line import QUICK_OPTIONS, run_here
from support.full_registry import make_full_registry
from support.lent_fork_server import LentForkServer, lend, lending
from support.paths import REPOSITORY
from support.registries import QUICK, add_kernel, make_registry  # which imports torch
from support.trace_json import lines

# The same examples every time: a change fails by what it changes. `--hypothesis-profile explore` looks for others.
settings.register_profile("repeatable", derandomize=True, database=None, deadline=None)
settings.register_profile("explore")
settings.load_profile("repeatable")


def pytest_collection_modifyitems(items):
    """What needs a GPU to itself comes last, when few others are left to wait for it."""
    items.sort(key=lambda item: "alone" in item.keywords)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item):
    """Tests share a GPU, except with one that is marked `alone`; its timeout begins when the others have left it."""
    if "gpu" not in item.keywords:
        return (yield)
    with (base_of_the_run(item.config) / "gpu.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX if "alone" in item.keywords else fcntl.LOCK_SH)
        return (yield)


def base_of_the_run(config) -> Path:
    """The folder of temporary files that all processes of this run of pytest share."""
    base = config._tmp_path_factory.getbasetemp()
    return base.parent if "PYTEST_XDIST_WORKER" in os.environ else base


def pytest_runtest_setup(item):
    if "gpu" in item.keywords:
        import torch

        if not torch.cuda.is_available():
            pytest.skip("needs a CUDA device")


@pytest.fixture(scope="session", autouse=True)
def own_folders(pytestconfig):
    """Builds and the key that seals Traces never lie among the user's.

    Builds are found by their content, so all runs share them. A test that wants none asks for `cold_cache`.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FIB_RMSNORM_CACHE", str(REPOSITORY / ".cache"))
        patch.setenv("XDG_STATE_HOME", str(base_of_the_run(pytestconfig) / "state"))
        for variable in ("FIB_RMSNORM_ROOT", "TRITON_INTERPRET", "PYTHONUNBUFFERED", "NO_COLOR"):
            patch.delenv(variable, raising=False)
        with lending():
            yield


@pytest.fixture
def registry(tmp_path: Path, monkeypatch) -> Registry:
    """A registry with rmsnorm_d128, workloads of batches 1 and 8, and no solutions; the working folder is its root."""
    registry = make_registry(tmp_path / "registry")
    monkeypatch.chdir(registry.root)
    return registry


@pytest.fixture(scope="module")
def rival_registry(tmp_path_factory) -> Registry:
    """The same with a right kernel, beside which others are timed."""
    found = make_registry(tmp_path_factory.mktemp("rival") / "registry")
    add_kernel(found, "rmsnorm_python_plain_v1")
    return found


@pytest.fixture
def serve(rival_registry, lent, tmp_path, monkeypatch):
    """Start a service with so many evaluators; it ends with the test, and leaves no build."""
    from fib_rmsnorm.sessions import service

    monkeypatch.setenv("FIB_RMSNORM_CACHE", str(tmp_path / "cache"))
    with ExitStack() as stack:

        def start(evaluators: int = 1, **options):
            monkeypatch.setattr(service, "_count_evaluators", lambda _: evaluators)
            return stack.enter_context(service.Service(rival_registry, device="cpu", settings=QUICK, **options))

        yield start
    assert not list((tmp_path / "cache").glob("sessions/*"))


@pytest.fixture
def file(tmp_path):
    """Write Traces to a new file and return its path."""
    numbers = count(1)

    def write(*traces) -> Path:
        path = tmp_path / f"traces{next(numbers)}.jsonl"
        path.write_text(lines(*traces))
        return path

    return write


class Clock:
    """Stands in for the module `time` where a test decides how long things take."""

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        return self.now

    perf_counter = monotonic

    def perf_counter_ns(self) -> int:
        return round(self.now * 1e9)

    def sleep(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def untraced():
    """Take away the hook of coverage, which a timer takes for one that a timed call has left."""
    hook = sys.gettrace()
    sys.settrace(None)
    yield
    sys.settrace(hook)


@pytest.fixture(scope="module")
def lent():
    """Runs take processes of a fork server that has imported torch already."""
    with pytest.MonkeyPatch.context() as patch:
        lend(patch)
        yield


@pytest.fixture(scope="module")
def fork_server() -> Iterator[ForkServer]:
    """One for a module's tests that do not stop it."""
    with LentForkServer(ROLES) as started:
        yield started


@pytest.fixture
def fib(lent, tmp_path, monkeypatch):
    """Run a command in this process, as a user would.

    Its working folder has no registry, unless the test chooses another: to read the repository's takes 0.3 s.
    """
    if Path.cwd() == REPOSITORY:
        monkeypatch.chdir(tmp_path)
    return run_here


@pytest.fixture
def bench(fib, registry):
    """Bench the registry with few and short calls."""
    return partial(fib, "bench", *QUICK_OPTIONS)


@pytest.fixture
def cold_cache(tmp_path, monkeypatch) -> Path:
    """A cache that holds nothing yet."""
    monkeypatch.setenv("FIB_RMSNORM_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture(scope="session")
def full_registry_template(own_folders, tmp_path_factory) -> Path:
    """Each test gets a copy: to make one takes 40 times as long, most of it waiting for the disk."""
    return make_full_registry(tmp_path_factory.mktemp("template") / "registry").root


@pytest.fixture
def full_registry(full_registry_template, tmp_path, monkeypatch) -> Registry:
    """A sound registry with some of everything; the working folder is its root."""
    registry = Registry(shutil.copytree(full_registry_template, tmp_path / "registry", symlinks=True))
    monkeypatch.chdir(registry.root)
    monkeypatch.delenv("FIB_RMSNORM_ROOT", raising=False)
    return registry


@pytest.fixture(params=["Python", pytest.param("C++", marks=pytest.mark.compile)])
def served(request, monkeypatch):
    """Quick tests have torch serve them, since C++ takes most of a minute to compile; `make thorough` has C++."""
    if request.param == "Python":
        if request.node.get_closest_marker("compile"):
            pytest.skip("waits for compilers, and so is served by C++")
        from support.known_calls import serve_in_python

        serve_in_python(monkeypatch)
