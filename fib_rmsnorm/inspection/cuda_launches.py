"""What the host code of a CUDA Solution launches, recorded by calling it with a fake CUDA runtime."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from fib_rmsnorm.building.native import find_cuda_home, find_cxx
from fib_rmsnorm.inspection.facts import Kernel, Launch

_PACKAGE = Path(__file__).parents[1] / "__init__.py"
_FAKE = Path(__file__).with_name("fake_cudart.cpp")
# A confined interpreter may be unable to list the folder that our package lies in, so it is told where that is.
_START = """\
import importlib.util, os, sys
sys.path[:] = sys.argv[1].split(os.pathsep)
spec = importlib.util.spec_from_file_location("fib_rmsnorm", sys.argv[2])
sys.modules["fib_rmsnorm"] = importlib.util.module_from_spec(spec)
spec.loader.exec_module(sys.modules["fib_rmsnorm"])
from fib_rmsnorm.inspection.cuda_recorder import main
main()
"""
_TIMEOUT_S = 60


class _UnknownError(Exception):
    """What the host code launches cannot be recorded here; the message says why."""


def record_launches(
    library: Path, symbol: str, calls: Sequence[Sequence[Any]], kernels: Sequence[Kernel]
) -> list[list[Launch] | str]:
    """Call `symbol` once with each list of arguments: what it launches, or why that is unknown.

    A tensor is given as `{"shape": [...], "dtype": "float16"}`.
    """
    try:
        with tempfile.TemporaryDirectory() as folder:
            fake = Path(folder, "fake_cudart.so")
            _build_fake(fake)
            answers = _record(library, symbol, calls, kernels, fake)
    except _UnknownError as error:
        return [str(error)] * len(calls)
    numbers = {kernel.kernel: number for number, kernel in enumerate(kernels)}
    return [answer.get("error") or _read_launches(answer["launches"], numbers) for answer in answers]


def _build_fake(library: Path) -> None:
    """Compile the fake runtime against the toolkit's headers."""
    home, compiler = find_cuda_home(), find_cxx()
    if home is None or compiler is None:
        raise _UnknownError("recording what the host code launches needs a CUDA toolkit and a C++ compiler")
    command = [compiler, "-std=c++17", "-O1", "-shared", "-fPIC", f"-I{home / 'include'}", str(_FAKE)]
    run = subprocess.run([*command, "-o", str(library)], capture_output=True, text=True, check=False)
    if run.returncode != 0:
        raise _UnknownError(f"the fake CUDA runtime does not compile: {run.stderr.strip().splitlines()[0]}")


def _record(
    library: Path, symbol: str, calls: Sequence[Sequence[Any]], kernels: Sequence[Kernel], fake: Path
) -> list[dict[str, Any]]:
    request = {
        "fake": str(fake),
        "library": str(library),
        "symbol": symbol,
        "calls": calls,
        "arch": kernels[0].arch,
        "kernels": {kernel.kernel: [kernel.registers or 0, kernel.shared_bytes or 0] for kernel in kernels},
    }
    environment = {**os.environ, "TVM_FFI_DISABLE_TORCH_C_DLPACK": "1"}  # or tvm_ffi imports torch
    try:
        run = subprocess.run(
            [sys.executable, "-c", _START, os.pathsep.join(sys.path), str(_PACKAGE)],
            input=json.dumps(request),
            capture_output=True,
            text=True,
            timeout=_TIMEOUT_S,
            env=environment,
            check=True,
        )
    except (OSError, subprocess.SubprocessError) as error:
        said = (getattr(error, "stderr", None) or str(error)).strip().splitlines()
        raise _UnknownError(f"the host code did not run without a GPU: {said[-1]}") from None
    return [json.loads(line) for line in run.stdout.splitlines() if line.startswith("{")]


def _read_launches(found: Sequence[dict[str, Any]], numbers: dict[str, int]) -> list[Launch] | str:
    try:
        return [Launch.model_validate({"kernel_number": numbers[each["kernel"]], **each}) for each in found]
    except ValidationError:
        return "the host code launched a kernel with an empty grid or block"
