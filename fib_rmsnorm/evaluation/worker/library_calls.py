"""List the torch operators that a call runs: a kernel that claims to be Triton may be torch's own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from torch.utils._python_dispatch import TorchDispatchMode

# Operators that only create, move or fill tensors: they do not do a kernel's work.
_PLAIN = {
    *("empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided", "resize_", "set_"),
    *("full", "full_like", "new_full", "ones", "ones_like", "new_ones", "zeros", "zeros_like", "new_zeros"),
    *("fill", "fill_", "zero_", "clone", "contiguous", "copy_", "_to_copy", "_reshape_copy", "_local_scalar_dense"),
    *("alias", "detach", "lift_fresh", "_unsafe_view"),
}


class LibraryCalls(TorchDispatchMode):
    """Lists the operators that this thread runs while entered, but not those that only create, move or fill tensors."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._names: dict[str, None] = {}

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Whether torch wraps `__torch_dispatch__` to keep Dynamo out, whose import takes seconds at the first call."""
        return False

    @property
    def names(self) -> list[str]:
        """Qualified names, such as `aten::mean.dim`, in the order of their first call."""
        return list(self._names)

    def __torch_dispatch__(
        self, function: Any, types: Sequence[type], args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        """Note the operator, and run it."""
        name: str = function.name()
        if not function.is_view and name.partition("::")[2].partition(".")[0] not in _PLAIN:
            self._names[name] = None
        return function(*args, **(kwargs or {}))
