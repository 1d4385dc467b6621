"""ncu serves one at a time, as a program called ncu shows that says when it begins and ends."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from fib_rmsnorm.errors import InputError
from fib_rmsnorm.machine.devices import Device
from fib_rmsnorm.profiling import ncu
from support.registries import add_kernel

SAYS_WHEN = """\
#!{python}
import sys
import time

with open({times!r}, "a") as times:
    times.write("begin ")
    times.flush()
    time.sleep(0.2)
    times.write("end ")
"""


def test_two_profiles_at_once_take_turns(registry, tmp_path, monkeypatch):
    program, times = tmp_path / "ncu", tmp_path / "times"
    program.write_text(SAYS_WHEN.format(python=sys.executable, times=str(times)))
    program.chmod(0o755)
    monkeypatch.setattr(ncu, "find_ncu", lambda: program)
    solution = add_kernel(registry, "right")
    (definition,) = registry.definitions().values()
    workload = registry.workloads(definition.name)[0]

    def profile(report: Path):
        with pytest.raises(InputError, match="ncu recorded no kernel"):
            ncu.profile(definition, solution, workload, Device("cuda:0", "Fake GPU", 80 << 30), report, 60)

    monkeypatch.setattr(ncu, "require_gpu", lambda *_: None)
    monkeypatch.setattr(ncu, "read_report", lambda *_: ncu.ToolRun(0, "", ""))  # which need not wait its turn
    with ThreadPoolExecutor() as threads:
        list(threads.map(profile, (tmp_path / f"{number}.ncu-rep" for number in range(2))))
    assert times.read_text() == "begin end begin end "
