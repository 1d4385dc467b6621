"""Prepare Triton: its compiler and driver on a GPU, or its interpreter on a machine without one."""

import warnings
from contextlib import nullcontext
from inspect import isfunction
from typing import NoReturn

import torch
import triton
import triton.language as tl
from triton.language.extra import cuda, hip, libdevice

_COLUMNS = 32


@triton.jit  # type: ignore[untyped-decorator, unused-ignore]
def _copy(source: tl.tensor, target: tl.tensor, columns: tl.constexpr) -> None:
    at = tl.arange(0, columns)
    tl.store(target + at, tl.load(source + at))


def warm_up(device: str) -> None:
    """Copy a few elements on a GPU, so that Triton has compiled and launched a kernel.

    That hashes its libraries, builds its driver with a C compiler and imports its compiler: 1.2 s on an H100's host.
    """
    source = torch.empty(_COLUMNS, device=device)
    _copy[(1,)](source, torch.empty_like(source), _COLUMNS)


def prepare_interpreter() -> None:
    """Let a choice of GPU do nothing, calls of libdevice say that they need one, and hide NumPy's warnings.

    Otherwise calls of libdevice return None or ask for `@triton.jit`, and NumPy warns of hard inputs.
    """
    torch.cuda.device = lambda _: nullcontext()  # type: ignore[assignment, misc, return-value]
    torch.cuda.set_device = lambda device: None
    for module in (libdevice, cuda.libdevice, hip.libdevice):
        for name, value in vars(module).items():
            if isfunction(value):
                setattr(module, name, _refuse_libdevice)
    for module_name in ("triton.runtime.interpreter", r"numpy\."):
        warnings.filterwarnings("ignore", category=RuntimeWarning, module=module_name)


def _refuse_libdevice(*_args: object, **_options: object) -> NoReturn:
    raise NotImplementedError("Triton's interpreter cannot call libdevice")
