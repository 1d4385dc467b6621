"""Where a process has put the outputs that another may take."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

HANDLE_BYTES = 64
_MOST_BYTES = 1 << 48


@dataclass(frozen=True)
class DeviceMemory:
    """A part of an allocation in a GPU's memory, which the process that has it lets others open."""

    handle: Annotated[str, Field(pattern=rf"\A[0-9a-f]{{{2 * HANDLE_BYTES}}}\z")]
    """CUDA's handle of the allocation, in hexadecimal digits."""
    offset: Annotated[int, Field(ge=0, le=_MOST_BYTES)]
    """Where the part begins in the allocation, in bytes."""
    nbytes: Annotated[int, Field(ge=0, le=_MOST_BYTES)]
