"""Processes for untrusted code: start them, ask them, confine them, check that they are idle, and end them.

Nothing here knows about kernels.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Role:
    """A kind of process that the fork server starts, and confines."""

    module: str
    """The module whose `main(channel, outputs_fd)` the process runs. The fork server imports it once."""
    runs_untrusted_code: bool
    """Whether the process runs untrusted code. Then it may not take all processes that its user may have."""
