"""Of root's privileges, a confined process keeps the few that it needs."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from support.command_line import cli_environment

pytestmark = pytest.mark.skipif(os.getuid() != 0, reason="needs root")
DAC_OVERRIDE, DAC_READ_SEARCH, IPC_LOCK, SYS_ADMIN, PERFMON = 1, 2, 14, 21, 38
ALWAYS = {DAC_OVERRIDE, DAC_READ_SEARCH, IPC_LOCK}

DROPS = """
import sys
from pathlib import Path
from fib_rmsnorm.sandbox import confinement

confinement._DRIVER_VERSION = Path(sys.argv[1])
confinement.drop_privileges(reads_counters=bool(sys.argv[2]))
print(Path("/proc/self/status").read_text())
"""


def kept(version_file, reads_counters=""):
    run = subprocess.run(
        [sys.executable, "-c", DROPS, version_file, reads_counters],
        env=cli_environment(),
        capture_output=True,
        text=True,
        check=True,
    )
    status = dict(line.split(":\t", 1) for line in run.stdout.splitlines() if ":\t" in line)
    masks = {int(status[name], 16) for name in ("CapEff", "CapPrm")}
    (mask,) = masks
    return {number for number in range(64) if mask >> number & 1}


def test_it_keeps_files_and_locked_memory(tmp_path):
    assert kept(tmp_path / "missing") <= ALWAYS


@pytest.mark.parametrize(
    ("version", "capability"),
    [(None, PERFMON), ("580.159.04\n", PERFMON), ("565.57.01\n", PERFMON), ("550.54.15\n", SYS_ADMIN), ("x", PERFMON)],
)
def test_to_count_it_keeps_what_the_driver_asks_for(tmp_path, version, capability):
    file = tmp_path / "version"
    if version is not None:
        file.write_text(version)
    assert kept(file, "yes") - ALWAYS <= {capability}
    if kept(file) == ALWAYS:  # not in a container without them
        assert kept(file, "yes") == ALWAYS | {capability}
