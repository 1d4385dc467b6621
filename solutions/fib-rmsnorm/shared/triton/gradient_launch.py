"""Launches of the gradients of norms over rows: few programs, each with many rows, so that there is little to add."""

import functools
from typing import NamedTuple

import torch
import triton

from .choices import find_choice
from .gradient_rows import gradient_columns, gradient_long_columns, gradient_long_row, gradient_rows
from .launching import are_aligned, get_dtype, launch_on_device_of, make_arrange

TENSORS = ("dy", "dnew_residual", "x", "weight", "mean", "rstd", "dx", "dweight", "dbias")
# A longer row, with what else a thread holds of its columns, does not fit the registers of one program.
MAX_ROW_BYTES = 32768
LONG_BLOCK = 4096
LONG_ROWS, LONG_COLS = 32, 64
REGISTERS, MOST_THREADS = 65536, 2048  # of a multiprocessor
CPU_PROGRAMS = 3
FEW_ROWS = 1024


class Launch(NamedTuple):
    """How rows are spread over programs."""

    block: int
    rows: int  # that a program takes at once; 0: one is too long for its registers
    warps: int  # of a program
    programs: int  # of a multiprocessor, if that many fit


def plan(batch, hidden, dtype):
    """As measured where this shape was tuned.

    Elsewhere: 16 elements of a row a thread, up to 16 warps, and with few rows one program of a multiprocessor, so that
    there are fewer sums to add at the end.
    """
    block = triton.next_power_of_2(hidden)
    if block * dtype.itemsize > MAX_ROW_BYTES:
        return Launch(LONG_BLOCK, 0, 8, 0)
    choice = find_choice(batch, hidden=hidden, itemsize=dtype.itemsize)
    if choice is not None:
        return Launch(block, choice["rows"], choice["rows"] * choice["warps"], choice["programs"])
    warps = min(max(1, block // 512), 16)
    return Launch(block, 1, warps, 1 if batch < FEW_ROWS else max(1, 16 // warps))


def count_programs(device, shape, registers):
    """The programs that run at once, as the grid's barrier needs it."""
    threads = shape.warps * 32
    fitting = min(REGISTERS // (threads * max(8, -registers // 8 * -8)), MOST_THREADS // threads)
    properties = torch.cuda.get_device_properties(device)
    return properties.multi_processor_count * max(1, min(shape.programs, fitting))


def choose_columns(hidden, programs):
    """How many columns a program adds at the end: at least as many as are read at once."""
    return max(16, triton.next_power_of_2(triton.cdiv(hidden, programs)))


class RowGradient:
    """The gradients of a norm, called with these tensors in their order; they lie on one device, contiguous by rows."""

    def __init__(self, *tensors):
        self._x, self._sums = tensors.index("x"), [tensors.index(each) for each in tensors if each in TENSORS[-2:]]
        self._arrange = make_arrange(TENSORS, tensors)
        self._prepare = functools.lru_cache(maxsize=1024)(self._compile)
        self._arrivals = {}

    def __call__(self, *tensors):
        """Launch on x's device."""
        x = tensors[self._x]
        if x.numel() == 0:
            for index in self._sums:
                tensors[index].zero_()
        else:
            launch_on_device_of(x, self._launch, self._launch_prepared, tensors)

    def _launch(self, tensors):
        x = tensors[self._x]
        batch, hidden = x.shape
        shape = plan(batch, hidden, x.dtype)
        arranged = self._arrange((*tensors, None))
        if not shape.rows:
            self._launch_long(arranged, batch, hidden)
            return
        programs = min(triton.cdiv(batch, shape.rows), 132 if x.is_cuda else CPU_PROGRAMS)
        partials, cols = self._make_partials(x, programs), choose_columns(hidden, programs)
        constants = hidden, *shape[:3], 16 // x.itemsize, cols
        gradient_rows[(programs,)](*arranged, partials, None, batch, *constants, num_warps=shape.warps)
        sums = arranged[-2:]
        gradient_columns[(triton.cdiv(hidden, cols),)](partials, *sums, programs, HIDDEN=hidden, COLS=cols)

    def _launch_long(self, arranged, batch, hidden):
        dy, dnew_residual, x, weight, mean, rstd, dx, dweight, dbias = arranged
        rows = dy, dnew_residual, x, weight, mean, rstd, dx
        gradient_long_row[(batch,)](*rows, HIDDEN=hidden, BLOCK=LONG_BLOCK, num_warps=8)
        grid = (triton.cdiv(hidden, LONG_COLS),)
        columns = dy, x, mean, rstd, dweight, dbias, batch
        gradient_long_columns[grid](*columns, HIDDEN=hidden, ROWS=LONG_ROWS, COLS=LONG_COLS)

    def _make_partials(self, x, programs):
        return torch.empty(len(self._sums) * programs * x.shape[1], dtype=torch.float32, device=x.device)

    def _compile(self, device, batch, hidden, x_dtype, *dtypes):
        """The launch of gradient_rows on the current device for tensors on 16-byte boundaries, and its constants.

        None if rows are too long.
        """
        shape = plan(batch, hidden, x_dtype)
        if not shape.rows:
            return None
        pointers = (*self._arrange((*dtypes, None)), torch.float32, torch.int32)
        options = {"grid": (1,), "num_warps": shape.warps, "launch_cooperative_grid": True}

        def compile_for(programs):
            constants = hidden, *shape[:3], 16 // x_dtype.itemsize, choose_columns(hidden, programs)
            return gradient_rows.warmup(*pointers, 1, *constants, **options), constants

        wanted = triton.cdiv(batch, shape.rows)
        most = shape.programs * torch.cuda.get_device_properties(device).multi_processor_count
        compiled, constants = compile_for(min(wanted, most))
        compiled._init_handles()  # registers are known from here on
        programs = min(wanted, count_programs(device, shape, compiled.n_regs))
        return compiled[programs, 1, 1], programs, constants

    def _launch_prepared(self, tensors):
        x = tensors[self._x]
        batch, hidden = x.shape
        prepared = self._prepare(x.device, batch, hidden, x.dtype, *map(get_dtype, tensors))
        addresses = [each.data_ptr() for each in tensors]
        if prepared is None or not are_aligned(addresses):
            self._launch(tensors)
        else:
            start, programs, constants = prepared
            partials, arrivals = self._make_partials(x, programs), self._find_arrivals(x.device)
            workspaces = partials.data_ptr(), arrivals.data_ptr()
            start(*self._arrange((*addresses, None)), *workspaces, batch, *constants)

    def _find_arrivals(self, device):
        """The counter of the grid's barrier: zero, as each launch leaves it, and of one stream.

        A graph may run beside the stream that it was captured on, so each of its launches gets its own.
        """
        if torch.cuda.is_current_stream_capturing():
            return torch.zeros(1, dtype=torch.int32, device=device)
        key = device.index, torch.cuda.current_stream().cuda_stream
        if key not in self._arrivals:
            self._arrivals[key] = torch.zeros(1, dtype=torch.int32, device=device)
        return self._arrivals[key]
