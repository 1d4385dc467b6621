"""Does a solution keep the outputs of its calls? Then it answers some calls from memory.

No timed call has inputs that an earlier one had, so a cache by the whole content answers none of them and its
number is honest. It is a cheat all the same: it is written for a benchmark that repeats itself.
"""

from __future__ import annotations

import gc
from collections.abc import Sequence

import torch

# A workspace that happens to hold the last output is no cache, nor are a few (a CUDA graph's for each eps, say);
# what keeps every output keeps at least four on each Workload.
_SUSPICIOUS = 4
_SAMPLED_ELEMENTS = 4096

_detach = torch.Tensor.detach

_Mark = tuple[int, torch.dtype, bytes]


class KeptOutputs:
    """Marks of the outputs of judged calls on one Workload."""

    def __init__(self) -> None:
        self._marks: set[_Mark] = set()
        self._frozen = gc.get_freeze_count()

    def forget(self) -> None:
        """Begin another Workload: its shapes may have workspaces of their own."""
        self._marks.clear()

    def remember(self, outputs: Sequence[torch.Tensor]) -> None:
        """Mark the outputs of a call."""
        self._marks |= {mark for tensor in outputs if (mark := _mark(tensor)) is not None}

    def find_kept(self) -> int:
        """How many of the outputs still lie in tensors that Python knows, if that is suspicious; otherwise 0."""
        if gc.get_freeze_count() > self._frozen:
            gc.unfreeze()  # or what the solution froze would not be among the objects
        sizes = {(numel, dtype) for numel, dtype, _ in self._marks}
        # Without attributes of their own, which might hide them.
        bare = [_detach(one) for one in gc.get_objects() if type(one) is torch.Tensor and not one.is_meta]
        found = [tensor for tensor in bare if (tensor.numel(), tensor.dtype) in sizes]
        kept = len({mark for tensor in found if (mark := _mark(tensor)) in self._marks})
        return kept if kept >= _SUSPICIOUS else 0


def _mark(tensor: torch.Tensor) -> _Mark | None:
    """Some elements from everywhere in it; None if they say nothing."""
    if not tensor.is_contiguous() or tensor.layout is not torch.strided:
        return None
    flat = tensor.detach().view(-1)
    sample = flat[:: max(1, flat.numel() // _SAMPLED_ELEMENTS)].cpu().contiguous()
    if sample.numel() < 2 or bool((sample == sample[0]).all()):
        return None
    return tensor.numel(), tensor.dtype, sample.view(torch.uint8).numpy().tobytes()
