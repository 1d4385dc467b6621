"""The start of a process that is watched: it confines itself, and then makes its call.

Before torch is imported, whose libraries start threads: a thread that runs already would stay free. The library of
NVIDIA's tool, which is loaded before Python, starts its threads with CUDA (seen with the tools' version 2025.3).
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import tempfile
from pathlib import Path

from fib_rmsnorm.sandbox.confinement import confine
from fib_rmsnorm.sandbox.confinement.readable import find_readable


def main() -> None:
    """Run a function of `watched_call`, the first argument, confined by the request in the file of the second."""
    call, path = sys.argv.pop(1), sys.argv[1]
    request = json.loads(Path(path).read_text(encoding="utf-8"))
    readable, writable = [path, *request["readable"]], [request["own"], request["cache"]]
    confine(find_readable(), readable, writable, reads_counters=request["reads_counters"])
    os.environ["HOME"] = request["own"]
    tempfile.tempdir = None  # chosen anew: what is readable depended on it
    getattr(importlib.import_module("fib_rmsnorm.profiling.watched_call"), call)()
