"""What runs beneath NVIDIA's tools is confined, and ends with the tool; ncu takes turns.

On a CPU without the tool, the process confines itself.
"""

import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import pytest

from fib_rmsnorm.errors import InputError
from fib_rmsnorm.machine.devices import Device
from fib_rmsnorm.profiling import ncu
from fib_rmsnorm.profiling.ncu import find_ncu
from fib_rmsnorm.profiling.tool_process import prepare_call, read_report, run_tool
from fib_rmsnorm.registry.sources.starting_kernel import make_starting_kernel
from fib_rmsnorm.sandbox.confinement import find_gaps
from support.registries import RIGHT, add_kernel

needs_sandbox = pytest.mark.skipif(bool(find_gaps()), reason="this machine confines less: see fib-rmsnorm env")
CPU = Device("cpu", "a CPU", 1 << 30)


SECRET_VARIABLE = "AWS_SECRET_ACCESS_KEY"
# What a Solution tries beneath one of NVIDIA's tools: if anything works, it fails and says what.
ATTACKS = """\
import os
import socket
import threading
from pathlib import Path


def works(attack):
    try:
        return attack() is not False
    except OSError:
        return False


def in_thread(attack):
    found = []
    thread = threading.Thread(target=lambda: found.append(works(attack)))
    thread.start()
    thread.join()
    return found[0]


def is_free(thread):
    return "Seccomp:\t2" not in thread.read_text()


def attacks():
    own = Path(os.environ["TMPDIR"])
    read = lambda: Path({secret!r}).read_text()
    return {{
        "read a secret": read,
        "read a secret in a thread": lambda: in_thread(read),
        "use a thread outside the sandbox": lambda: any(map(is_free, Path("/proc/self/task").glob("*/status"))),
        "write into the registry": lambda: Path({registry!r}, "forged").write_text("forged"),
        "change what it is asked to call": lambda: own.with_name("request.json").write_text("forged"),
        "write the tool's log": lambda: own.with_name("log").write_text("forged"),
        "open a socket": lambda: socket.socket(socket.AF_INET).close(),
        "signal its parent": lambda: os.kill(os.getppid(), 0),
        "read its parent's memory": lambda: open(f"/proc/{{os.getppid()}}/mem", "rb").close(),
        "know a secret variable": lambda: {variable!r} in os.environ,
        "have its user's home": lambda: Path.home() == Path({home!r}),
    }}


def attack(when):
    reached = [name for name, each in attacks().items() if works(each)]
    if reached:
        raise RuntimeError(f"{{when}}, it could: {{', '.join(reached)}}")


Path(os.environ["TMPDIR"], "mine").write_text("mine")
attack("while it was loaded")


"""


def attacking(kernel: str, home: Path, registry: Path) -> str:
    """A kernel's source that attacks when it is loaded, and first thing in each call of its `run`."""
    secret = home / "secret"
    secret.write_text("secret")
    source = ATTACKS.format(secret=str(secret), registry=str(registry), variable=SECRET_VARIABLE, home=str(home))
    head, run, body = kernel.rpartition("def run(")
    signature, _, rest = body.partition(":\n")
    return f'{source}{head}{run}{signature}:\n    attack("when it was called")\n{rest}'


# A process that a confined one leaves behind, in a session of its own; it says its number.
LEAVES_DAEMON = """
import os
import time

from fib_rmsnorm.sandbox.confinement import confine
from fib_rmsnorm.sandbox.confinement.readable import find_readable

if os.fork() == 0:
    confine(find_readable(), [], [])
    if os.fork() == 0:
        os.setsid()
        print(os.getpid(), flush=True)
        time.sleep(600)
    os._exit(0)
os.wait()
"""


@pytest.fixture
def home(tmp_path, monkeypatch):
    """A user's home and secrets."""
    (tmp_path / "home").mkdir()
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv(SECRET_VARIABLE, "secret")
    return tmp_path / "home"


@pytest.fixture
def attacker(registry, home, tmp_path, monkeypatch):
    """A Triton kernel that attacks; the working folder is the registry's."""
    monkeypatch.chdir(registry.root)
    kernel = tmp_path / "kernel.py"
    (definition,) = registry.definitions().values()
    kernel.write_text(attacking(make_starting_kernel(definition, "triton").text, home, registry.root))
    return kernel


@pytest.fixture
def asked(registry):
    """The Definition and a Workload of it."""
    (definition,) = registry.definitions().values()
    return definition, registry.workloads(definition.name)[0]


@pytest.fixture
def solution(registry):
    return add_kernel(registry, "right")


@needs_sandbox
def test_it_calls_the_solution_which_reaches_nothing(registry, home, tmp_path, asked):
    solution = add_kernel(registry, "right", attacking(RIGHT, home, registry.root) + "\nprint('imported')\n")
    (definition, workload), tool = asked, tmp_path / "tool"
    with prepare_call(definition, solution, workload, CPU, dataset=registry.root, tool=tool) as (call, variables):
        run = run_tool(call, 100, solution, variables)
    assert (run.returncode, run.stdout) == (0, "imported\n"), run.stderr
    assert not Path(call[-1]).parent.exists()


def test_of_the_tool_it_reads_its_folder_and_never_a_home(home, asked, solution):
    definition, workload = asked

    def readable(tool):
        tool.parent.mkdir(exist_ok=True)
        tool.touch()
        with prepare_call(definition, solution, workload, CPU, dataset=None, tool=tool) as (call, _):
            return json.loads(Path(call[-1]).read_text())["readable"]

    assert str(home / "nsight") in readable(home / "nsight" / "ncu")
    assert str(home) not in readable(home / "ncu")


@pytest.mark.gpu
@pytest.mark.alone  # its home is its own, and so is the lock by which processes count in turn
@needs_sandbox
def test_under_ncu_a_solution_reaches_nothing_and_is_counted(fib, attacker):
    if find_ncu() is None:
        pytest.skip("needs ncu")
    outcome = fib("profile", attacker, "--batch-sizes", "8", "--json")
    if "ERR_NVGPUCTRPERM" in outcome.err and not may_read_counters():
        pytest.skip("may not read the counters")
    assert outcome.code == 0, outcome.err
    (record,) = json.loads(outcome.out)
    (kernel,) = record["kernels"]
    assert kernel["duration_us"] > 0
    assert kernel["store_requests"] > 0


def may_read_counters():
    """Whether this process may: NVIDIA's driver asks it for CAP_PERFMON."""
    status = dict(line.split(":\t", 1) for line in Path("/proc/self/status").read_text().splitlines() if ":\t" in line)
    return bool(int(status["CapEff"], 16) >> 38 & 1)


def python(source):
    return [sys.executable, "-c", source]


@pytest.mark.parametrize("run", [run_tool, read_report])
def test_a_tool_knows_no_secrets(solution, monkeypatch, run):
    monkeypatch.setenv(SECRET_VARIABLE, "secret")
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    variables = dict(
        line.partition("=")[::2] for line in run(["env"], 600, solution, {"TMPDIR": "/own"}).stdout.splitlines()
    )
    assert (variables["OMP_NUM_THREADS"], variables["TMPDIR"]) == ("1", "/own")
    assert SECRET_VARIABLE not in variables


def test_it_has_neither_the_users_input_nor_terminal(solution):
    source = "import os, sys; print(repr(sys.stdin.read()), os.getsid(0) == os.getpid())"
    assert run_tool(python(source), 600, solution, {}).stdout == "'' True\n"


def test_of_what_is_printed_without_end_little_is_kept(solution):
    run = run_tool(python("print('begin'); print('x' * 10_000_000); print('end')"), 600, solution, {})
    assert run.stdout.startswith("begin\n") and run.stdout.endswith("end\n")
    assert len(run.stdout) < 100_000
    assert len(read_report(python("print('x' * 1_000_000)"), 600, solution, {}).stdout) == 1_000_001


@needs_sandbox
def test_what_a_solution_leaves_running_ends_with_the_tool(solution):
    daemon = int(run_tool(python(LEAVES_DAEMON), 600, solution, {}).stdout)
    assert not psutil.pid_exists(daemon)


def test_what_takes_too_long_ends_with_all_that_it_has_started(solution, tmp_path):
    pid = tmp_path / "pid"
    with pytest.raises(InputError, match=r"right: timed out after 1 s; try a longer --timeout"):
        run_tool(["sh", "-c", f"sleep 600 & echo $! > {pid}; wait"], 1, solution, {})
    assert not psutil.pid_exists(int(pid.read_text()))


def test_a_tool_that_cannot_be_run_is_an_error_in_one_line(solution, tmp_path):
    with pytest.raises(InputError, match=r"cannot run .*/tool: Permission denied"):
        (tmp_path / "tool").touch()
        run_tool([str(tmp_path / "tool")], 1, solution, {})


def test_two_profiles_at_once_take_turns(asked, solution, tmp_path, monkeypatch):
    program, times = tmp_path / "ncu", tmp_path / "times"
    program.write_text(f"#!/bin/sh\nprintf 'begin ' >> {times}\nsleep 0.2\nprintf 'end ' >> {times}\n")
    program.chmod(0o755)
    monkeypatch.setattr(ncu, "find_ncu", lambda: program)
    definition, workload = asked

    def profile(report: Path):
        with pytest.raises(InputError, match="ncu recorded no kernel"):
            ncu.profile(definition, solution, workload, Device("cuda:0", "Fake GPU", 80 << 30), report, 60)

    monkeypatch.setattr(ncu, "reason_to_skip", lambda *_: None)
    nothing = subprocess.CompletedProcess([], 0, "", "")
    monkeypatch.setattr(ncu, "read_report", lambda *_: nothing)  # which need not wait its turn
    with ThreadPoolExecutor() as threads:
        list(threads.map(profile, (tmp_path / f"{number}.ncu-rep" for number in range(2))))
    assert times.read_text() == "begin end begin end "
