"""Inputs whose rows do not lie one after the other: views of larger tensors, such as q in a tensor of q, k and v."""

import torch


def spread_rows(tensor: torch.Tensor, step: int) -> torch.Tensor:
    """Copy a tensor of two axes or more to where `view_rows` finds it in a larger, contiguous one. Returns that one.

    `step` is the stride of the last axis. Between the rows lies NaN, with other bits than the poison in outputs, or
    ones in integers.
    """
    first, *others, last = tensor.shape
    sizes = torch.Size([first, *(size + 1 for size in others), 2 * step * last])
    between = float("nan") if tensor.is_floating_point() else 1
    whole = torch.full(sizes, between, dtype=tensor.dtype, device=tensor.device)
    view_rows(whole, step).copy_(tensor)
    return whole


def view_rows(whole: torch.Tensor, step: int) -> torch.Tensor:
    """Each `step`-th element of the right half of each row, without the first index of the axes between.

    So the stride of each axis but the last differs from that of a contiguous tensor, and of those before it.
    """
    last = whole.dim() - 1
    view = whole.narrow(last, whole.shape[last] // 2, whole.shape[last] // 2)
    for axis in range(1, last):
        view = view.narrow(axis, 1, view.shape[axis] - 1)
    return view[..., ::step]


def read_as_contiguous(tensor: torch.Tensor, step: int) -> torch.Tensor:
    """The rows that a kernel finds in a tensor that is spread out, if it reads one after the other."""
    view = view_rows(spread_rows(tensor, step), step)
    return view.as_strided(tensor.shape, torch.empty(tensor.shape, device="meta").stride()).clone()


def copy_whole(view: torch.Tensor, source: torch.Tensor) -> None:
    """Copy a view of the same layout, and what lies between its rows."""
    _bytes_of(view).copy_(_bytes_of(source))


def _bytes_of(view: torch.Tensor) -> torch.Tensor:
    return torch.empty(0, dtype=torch.uint8, device=view.device).set_(view.untyped_storage())
