"""This machine's devices, tools and libraries, and what each language can do with them."""

import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path

from fib_rmsnorm.building.cache import cache_folder
from fib_rmsnorm.building.native import find_cc, find_cuda_home, find_cxx, find_ninja
from fib_rmsnorm.evaluation.timing import cupti_fault, timer_name
from fib_rmsnorm.file_trees import file_sizes
from fib_rmsnorm.languages import LANGUAGES, Tool
from fib_rmsnorm.machine.capabilities import CacheUse, DeviceReport, FoundTool, MachineReport, capability
from fib_rmsnorm.machine.devices import Device, cpu_device, cuda_devices
from fib_rmsnorm.machine.environment import PACKAGES, library_versions
from fib_rmsnorm.sandbox.confinement import find_gaps

_TOOL_TIMEOUT_S = 20


def report_machine() -> MachineReport:
    """Report what this machine has."""
    gpus, libraries, cache = cuda_devices(), library_versions(), cache_folder()
    cached = list(file_sizes(cache))
    return MachineReport(
        devices=[_check_device(device) for device in (*gpus, cpu_device())],
        tools=_check_tools(),
        python=sys.executable,
        libraries={**dict.fromkeys(PACKAGES), **libraries},
        cache=CacheUse(str(cache), len(cached), sum(cached)),
        notes=[*([] if gpus else [_why_no_gpu(libraries)]), *_note_bytecode(), *find_gaps()],
    )


def _note_bytecode() -> Iterator[str]:
    torch = find_spec("torch")
    if torch and torch.origin and torch.cached and not Path(torch.cached).exists():
        folder = Path(torch.origin).parents[1]
        yield f"torch has no bytecode, so each process compiles it: run python -m compileall -q {folder}"


def _check_device(device: Device) -> DeviceReport:
    note = ""
    if device.is_amd:
        note = "untested: nobody has run this on AMD's GPUs yet"
    elif device.kind == "cuda" and (fault := cupti_fault()):
        note = f"CUPTI is better but missing ({fault}); run: pip install 'fib-rmsnorm[cupti]'"
    return DeviceReport(
        **vars(device),
        timer=timer_name(device.name),
        timer_note=note,
        languages={language: capability(language, device) for language in LANGUAGES},
    )


def _check_tools() -> list[FoundTool]:
    cuda_home = find_cuda_home()
    nvcc = str(cuda_home / "bin" / "nvcc") if cuda_home else None
    driver = library_versions().get("nvidia-driver")
    return [
        _tool("C++ compiler", find_cxx(), "install g++, or set CXX"),
        _tool("C compiler", find_cc(), "install gcc, or set CC"),
        _tool("nvcc", nvcc, "install a CUDA toolkit and set CUDA_HOME", r"V([\d.]+)"),
        _tool("ninja", find_ninja(), "pip install ninja"),
        FoundTool("NVIDIA driver", None, driver, "" if driver else "for GPUs"),
    ]


def _tool(name: Tool, path: str | None, remedy: str, pattern: str = r"(\d+\.\d[\w.]*)") -> FoundTool:
    if path is None:
        needing = [
            title for title, language in LANGUAGES.items() if any(name in each for each in language.needs.values())
        ]
        return FoundTool(name, None, None, f"for {', '.join(needing)}: {remedy}")
    try:
        said = subprocess.run([path, "--version"], capture_output=True, text=True, check=True, timeout=_TOOL_TIMEOUT_S)
    except (OSError, subprocess.SubprocessError):
        return FoundTool(name, path, None)
    found = re.search(pattern, said.stdout)
    return FoundTool(name, path, found[1] if found else None)


def _why_no_gpu(libraries: Mapping[str, str]) -> str:
    if "hip" in libraries:
        return "no GPU: torch is built for AMD's, and /sys/class/kfd lists none that you may use"
    if "nvidia-driver" not in libraries:
        return "no GPU: there is no NVIDIA driver here"
    if "cuda" not in libraries:
        found = libraries.get("torch", "it")
        return f"no GPU for torch: {found} is built without CUDA; install a CUDA build of torch"
    return "no GPU for torch, though there is a driver: see CUDA_VISIBLE_DEVICES and nvidia-smi"
