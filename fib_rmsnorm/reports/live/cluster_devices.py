"""What each device of a cluster does, while a bench runs."""

from __future__ import annotations

from collections.abc import Sequence

from rich.table import Table

from fib_rmsnorm.cluster import DeviceState
from fib_rmsnorm.reports.text.tables import plain_table


def devices_table(devices: Sequence[DeviceState]) -> Table:
    """A row for each device: its node, how many evaluations it has finished, and what it does."""
    rows = [(device.device, str(device.finished), device.doing) for device in devices]
    return plain_table(("device", ">finished", "doing"), rows)
