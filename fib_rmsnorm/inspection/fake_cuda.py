"""Make Python code find a GPU of a named architecture, so that it compiles for it, and note what it launches.

Kernels are chosen by a tensor's device and by what torch.cuda says of the GPU. FakeTensorMode
gives tensors that are on `cuda` without memory behind them, even where torch is built without
CUDA; the rest is a handful of answers. Nothing can be computed: this is for compilation only.
"""

import contextlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from types import SimpleNamespace
from typing import Any
from unittest import mock

import torch
from torch._subclasses import fake_tensor

from fib_rmsnorm.inspection.facts import Kernel, Launch
from fib_rmsnorm.machine.gpu_models import capability_of, find_architecture

_HIP = "6.4"
_ALIGNED_ADDRESS = 1 << 20  # what a fake tensor claims: compilers specialise on alignment


class AotSession(ABC):
    """Calls Python entry points with nothing launched, and compiles what they would have launched.

    Only the shapes, strides and types of tensor arguments matter. Use it in a process of its own: torch.cuda and the
    language's compiler answer falsely meanwhile.
    """

    tells_wraps = False
    """Whether launches tell which offsets wrap."""

    def __init__(self, arch: str) -> None:
        self.arch = arch
        self.kernels: list[Kernel] = []
        """The kernels that have been compiled so far."""
        self.launches: list[Launch] = []
        """The launches of the current call."""
        self.notes: list[str] = []
        """Remarks on the launches."""
        self.wraps: dict[str, str] = {}
        """The line of the source that computes an offset which wraps, by the name of the kernel."""

    @abstractmethod
    def compiling(self) -> contextlib.AbstractContextManager[None]:
        """Stand in for the language's driver or compiler meanwhile."""

    def call(self, entry: Callable[..., object], arguments: Sequence[object]) -> list[Launch]:
        """Call the entry point, its tensors turned into fake ones on the GPU, and return what it launches."""
        self.launches = []
        with self.compiling(), _pretend(self.arch), fake_tensor.FakeTensorMode(allow_non_fake_inputs=True):
            given = [
                torch.empty_strided(each.shape, each.stride(), dtype=each.dtype, device="cuda")
                if isinstance(each, torch.Tensor)
                else each
                for each in arguments
            ]
            entry(*given)
        return self.launches


@contextlib.contextmanager
def _pretend(arch: str) -> Iterator[None]:
    architecture, (major, minor) = find_architecture(arch), capability_of(arch)
    properties = SimpleNamespace(
        name=f"compile-only {arch}",
        major=major,
        minor=minor,
        multi_processor_count=architecture.model.multiprocessors,
        gcnArchName=arch,
        warp_size=architecture.vendor.warp,
        max_threads_per_multi_processor=architecture.max_threads,
        regs_per_multiprocessor=architecture.registers,
        shared_memory_per_block_optin=architecture.max_shared_bytes,
        L2_cache_size=architecture.model.l2_bytes,
        total_memory=80 << 30,
    )
    answers: dict[str, Any] = {
        "is_available": lambda: True,
        "is_initialized": lambda: True,
        "device_count": lambda: 1,
        "current_device": lambda: 0,
        "set_device": lambda device: None,
        "get_device_capability": lambda device=None: (major, minor),
        "get_device_properties": lambda device=None: properties,
        "get_device_name": lambda device=None: properties.name,
        "current_stream": lambda device=None: SimpleNamespace(cuda_stream=0),
        "is_current_stream_capturing": lambda: False,
        "synchronize": lambda device=None: None,
        "device": contextlib.nullcontext,
        "device_of": contextlib.nullcontext,
        "stream": contextlib.nullcontext,
    }
    with (
        mock.patch.multiple(torch.cuda, **answers),
        # By which kernels tell a torch for AMD's GPUs.
        mock.patch.object(torch.version, "hip", _HIP if architecture.vendor.triton_backend == "hip" else None),
        # It would create a context on the GPU that is not there.
        mock.patch.object(fake_tensor, "init_gpu_context", lambda *device: None, create=True),
        mock.patch.object(fake_tensor.FakeTensor, "data_ptr", lambda tensor: _ALIGNED_ADDRESS, create=True),
        # torch moves a module's fake parameters only if it finds no weak reference to them; each has one.
        mock.patch.object(torch.utils, "weakref", SimpleNamespace(getweakrefs=lambda tensor: []), create=True),
    ):
        yield
