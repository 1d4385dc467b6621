"""Prepare Triton's interpreter, on a machine without a GPU, for kernels that were written for one."""

import warnings
from contextlib import nullcontext
from inspect import isfunction
from typing import NoReturn

import torch
from triton.language.extra import cuda, hip, libdevice


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
