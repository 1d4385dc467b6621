"""Judge and time version after version of a kernel on one device, for `try --watch`. All that they share stays warm.

Each version gets a worker of its own. It is judged on every Workload as by `try`, and timed in turn with the version
before it, a baseline and the reference. When a version is replaced, its worker and its build end before the next one
starts.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import AbstractContextManager
from datetime import datetime, timezone

from fib_rmsnorm.errors import InputError, advise
from fib_rmsnorm.evaluation.plan import choose_fitting
from fib_rmsnorm.evaluation.try_kernel import DEFAULT_BATCH_SIZES, choose_rivals, plan_try
from fib_rmsnorm.machine.devices import choose_devices
from fib_rmsnorm.registry import Registry
from fib_rmsnorm.registry.sources.definition_choice import require_meant
from fib_rmsnorm.registry.sources.draft import draft_solution
from fib_rmsnorm.sandbox.fork_server import ForkServer
from fib_rmsnorm.schema import Definition, Settings, Solution, digest
from fib_rmsnorm.sessions.contenders import Contender
from fib_rmsnorm.sessions.evaluator import Evaluator
from fib_rmsnorm.sessions.kernel_file import KernelFile
from fib_rmsnorm.sessions.version import Version


class Session(AbstractContextManager["Session"]):
    """Judges and times the versions of a kernel. A context manager; one thread at a time may use it."""

    def __init__(
        self,
        registry: Registry,
        definition: Definition,
        forks: ForkServer,
        *,
        batch_sizes: Sequence[int] = (),
        device: str = "auto",
        settings: Settings,
        timeout_s: float,
    ) -> None:
        """Raises InputError for an unknown device, or for batch sizes that no kernel can be judged at."""
        self._registry = registry
        self.definition = definition
        self.device = choose_devices(device)[0]
        self._batch_sizes = tuple(batch_sizes)
        choose_fitting(registry, self.definition, self._batch_sizes, DEFAULT_BATCH_SIZES, self.device)
        self._count = 0
        self._latest: Contender | None = None
        self._before: Contender | None = None
        self._rivals: list[Contender] | None = None
        """The baseline, if the registry has one; None until it was looked for."""
        self._evaluator = Evaluator(registry, self.device, forks, settings, timeout_s)

    def __exit__(self, *_: object) -> None:
        self._evaluator.close()

    def follow(self, kernel: KernelFile, *, timed: bool = True, draft: Solution | None = None) -> Generator[Version]:
        """Judge a kernel and time it. Yields its Version with the verdict, and again after each timing.

        `draft` is what was read of it, if it was. Files that cannot be read as a kernel give a Version too. `abandon`
        ends it from this call on, also before the first Version is asked for. Raises FibRmsnormError if the reference
        fails.
        """
        self._evaluator.begin()
        return self._follow(kernel, timed=timed, draft=draft)

    def _follow(self, kernel: KernelFile, *, timed: bool, draft: Solution | None) -> Generator[Version]:
        new = Version(
            number=self._count + 1,
            kernel=kernel.file.name,
            definition=self.definition.name,
            hardware=self.device.hardware,
            started_at=datetime.now(timezone.utc).isoformat(timespec="milliseconds"),
        )
        try:
            draft = draft or self.read(kernel)
            plan = plan_try(
                self._registry, self.definition, draft, self._batch_sizes, self.device, is_timed=False, file=kernel.file
            )
        except InputError as error:
            self._count += 1
            found = {"refused": str(error), "hint": advise(error), "done": True}
            yield new.model_copy(update=found)
            return
        current = self._take_up(draft)
        new = new.model_copy(update={"number": current.number, "kernel": draft.name})
        rivals, before = self._rivals or [], self._before
        for version in self._evaluator.evaluate(current, plan, new, timed=timed, rivals=rivals, before=before):
            current.version = version
            yield version

    def read(self, kernel: KernelFile) -> Solution:
        """Read a kernel's files. Raises InputError that says what is wrong with them, or for another Definition's."""
        registry, style = self._registry, kernel.destination_passing_style
        require_meant(registry, kernel.file, self.definition.name, kernel.definition)
        return draft_solution(registry, kernel.file, self.definition, kernel.entry, style, kernel.flags)

    def abandon(self) -> None:
        """From another thread: end the evaluation of the current version, whatever its kernel does."""
        self._evaluator.abandon()

    def _take_up(self, draft: Solution) -> Contender:
        """Make a draft the current version, and end the workers and builds of those that it replaces."""
        latest = self._latest
        if latest is None or latest.version is None or latest.version.sha256 != digest(draft):
            if latest is not None and latest.passed:
                self._before = latest
            self._count += 1
            latest = Contender(draft.model_copy(update={"name": f"{draft.name}#{self._count}"}), self._count)
        self._latest = latest
        if self._rivals is None:
            self._rivals = list(map(Contender, choose_rivals(self._registry, self.definition, self.device)[:1]))
        # The current one's worker is kept only if it is right: what failed to build may build now.
        kept = [self._before, *self._rivals, latest if latest.passed else None]
        self._evaluator.keep_only(
            (contender.solution for contender in kept if contender),
            (version.solution for version in (self._before, latest) if version),
        )
        return latest
