"""What a process of the sandbox is for."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Role:
    """A kind of process that the fork server starts."""

    module: str
    """Whose `main(channel, outputs_fd)` it runs; the fork server imports it once, for all of them."""
    runs_untrusted_code: bool
    """Whether it is confined, and keeps the descendants whose parents end."""
