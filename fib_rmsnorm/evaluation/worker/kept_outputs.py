"""Find out whether a solution keeps the outputs of its calls, which an honest one has no reason to do."""

import gc
from collections.abc import Sequence

import torch

_detach = torch.Tensor.detach
# One workspace that holds the last output is not a cache; nor are a few, such as a CUDA graph's for each eps. A
# solution that keeps every output keeps at least four on each Workload.
_MIN_SUSPICIOUS = 4
_SAMPLED_ELEMENTS = 4096

_Fingerprint = tuple[int, torch.dtype, bytes]


class KeptOutputs:
    """Fingerprints of the outputs of judged calls on one Workload, to find out whether a solution keeps these outputs.

    No timed call repeats the inputs of an earlier one. So a cache that compares all of the content never hits, and its
    latency is honest. It is still a cheat, written for a benchmark that repeats its inputs.
    """

    def __init__(self) -> None:
        self._fingerprints: set[_Fingerprint] = set()
        self._frozen = gc.get_freeze_count()

    def forget(self) -> None:
        """Begin another Workload, whose shapes may have their own workspaces."""
        self._fingerprints.clear()

    def remember(self, outputs: Sequence[torch.Tensor]) -> None:
        """Add the outputs of a call."""
        self._fingerprints |= {fingerprint for tensor in outputs if (fingerprint := _fingerprint(tensor)) is not None}

    def find_kept(self) -> int:
        """Count the outputs that Python's garbage collector still finds; 0 if they are too few to be suspicious."""
        if gc.get_freeze_count() > self._frozen:
            gc.unfreeze()  # gc.get_objects() leaves out what the solution froze
        sizes = {(numel, dtype) for numel, dtype, _ in self._fingerprints}
        # Detached, because attributes set on a tensor could hide it.
        bare = [_detach(one) for one in gc.get_objects() if type(one) is torch.Tensor and not one.is_meta]
        found = [tensor for tensor in bare if (tensor.numel(), tensor.dtype) in sizes]
        kept = len({fingerprint for tensor in found if (fingerprint := _fingerprint(tensor)) in self._fingerprints})
        return kept if kept >= _MIN_SUSPICIOUS else 0


def _fingerprint(tensor: torch.Tensor) -> _Fingerprint | None:
    """A sample of a tensor's elements; None if all are equal, or if the tensor is not contiguous."""
    if not tensor.is_contiguous() or tensor.layout is not torch.strided:
        return None
    flat = tensor.detach().view(-1)
    sample = flat[:: max(1, flat.numel() // _SAMPLED_ELEMENTS)].cpu().contiguous()
    if sample.numel() < 2 or bool((sample == sample[0]).all()):
        return None
    return tensor.numel(), tensor.dtype, sample.view(torch.uint8).numpy().tobytes()
