"""Who looks at a call besides autograd: modes, traces, transforms, autocast and subclasses of Tensor."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.autograd import forward_ad

PLAIN = (Tensor, torch.nn.Parameter, type(None))
"""The types of a tensor that is none of a subclass, or that is left out."""
_is_tracing = torch._C._get_tracing_state
_has_function_mode = torch._C._is_torch_function_mode_enabled
_count_dispatch_modes = torch._C._len_torch_dispatch_stack
_is_autocast = torch._C._is_any_autocast_enabled
_has_transform = torch._C._are_functorch_transforms_active


def is_unobserved() -> bool:
    """Whether a kernel can run at once: no mode, trace or transform, and no autocast. One call, for the host's time."""
    return not (
        _has_function_mode()
        or _count_dispatch_modes()
        or _has_transform()
        or _is_autocast()
        or _is_tracing()
        or forward_ad._current_level >= 0
    )


def is_watched() -> bool:
    """Whether torch must see every operator: in a mode, or while it traces."""
    return bool(_has_function_mode() or _count_dispatch_modes() or _is_tracing())


def is_transformed() -> bool:
    """Whether every step of a formula must be seen: in a transform of torch.func, or with forward-mode gradients."""
    return _has_transform() or forward_ad._current_level >= 0


def are_plain(*tensors: Tensor | None) -> bool:
    """Whether none is of a subclass, which may hold its values elsewhere."""
    return all(type(each) in PLAIN for each in tensors)
