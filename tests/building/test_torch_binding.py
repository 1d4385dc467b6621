import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from fib_rmsnorm.schema import SourceFile
from support.kernels import DEFINITION, read_kernels

BUILD = """
import sys
from pathlib import Path
from fib_rmsnorm.building import build_entry
from fib_rmsnorm.schema import Solution
solution = Solution.model_validate_json(Path(sys.argv[1]).read_text())
assert callable(build_entry(solution, "cpu", Path(sys.argv[2])))
"""

# torch's own header takes a minute to compile; what is tested here is when the binding compiles, not what.
SMALL = """\
#include <pybind11/pybind11.h>
PYBIND11_MODULE(TORCH_EXTENSION_NAME, module) { module.def("run", [] {}); }
"""


def write_solution(path: Path) -> Path:
    solution = read_kernels("honest")["cpp_torch_binding"].solution(DEFINITION)
    (source,) = solution.sources
    small = solution.model_copy(update={"sources": [SourceFile(path=source.path, content=SMALL)]})
    path.write_text(small.model_dump_json())
    return path


def build(solution: Path, cache: Path, timeout: float | None = None) -> None:
    """Build in a process of its own: a process keeps what it has loaded."""
    subprocess.run([sys.executable, "-c", BUILD, solution, cache], check=True, timeout=timeout)


@pytest.mark.compile
def test_a_damaged_build_is_made_again_and_a_killed_one_keeps_nobody_waiting(tmp_path):
    solution, cache = write_solution(tmp_path / "solution.json"), tmp_path / "cache"
    with subprocess.Popen([sys.executable, "-c", BUILD, solution, cache], start_new_session=True) as killed:
        while not list(cache.rglob("build.ninja")):
            assert killed.poll() is None
            time.sleep(0.05)
        os.killpg(killed.pid, signal.SIGKILL)
    assert not list(cache.rglob("solution.so"))
    build(solution, cache, timeout=400)
    (library,) = cache.rglob("solution.so")
    library.write_bytes(b"\x7fELF and no more")
    build(solution, cache)
