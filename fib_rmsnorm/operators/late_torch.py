"""torch for the operators, imported at its first use: `--help`, `list` and `report` know operators without it.

It is not for what runs as a module is imported, such as the values of constants.
"""

from typing import TYPE_CHECKING, Any

__all__ = ["torch"]

if TYPE_CHECKING:
    import torch
else:

    class _LateTorch:
        def __getattr__(self, name: str) -> Any:
            import torch

            return getattr(torch, name)

    torch = _LateTorch()
