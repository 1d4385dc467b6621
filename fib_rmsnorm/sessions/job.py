"""A request to a service, and its results so far."""

import threading
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field

from fib_rmsnorm.errors import FibRmsnormError
from fib_rmsnorm.schema import digest
from fib_rmsnorm.sessions.contenders import History
from fib_rmsnorm.sessions.try_plan import TryPlan
from fib_rmsnorm.sessions.version import Version


class QueueFullError(FibRmsnormError):
    """A client's part of the queue is full."""


@dataclass(eq=False)
class Job:
    """A request to judge a kernel or to do other work on a device, and its results so far."""

    client: str
    on_change: "Callable[[Job], None]"
    id: str = field(default_factory=lambda: uuid.uuid4().hex[:12])
    version: Version | None = None
    """The kernel's results so far; `done` once nothing will be added. None for other work."""
    plan: TryPlan | None = None
    """None for files that cannot be read as a kernel, and for other work."""
    timed: bool = False
    history: History | None = None
    """The versions of the same kernel before it."""
    work: "Callable[[Job], object] | None" = None
    """Other work, during which nothing is timed on the first device; it may set `stop`, and look at `cancelled`."""
    is_alone: bool = False
    """Whether nothing may be judged there either."""
    stop: Callable[[], object] = lambda: None
    """Stops other work that runs."""
    value: object = None
    """The result of other work."""
    state: str = "queued"
    """`queued`, `running` or `done`."""
    error: str = ""
    """Why it has no verdict, if the kernel is not at fault."""
    cancelled: bool = False
    finished: threading.Event = field(default_factory=threading.Event)

    @property
    def content(self) -> str:
        """A digest of the kernel's files; what is wrong with them if it cannot be planned."""
        if self.plan is None:
            return f"{self.version.refused}{self.version.skipped}" if self.version else ""
        return digest(self.plan.draft)

    @property
    def progress(self) -> tuple[int, int]:
        """The number of finished steps, and of all: to judge it on each Workload, and to time it there."""
        steps = len(self.plan.workloads) * (2 if self.timed else 1) if self.plan else 1
        done = len(self.version.checks) + len(self.version.own_traces) if self.version else 0
        return (steps if self.state == "done" else done), steps

    def wait(self) -> Version:
        """Wait for the verdict. Raises FibRmsnormError if there is none."""
        self.finished.wait()
        if self.error or self.version is None:
            raise FibRmsnormError(self.error or "this request is not about a kernel")
        return self.version
