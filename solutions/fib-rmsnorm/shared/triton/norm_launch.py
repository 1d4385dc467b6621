"""Launches of the norms over rows: how rows are spread over programs, and calls that cost the host little."""

from functools import reduce
from operator import or_
from typing import NamedTuple

import torch
import triton
from triton.runtime import driver

from .choices import find_choice
from .norm_rows import norm_loop, norm_rows
from .row_tiles import UNTIED, tie

# A longer row, with what else a thread holds of its columns, does not fit the registers of one program: it spills.
MAX_HELD_BYTES = 131072
LOOP_BLOCK = 8192
MOST_PREPARED = 1024


class Launch(NamedTuple):
    """How rows are spread over programs: the kernel's constants after HIDDEN."""

    block: int
    rows: int  # of a program; 0: one is too long for its registers
    warps: int  # of a program
    tied: int  # what x is tied to
    kept: int = 0  # whether L2 is to keep what was read; such lines stay there when the kernel has ended


def plan(batch, hidden, dtype, held_itemsizes):
    """As measured where this shape was tuned.

    Elsewhere: up to 8 warps for a row with 16 elements a thread, more only where a thread would hold over 64; short
    rows share a program once there are many.
    """
    block = triton.next_power_of_2(hidden)
    if block * (dtype.itemsize + max(dtype.itemsize, sum(held_itemsizes))) > MAX_HELD_BYTES:
        return Launch(LOOP_BLOCK, 0, 16, UNTIED.value)
    choice = find_choice(batch, hidden=hidden, itemsize=dtype.itemsize)
    tied = tie(choice and choice["tied"], batch, dtype) if held_itemsizes else UNTIED.value
    if choice is not None:
        return Launch(block, choice["rows"], choice["rows"] * choice["warps"], tied, choice.get("kept", 0))
    rows = 1 if batch < 8192 else max(1, min(4, 2048 // block))
    return Launch(block, rows, rows * min(max(1, min(8, block // 512), block // 2048), 16), tied)


class RowNorm:
    """A form of the norm, by the flags of norm_rows.py; what it is called with decides the rest.

    An object gets the same of the tensors each time. They lie on one device, contiguous by rows. What has rows is like
    x, but for an `out` in float8; a bias is like the weight; `out_scale` is a number or a tensor of one element.
    """

    def __init__(self, *flags):
        self._form = sum(flag.value for flag in flags)
        self._prepared = {}

    def launch(self, x, out, eps, weight=None, **others):
        """Launch on x's device. Not `__call__`, which takes longer to call."""
        if x.numel() == 0:
            return
        if not x.is_cuda:
            self._launch(x, out, eps, weight, others)
        elif x.device.index == torch.cuda.current_device():
            self._launch_prepared(x, out, eps, weight, others)
        else:  # Triton launches on the current device; entering x's always would cost host time.
            with torch.cuda.device(x.device):
                self._launch_prepared(x, out, eps, weight, others)

    def _plan(self, x, weight, others):
        """The launch, and its constants."""
        held = [each.itemsize for each in (weight, others.get("bias"), others.get("gate")) if each is not None]
        shape = plan(*x.shape, x.dtype, held)
        return shape, (x.shape[1], *shape, self._form)

    def _launch(self, x, out, eps, weight, others):
        shape, constants = self._plan(x, weight, others)
        tensors, scale = arrange(x, out, weight, **others)
        batch, hidden = x.shape
        if not shape.rows:
            norm_loop[(batch,)](*tensors, eps, scale, hidden, shape.block, self._form, num_warps=shape.warps)
        else:
            grid = (triton.cdiv(batch, shape.rows),)
            norm_rows[grid](*tensors, batch, eps, scale, *constants, num_warps=shape.warps)

    def _launch_prepared(self, x, out, eps, weight, others):
        """Written for the host's time, which is that of a call with few rows: others first cost where there are any."""
        batch, hidden = x.shape
        key = x.device, batch, hidden, x.dtype, weight is None or weight.dtype
        if others:
            key += (out.dtype,)
        prepared = self._prepared.get(key)
        if prepared is None:
            prepared = self._prepared[key] = self._prepare(x, out, weight, others)
        if others:
            tensors, scale = arrange(x, out, weight, **others)
            addresses = [each if each is None else each.data_ptr() for each in tensors]
            bits = reduce(or_, filter(None, addresses))
        else:
            x_at, out_at, scale = x.data_ptr(), out.data_ptr(), None
            weight_at = None if weight is None else weight.data_ptr()
            addresses = x_at, None, None, weight_at, None, None, out_at, None, None
            bits = x_at | out_at | (weight_at or 0)
        if not prepared or bits % 16:
            self._launch(x, out, eps, weight, others)
        else:
            start, constants = prepared
            start(*addresses, batch, eps, scale, *constants, stream=driver.active.get_current_stream(x.device.index))

    def _prepare(self, x, out, weight, others):
        """The launch on the current device for tensors on 16-byte boundaries, and its constants.

        Triton's own launch looks at every argument again, which takes longer than all the rest. Empty if rows are too
        long for norm_rows.
        """
        shape, constants = self._plan(x, weight, others)
        if not shape.rows:
            return ()
        if len(self._prepared) >= MOST_PREPARED:
            self._prepared.clear()
        tensors, scale = arrange(x, out, weight, **others)
        pointers = [each if each is None else each.dtype for each in tensors]
        scale = scale if scale is None else 1.0
        compiled = norm_rows.warmup(*pointers, 1, 1.0, scale, *constants, grid=(1,), num_warps=shape.warps)
        return compiled[triton.cdiv(x.shape[0], shape.rows), 1, 1], constants


def arrange(x, out, weight, residual=None, gate=None, bias=None, out_scale=None, new_residual=None, row_scale=None):
    """The tensors as the kernels take them, and the scale where it is a number."""
    scale_tensor, scale = (out_scale, None) if isinstance(out_scale, torch.Tensor) else (None, out_scale)
    return (x, residual, gate, weight, bias, scale_tensor, out, new_residual, row_scale), scale
