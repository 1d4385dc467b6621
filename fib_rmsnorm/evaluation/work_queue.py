"""Share a plan's groups out over devices: the longest first, so that no device works alone at the end."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from dataclasses import dataclass, field

from fib_rmsnorm.evaluation.plan import Group
from fib_rmsnorm.registry import bytes_moved

# An evaluation of a few rows takes as long as the part of another that grows with its bytes does for this many.
_FIXED_BYTES = 1 << 30


def estimate_work(group: Group) -> int:
    """How long a group takes, in bytes, of which only the ratios to other groups' mean anything."""
    return len(group.solutions) * (_FIXED_BYTES + bytes_moved(group.definition, group.workload))


@dataclass
class _Share:
    """Groups that no device has taken, in the order in which devices will take them: those of one Definition."""

    left: list[Group] = field(default_factory=list)
    devices: set[int] = field(default_factory=set)
    """The devices that took their last group here, and hold workers for it."""

    def work_for_another(self) -> float:
        """The work that is left for each device if one more comes."""
        return sum(map(estimate_work, self.left)) / (len(self.devices) + 1)


class WorkQueue:
    """The groups that no device has taken yet. The devices' threads share it."""

    def __init__(self, groups: Iterable[Group], devices: int) -> None:
        """One device takes the groups in their own order: the time of all together does not depend on it."""
        self._lock = threading.Lock()
        self._shares: dict[str, _Share] = {}
        if devices == 1:
            self._shares["all"] = _Share(list(groups))
            return
        for group in sorted(groups, key=estimate_work, reverse=True):
            self._shares.setdefault(group.definition.name, _Share()).left.append(group)

    def __bool__(self) -> bool:
        """Whether groups are left."""
        with self._lock:
            return any(share.left for share in self._shares.values())

    def take(self, device: int) -> Group | None:
        """The next group for the device of this number; None if none is left.

        A device stays with a Definition, for whose Solutions it holds workers. When that is done, it helps where the
        most work is left for each device.
        """
        with self._lock:
            mine = next((share for share in self._shares.values() if device in share.devices), None)
            if mine is None or not mine.left:
                if mine is not None:
                    mine.devices.discard(device)
                waiting = [share for share in self._shares.values() if share.left]
                if not waiting:
                    return None
                mine = max(waiting, key=_Share.work_for_another)
                mine.devices.add(device)
            return mine.left.pop(0)

    def put_back(self, device: int, group: Group) -> None:
        """Have another device take the group that was this one's last: this one takes no more."""
        with self._lock:
            share = self._shares.get("all") or self._shares[group.definition.name]
            share.left.insert(0, group)
            share.devices.discard(device)
